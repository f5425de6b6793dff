"""Every scorer against a loop over spans that follows its definition."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from spansieve.config import Features
from spansieve.models.heads import HEADS
from spansieve.nn import span_scorers
from spansieve.nn.span_scorers import EndpointScorer, MaxScorer, SpanScorer, SumScorer, span_scorer
from spansieve.segments import Segment
from tests.nn.heads import head_of, vectors_of

KINDS = get_args(Features)
SIZE, HIDDEN, LABELS, SETS = 6, 5, 3, 2


def scorer(kind: str, max_width: int = 4, dropout: float = 0.0) -> SpanScorer:
    torch.manual_seed(1)
    made = span_scorer(kind, SIZE, HIDDEN, max_width, LABELS, SETS, dropout).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


def some_vectors(num_sentences: int = 3, length: int = 7, requires_grad: bool = False) -> torch.Tensor:
    torch.manual_seed(2)
    return torch.randn(num_sentences, length, SIZE, dtype=torch.float64, requires_grad=requires_grad)


def score_of_span(scorer: SpanScorer, span: torch.Tensor) -> torch.Tensor:
    """By the definition, from the vectors of one span alone, (W, D)."""
    if isinstance(scorer, SumScorer):
        features = span.mean(0) if scorer.is_mean else span.sum(0)
        return scorer.output.weight @ features + scorer.bias
    if isinstance(scorer, MaxScorer):
        return scorer.output(scorer.project(span).max(0).values)
    assert isinstance(scorer, EndpointScorer)
    first, last, *content = scorer.project(span).chunk(scorer.parts, dim=-1)
    hidden = first[0] + last[-1] + scorer.width.weight[len(span) - 1]
    for part in content:
        hidden = hidden + part.mean(0)
    return scorer.output(hidden.clamp(min=0))


class Dense(torch.nn.Module):
    """A scorer as one function of the vectors."""

    def __init__(self, made: SpanScorer) -> None:
        super().__init__()
        self.made = made

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.made.dense(self.made(vectors))


def spans_within(length: int, max_width: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(length) for j in range(i + 1, min(i + max_width, length) + 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "max_width"), [(7, 4), (2, 4), (1, 4), (1, 1), (5, 1), (5, 5)])
def test_dense_is_what_the_definition_says_of_every_span(kind, length, max_width):
    made, vectors = scorer(kind, max_width), some_vectors(2, length)
    dense = made.dense(made(vectors))
    assert dense.shape == (2, length, max_width, SETS * LABELS)
    for b in range(2):
        for start, end in spans_within(length, max_width):
            expected = score_of_span(made, vectors[b, start:end])
            torch.testing.assert_close(dense[b, start, end - start - 1], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_without_tokens_there_is_no_score(kind, shape):
    made = scorer(kind)
    vectors = torch.zeros(*shape, SIZE, dtype=torch.float64)
    assert made.dense(made(vectors)).shape == (*shape, 4, SETS * LABELS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_beyond_a_sentence_changes_nothing_inside(kind):
    made, vectors, length = scorer(kind), some_vectors(), 4
    changed = vectors.clone()
    changed[:, length:] = 1e3
    inside = [(i, j - i - 1) for i, j in spans_within(length, 4)]
    start, width = torch.tensor(inside).unbind(1)
    before, after, alone = (made.dense(made(x))[:, start, width] for x in (vectors, changed, vectors[:, :length]))
    torch.testing.assert_close(before, after, rtol=0, atol=0)
    torch.testing.assert_close(before, alone)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_right(kind):
    made, vectors = scorer(kind), some_vectors(2, 3, requires_grad=True)
    names, values = zip(*((name, p.detach().clone().requires_grad_()) for name, p in made.named_parameters()))

    def dense(vectors: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(Dense(made), {f"made.{n}": v for n, v in zip(names, values)}, (vectors,))

    assert torch.autograd.gradcheck(dense, (vectors, *values))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(kind, dtype):
    made, vectors = scorer(kind), some_vectors()
    dense = made.dense(made(vectors))
    made.to(dtype)
    half = made(vectors.to(dtype))
    torch.testing.assert_close(made.dense(half).double()[:, :4], dense[:, :4], rtol=0.05, atol=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_has_a_gradient(kind):
    made, vectors = scorer(kind).float(), some_vectors().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        made.dense(made(vectors)).float().sum().backward()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["mean", "sum", "endpoints-content"])
def test_a_span_far_into_a_long_text_scores_as_it_does_at_the_start(kind):
    made = scorer(kind).float()
    short = some_vectors(1, 6).float() + 3.0
    long = torch.cat((torch.full((1, 20_000, SIZE), 3.0), short), dim=1)
    with torch.inference_mode():
        expected, found = made.dense(made(short)), made.dense(made(long))[:, -6:]
    start, width = torch.tensor([(i, j - i - 1) for i, j in spans_within(6, 4)]).unbind(1)
    expected, found = expected[:, start, width].float(), found[:, start, width].float()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_dropout_only_in_training():
    for kind in ("max", "endpoints", "endpoints-content"):
        made, vectors = scorer(kind, dropout=0.5), some_vectors()
        assert torch.equal(made.dense(made(vectors)), made.dense(made(vectors)))
        made.train()
        assert not torch.equal(made.dense(made(vectors)), made.dense(made(vectors)))


# ---- Widths that no sentence has -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "endpoints", "endpoints-content"])
@pytest.mark.parametrize("tracked", [False, True])
def test_widths_beyond_the_sentence_are_not_scored(kind, tracked, monkeypatch):
    """Memory is that of the sentence, whatever `max_width` is; the scores are the same."""
    torch.manual_seed(0)
    wide, vectors = span_scorer(kind, 6, 8, 300, 3, sets=2, dropout=0.0).eval(), torch.randn(2, 70, 6)
    with torch.set_grad_enabled(tracked):
        scores = {length: wide.dense(wide(vectors[:, :length])) for length in (5, 70)}
        assert [scores[length].shape[2] for length in (5, 70)] == [64, 70]
        monkeypatch.setattr(span_scorers, "USUAL_WIDTH", 300)
        for length in (5, 70):
            every = wide.dense(wide(vectors[:, :length]))
            assert every.shape[2] == 300
            for start in range(length):  # of spans within the sentence
                widest = length - start
                assert torch.equal(scores[length][:, start, :widest], every[:, start, :widest])


@pytest.mark.parametrize("head", list(HEADS))
def test_heads_learn_and_predict_alike_with_and_without_them(head, monkeypatch):
    lengths, gold = [6, 4], [[Segment(0, 2, 1), Segment(3, 6, 2)], [Segment(1, 2, 1)]]
    found = []
    for usual in (64, 1_000):
        monkeypatch.setattr(span_scorers, "USUAL_WIDTH", usual)
        model, vectors = head_of(head, num_names=2, max_width=200, features="mean"), vectors_of(lengths, 0)
        losses = model.losses(vectors, torch.tensor(lengths), model.gold(gold, lengths))
        unknown = model.losses(vectors, torch.tensor(lengths), model.gold(gold, lengths, [[(2, 3)], [(2, 4)]]))
        scores = [part.detach().contiguous().numpy() for part in model.scores(vectors)]
        decoded = model.decoder()(scores, np.array(lengths), True)
        found.append((losses, unknown, decoded))
    for one, other in zip(found[0][:2], found[1][:2]):
        assert all(torch.allclose(one[name], other[name]) for name in one)
    assert all(map(np.array_equal, found[0][2].segments, found[1][2].segments))
    assert np.allclose(found[0][2].probabilities, found[1][2].probabilities)
