"""Encoders of a few weights, made on the spot: nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BERT_MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def bert_folder(folder: Path, positions: int = 64) -> str:
    """An uncased BERT of one layer whose subwords are letters and a few words."""
    words = [*BERT_MARKS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "paris", "london", "the", "."]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        max_position_embeddings=positions,
        hidden_dropout_prob=0.1,
        initializer_range=0.5,
        **SIZES,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def roberta_folder(folder: Path, positions: int = 66) -> str:
    """A RoBERTa of one layer with a byte-level tokenizer that knows words by the blank before them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=ROBERTA_MARKS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["in Paris and in Paris"] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), ROBERTA_MARKS))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=positions, pad_token_id=1, **SIZES
    )
    RobertaModel(config).save_pretrained(folder)
    return str(folder)


def change_settings(folder: str, name: str, **settings: object) -> None:
    """Of a JSON file in the folder."""
    path = Path(folder) / name
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
