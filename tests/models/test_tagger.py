"""Whole models: what they take from the data, what they refuse, and that each of them learns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spansieve.config import BuiltinConfig, EncoderConfig, ModelConfig
from spansieve.data.example import Example
from spansieve.models.heads import HEADS
from spansieve.models.tagger import Tagger, width_quantile
from spansieve.models.torch_backend import predict_segments
from spansieve.segments import LabelSet
from tests.nn.tiny import bert_folder

SMALL = ModelConfig(hidden_size=16, dropout=0.0, builtin=BuiltinConfig(rows=100, feature_size=8, size=16, dropout=0.0))
EXAMPLES = [
    Example.of("Ada Lovelace met Charles Babbage in London .", [(0, 2, "PER"), (3, 5, "PER"), (6, 7, "LOC")]),
    Example.of("The Bank of England is in London .", [(1, 4, "ORG"), (6, 7, "LOC")]),
    Example.of("London Paris Rome", [(0, 1, "LOC"), (1, 2, "LOC"), (2, 3, "LOC")]),
    Example.of("Nothing happened ."),
    Example.of("Rome"),
    Example.of("University of New South Wales", [(0, 5, "ORG")]),
    Example.of("Paris Hilton left Paris", [(0, 2, "PER"), (3, 4, "LOC")]),
    Example.of([]),
]


def tagger_for(examples=EXAMPLES, **settings) -> Tagger:
    torch.manual_seed(0)
    return Tagger.for_data(replace(SMALL, **settings), examples)


@pytest.mark.parametrize(("name", "scheme"), [("crf", "BIO"), *((name, "BIOES") for name in HEADS)])
def test_every_head_learns_eight_sentences_by_heart(name, scheme):
    tagger = tagger_for(head=name, scheme=scheme).train()
    batch = tagger.batch([e.tokens for e in EXAMPLES], [tagger.training_segments(e)[0] for e in EXAMPLES])
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.02)
    for _ in range(80):
        losses = tagger(batch)
        assert all((loss > -1e-4).all() for loss in losses.values())
        optimizer.zero_grad()
        sum(loss.sum() for loss in losses.values()).backward()
        optimizer.step()
    found = predict_segments(tagger, [example.tokens for example in EXAMPLES], with_probabilities=True)
    assert [tuple(one.segments) for one in found] == [example.segments for example in EXAMPLES]
    assert all(p > 0.5 for one in found for p in one.probabilities)
    assert tagger.training


def test_labels_and_the_widest_segment_come_from_the_data():
    tagger = tagger_for()
    assert tagger.labels.names == ("LOC", "ORG", "PER")
    assert tagger.config.max_width == tagger.head.max_width == 5
    assert tagger_for(max_width=2).head.max_width == 2


@pytest.mark.parametrize(
    ("widths", "quantile", "expected"),
    [
        ([2] * 998 + [51], 0.999, 51),  # 998 of 999 are less than 99.9 %
        ([2] * 999 + [51], 0.999, 2),  # 999 of 1,000 are exactly 99.9 %
        ([2] * 998 + [9, 51], 0.999, 9),
        ([2] * 1000 + [51], 0.999, 2),
        ([2] * 999 + [9, 51], 0.999, 9),  # 999 of 1,001 are less
        ([2] * 1998 + [51, 51], 0.999, 2),
        ([2] * 1997 + [51, 51], 0.999, 51),
        ([2] * 55 + [51] * 45, 0.55, 2),  # in floating point, 0.55 · 100 is more than 55
        ([2] * 999 + [51], 1.0, 51),
        ([1, 2, 3, 4], 0.5, 2),
        ([4], 0.001, 4),
    ],
)
def test_the_width_is_the_least_that_keeps_the_quantile(widths, quantile, expected):
    assert width_quantile(widths, quantile) == width_quantile(widths[::-1], quantile) == expected


def test_an_outlier_does_not_set_the_width():
    usual = [Example.of("a b c", [(0, 2, "X"), (2, 3, "X")])] * 500
    outlier = Example.of(["a"] * 30, [(0, 30, "X")])
    assert tagger_for(usual).head.max_width == 2
    assert tagger_for([*usual, outlier]).head.max_width == 2
    assert tagger_for([*usual[:499], outlier]).head.max_width == 30  # of fewer than 1,000 segments all count
    assert tagger_for([*usual, outlier], width_quantile=1.0).head.max_width == 30
    assert tagger_for([*usual, outlier], max_width=4).head.max_width == 4
    crf = tagger_for([*usual, outlier], head="crf")
    assert crf.training_segments(outlier) == ([(0, 30, "X")], 0, 0)


def test_the_width_is_of_the_segments_that_the_head_can_learn():
    inner = [(i, i + 1, "X") for i in range(4)]
    nested = [Example.of("a b c d", [(0, 4, "X"), *inner])] * 300 + [Example.of("a b c d e f", [(0, 6, "X")])]
    assert tagger_for(nested).head.max_width == 6  # 301 segments without their inner ones
    assert tagger_for(nested, head="nested").head.max_width == 4  # of 1,501


def test_training_data_must_have_an_entity():
    with pytest.raises(ValueError, match="at least one entity, got 2 sentences with none"):
        tagger_for([Example.of("a b"), Example.of([])])


def test_the_width_must_be_known():
    with pytest.raises(ValueError, match="max_width must be set, got None"):
        Tagger(SMALL, LabelSet(["LOC"]))


def test_gold_that_cannot_be_learned_is_counted():
    example = Example.of(
        "Bank of China in New York City", [(0, 3, "ORG"), (2, 3, "LOC"), (4, 7, "LOC"), (4, 6, "LOC"), (3, 4, "X")]
    )
    narrow, any_width = tagger_for([example], max_width=2), tagger_for([example], max_width=2, head="crf")
    assert narrow.training_segments(example) == ([(3, 4, "X")], 2, 2)
    assert any_width.training_segments(example) == ([(0, 3, "ORG"), (3, 4, "X"), (4, 7, "LOC")], 2, 0)


def test_a_label_that_the_model_does_not_have_is_refused():
    tagger = tagger_for()
    with pytest.raises(KeyError, match="unknown label 'GPE'; known are LOC, ORG, PER"):
        tagger.batch([["a"]], [Example.of("a", [(0, 1, "GPE")]).segments])


def test_a_batch_without_gold_has_no_loss():
    tagger = tagger_for()
    with pytest.raises(ValueError, match="a batch must have gold"):
        tagger.losses(tagger.batch([["a"]]))


def test_predictions_come_in_the_order_of_the_sentences_whatever_the_batches():
    tagger = tagger_for()
    sentences = [example.tokens for example in EXAMPLES] * 3
    expected = [predict_segments(tagger, [sentence])[0] for sentence in sentences]
    assert predict_segments(tagger, sentences) == expected
    assert predict_segments(tagger, sentences, batch_tokens=8) == expected
    assert predict_segments(tagger, []) == []


def test_every_sentence_with_tokens_is_in_one_batch():
    tagger, seen = tagger_for(), []
    predict_segments(tagger, [e.tokens for e in EXAMPLES], on_batch=lambda indices, scored: seen.extend(indices))
    assert sorted(seen) == [i for i, example in enumerate(EXAMPLES) if len(example)]


def test_an_error_leaves_the_model_in_training():
    tagger = tagger_for().train()
    with pytest.raises(TypeError, match="a sentence must be a sequence of tokens, got 'Paris'"):
        predict_segments(tagger, ["Paris"])
    with pytest.raises(TypeError, match="a token must be a string, got 1"):
        predict_segments(tagger, [["a"], ["a", 1]])
    assert tagger.training


@pytest.mark.parametrize("name", HEADS)
def test_a_hugging_face_encoder_under_every_head(name, tmp_path):
    encoder = EncoderConfig(name=bert_folder(tmp_path), casing=True)
    tagger = tagger_for(head=name, encoder=encoder)
    batch = tagger.batch([e.tokens for e in EXAMPLES], [tagger.training_segments(e)[0] for e in EXAMPLES])
    total = sum(loss.sum() for loss in tagger(batch).values())
    total.backward()
    assert total.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in tagger.parameters())
    assert len(predict_segments(tagger, [e.tokens for e in EXAMPLES])) == len(EXAMPLES)


@pytest.mark.parametrize("name", HEADS)
def test_mixed_precision_under_every_head(name):
    tagger = tagger_for(head=name)
    batch = tagger.batch([e.tokens for e in EXAMPLES], [tagger.training_segments(e)[0] for e in EXAMPLES])
    exact = tagger(batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = tagger(batch)
        found = predict_segments(tagger, [e.tokens for e in EXAMPLES], with_probabilities=True)
    for part, loss in mixed.items():
        assert loss.dtype is torch.float32
        torch.testing.assert_close(loss, exact[part], rtol=0.05, atol=0.5)
    sum(loss.sum() for loss in mixed.values()).backward()
    assert all(p.grad.isfinite().all() for p in tagger.parameters() if p.grad is not None)
    assert len(found) == len(EXAMPLES)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("context", ["lstm", "conv"])
@pytest.mark.parametrize("features", ["sum", "max", "endpoints", "endpoints-content"])
@pytest.mark.parametrize("name", HEADS)
def test_a_gpu_gives_the_same(name, features, context, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    tagger = tagger_for(head=name, features=features, builtin=replace(SMALL.builtin, context=context, word_dropout=0.0))
    sentences = [e.tokens for e in EXAMPLES]
    batch = tagger.batch(sentences, [tagger.training_segments(e)[0] for e in EXAMPLES])
    answers = []
    for device in ("cpu", "cuda"):
        tagger.to(device).zero_grad()
        losses = tagger(batch.to(device))
        sum(loss.sum() for loss in losses.values()).backward()
        numbers = [*losses.values(), *(p.grad for p in tagger.parameters() if p.grad is not None)]
        found = predict_segments(tagger, sentences, with_probabilities=True)
        answers.append(([number.detach().cpu() for number in numbers], [one.segments for one in found]))
    # Sums of tokens tie up to rounding: a span without training with null, and two neighbours with the span of both.
    assert features == "sum" or answers[0][1] == answers[1][1]
    for here, there in zip(answers[0][0], answers[1][0]):
        # Of sums, gradients above all, what cancels leaves the rounding of the largest.
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-3 * max(1.0, float(here.abs().max())))
