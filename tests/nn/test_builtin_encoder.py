"""The built-in encoder: a sentence has the same vectors in any company."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from spansieve.config import BuiltinConfig, ModelConfig
from spansieve.nn.builtin_encoder import BuiltinEncoder, LstmContext
from spansieve.nn.encoder import build_encoder
from spansieve.nn.word_features import IDENTITY

SMALL = BuiltinConfig(rows=50, feature_size=4, size=6)
SENTENCES = [["Paris", "is", "big"], [], ["Paris"], ["x" * 10_000, "\u200b", "", "\ud800", "is", "👍🏽"], ["is"] * 9]
CONTEXTS = [("lstm", 1), ("lstm", 2), ("conv", 1), ("conv", 3)]


def encoder(context: str = "lstm", layers: int = 1, **settings) -> BuiltinEncoder:
    torch.manual_seed(0)
    return BuiltinEncoder(replace(SMALL, context=context, layers=layers, **settings)).double().eval()


@pytest.mark.parametrize(("context", "layers"), CONTEXTS)
def test_a_padded_batch_equals_each_sentence_alone(context, layers):
    made = encoder(context, layers)
    together = made(made.features(SENTENCES))
    assert together.shape == (5, 9, made.size)
    for b, sentence in enumerate(SENTENCES):
        alone = made(made.features([sentence]))
        assert alone.shape == (1, len(sentence), made.size)
        torch.testing.assert_close(together[b, : len(sentence)], alone[0])
        assert not together[b, len(sentence) :].any()


@pytest.mark.parametrize(("context", "layers"), CONTEXTS)
def test_gradients_of_a_batch_are_the_sum_of_its_sentences(context, layers):
    made = encoder(context, layers)

    def gradients(sentences):
        made.zero_grad()
        made(made.features(sentences)).square().sum().backward()
        return [parameter.grad.clone() for parameter in made.parameters()]

    apart = [gradients([sentence]) for sentence in SENTENCES if sentence]
    for together, *parts in zip(gradients(SENTENCES), *apart):
        torch.testing.assert_close(together, sum(parts))


@pytest.mark.parametrize(("context", "layers"), CONTEXTS)
@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_nothing_to_read(context, layers, sentences):
    made = encoder(context, layers)
    assert made(made.features(sentences)).shape == (len(sentences), 0, made.size)


def test_the_unpacked_lstm_reads_as_a_packed_one():
    torch.manual_seed(0)
    context, size = LstmContext(4, 1, 0.0), 4
    packed = nn.LSTM(size, size, batch_first=True, bidirectional=True)
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        getattr(packed, name).data = getattr(context.rightward[0], name).data
        getattr(packed, f"{name}_reverse").data = getattr(context.leftward[0], name).data
    words, lengths = torch.randn(3, 5, size), torch.tensor([5, 1, 3])
    rows = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(packed(rows)[0], batch_first=True)
    torch.testing.assert_close(context(words, lengths), expected)


def test_both_neighbours_matter():
    for context in ("lstm", "conv"):
        made = encoder(context)
        middle = [
            made(made.features([sentence]))[0, 1] for sentence in (["a", "b", "c"], ["x", "b", "c"], ["a", "b", "x"])
        ]
        assert not torch.equal(middle[0], middle[1])
        assert not torch.equal(middle[0], middle[2])


def test_identity_is_hidden_in_training_only():
    made = encoder(word_dropout=1.0, dropout=0.0)
    features = made.features([["Paris", "Parma"]])
    seen = features | {"fields": features["fields"].clone()}
    seen["fields"][:, :IDENTITY] = 0
    assert not torch.equal(made(features), made(seen))
    made.train()
    torch.testing.assert_close(made(features), made(seen))


def test_features_are_made_once_for_each_distinct_word():
    features = encoder().features([["a", "b", "a"], ["b"]])
    assert features["words"].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert len(features["fields"]) == len(features["gram_offsets"]) == 2
    assert features["num_tokens"].tolist() == [3, 1]


def test_it_is_built_by_its_name():
    made = build_encoder(replace(ModelConfig(), builtin=SMALL))
    assert isinstance(made, BuiltinEncoder)
    assert not made.is_pretrained
