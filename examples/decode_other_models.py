"""Exact decoding of two models that are not ours: a Hugging Face token classifier, and a spaCy span categoriser.

Both are made here, small and hardly trained, so that nothing is fetched: put your own in their place. What comes out is
the best set of entities, each with its exact probability, and one answer of both models together.

    python examples/decode_other_models.py --steps 60
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import spacy
import torch
from spacy.training import Example
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from spansieve.decode import SpanDecoder, TokenDecoder, averaged

TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
SENTENCES = [  # words, and entities as (start, end, label)
    ("Ada Lovelace lives in London", [(0, 2, "PER"), (4, 5, "LOC")]),
    ("Grace Hopper went to New York", [(0, 2, "PER"), (4, 6, "LOC")]),
    ("New York greets Ada", [(0, 2, "LOC"), (3, 4, "PER")]),
    ("London is far from Boston", [(0, 1, "LOC"), (4, 5, "LOC")]),
    ("Hopper met Lovelace in Boston", [(0, 1, "PER"), (2, 3, "PER"), (4, 5, "LOC")]),
    ("nobody went there", []),
]
WORDS = ["Grace", "Lovelace", "went", "to", "New", "London"]


def token_classifier(steps: int) -> tuple[BertForTokenClassification, PreTrainedTokenizerFast]:
    """A tiny BERT with random weights, trained for some steps."""
    words = sorted({word for text, _ in SENTENCES for word in text.split()})
    # London and Lovelace are cut into subwords.
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "Lon", "##don", "Love", "##lace", *words]
    vocabulary = {piece: i for i, piece in enumerate(p for p in pieces if p not in ("London", "Lovelace"))}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
    fast.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(vocabulary), **sizes, id2label=dict(enumerate(TAGS)))
    model = BertForTokenClassification(config)
    inputs = tokenizer([text.split() for text, _ in SENTENCES], is_split_into_words=True, padding=True)
    gold = torch.full(np.shape(inputs["input_ids"]), -100)
    for b, (_, entities) in enumerate(SENTENCES):
        ids = inputs.word_ids(b)
        for position, word in enumerate(ids):
            if word is not None and word != ids[position - 1]:  # the first subword of each word has its tag
                gold[b, position] = TAGS.index(tag_of(word, entities))
    batch = {name: torch.tensor(rows) for name, rows in inputs.items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**batch, labels=gold).loss.backward()
        optimizer.step()
    return model.eval(), tokenizer


def tag_of(word: int, entities: list[tuple[int, int, str]]) -> str:
    inside = [(start, label) for start, end, label in entities if start <= word < end]
    return f"{'B' if inside[0][0] == word else 'I'}-{inside[0][1]}" if inside else "O"


def span_categoriser(steps: int) -> Any:
    """A blank spaCy pipeline that scores every span of up to three tokens."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    suggester = {"@misc": "spacy.ngram_suggester.v1", "sizes": [1, 2, 3]}
    nlp.add_pipe("spancat", config={"suggester": suggester, "threshold": 0.01, "spans_key": "sc"})
    examples = []
    for text, entities in SENTENCES:
        doc = nlp.make_doc(text)
        spans = {(doc[a].idx, doc[z - 1].idx + len(doc[z - 1]), label): 1.0 for a, z, label in entities}
        examples.append(Example.from_dict(doc, {"spans": {"sc": [(*key,) for key in spans]}}))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--steps", type=int, default=60, help="of training, for both")
    options = arguments.parse_args()

    model, tokenizer = token_classifier(options.steps)
    inputs = tokenizer([WORDS], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs).logits.numpy()
    tokens = TokenDecoder(model.config.id2label)(logits, word_ids=[inputs.word_ids(0)])
    show("token classifier", tokens)
    for rank, (segments, probability) in enumerate(tokens.top_k(3)[0], start=1):
        print(f"  {rank}. {[(' '.join(WORDS[s.start : s.end]), s.label) for s in segments]} {probability:.3f}")

    doc = span_categoriser(options.steps)(" ".join(WORDS))
    group = doc.spans["sc"]
    scored = [(span.start, span.end, span.label_, score) for span, score in zip(group, group.attrs["scores"])]
    spans = SpanDecoder(score="probability", labels=["LOC", "PER"])([scored])
    print(f"span categoriser: {len(scored)} spans above its threshold")
    show("the best disjoint set of them", spans)

    show("both, averaged", averaged([tokens, spans]))


def show(name: str, decoded: Any) -> None:
    print(f"{name}:")
    for start, end, label, probability in decoded.best()[0]:
        print(f"  {' '.join(WORDS[start:end])}: {label} with probability {probability:.3f}")


if __name__ == "__main__":
    main()
