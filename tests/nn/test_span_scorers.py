"""Every scorer against a loop over spans that follows its definition, and `at` against `dense`."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from spansieve.config import Features
from spansieve.crf import Candidates
from spansieve.nn.span_scorers import EndpointScorer, MaxScorer, SpanScorer, SumScorer, span_scorer

KINDS = get_args(Features)
SIZE, HIDDEN, LABELS, SETS = 6, 5, 3, 2


def scorer(kind: str, max_width: int = 4, dropout: float = 0.0) -> SpanScorer:
    torch.manual_seed(1)
    made = span_scorer(kind, SIZE, HIDDEN, max_width, LABELS, SETS, dropout).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


def some_tokens(num_sentences: int = 3, length: int = 7, requires_grad: bool = False) -> torch.Tensor:
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


def spans_within(length: int, max_width: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(length) for j in range(i + 1, min(i + max_width, length) + 1)]


def every_candidate(lengths: list[int], max_width: int) -> Candidates:
    lists = [[(i, j, y) for i, j in spans_within(n, max_width) for y in range(1, LABELS)] for n in lengths]
    return Candidates.from_lists(lists, lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "max_width"), [(7, 4), (2, 4), (1, 4), (1, 1), (5, 1), (5, 5)])
def test_dense_is_what_the_definition_says_of_every_span(kind, length, max_width):
    made, tokens = scorer(kind, max_width), some_tokens(2, length)
    dense = made.dense(made(tokens))
    assert dense.shape == (2, length, max_width, SETS * LABELS)
    for b in range(2):
        for start, end in spans_within(length, max_width):
            expected = score_of_span(made, tokens[b, start:end])
            torch.testing.assert_close(dense[b, start, end - start - 1], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_width", [1, 4, 9])
def test_the_candidates_alone_score_as_they_do_among_all(kind, max_width):
    made, tokens, lengths = scorer(kind, max_width), some_tokens(), [7, 1, 4]
    state = made(tokens)
    candidates = every_candidate(lengths, max_width)
    dense = made.dense(state)[candidates.sentence, candidates.start, candidates.end - candidates.start - 1]
    torch.testing.assert_close(made.rows(state, candidates), dense)
    for which in range(SETS):
        expected = dense.gather(1, (candidates.label + which * LABELS)[:, None])[:, 0]
        torch.testing.assert_close(made.at(state, candidates, which), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_no_candidate_has_no_score(kind):
    made = scorer(kind)
    candidates = Candidates.from_lists([[], [], []], [7, 7, 7])
    assert made.at(made(some_tokens()), candidates, 0).shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_without_tokens_there_is_no_score(kind, shape):
    made = scorer(kind)
    tokens = torch.zeros(*shape, SIZE, dtype=torch.float64)
    assert made.dense(made(tokens)).shape == (*shape, 4, SETS * LABELS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_beyond_a_sentence_changes_nothing_inside(kind):
    made, tokens, length = scorer(kind), some_tokens(), 4
    changed = tokens.clone()
    changed[:, length:] = 1e3
    inside = [(i, j - i - 1) for i, j in spans_within(length, 4)]
    start, width = torch.tensor(inside).unbind(1)
    before, after, alone = (made.dense(made(x))[:, start, width] for x in (tokens, changed, tokens[:, :length]))
    torch.testing.assert_close(before, after, rtol=0, atol=0)
    torch.testing.assert_close(before, alone)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_right_and_the_same_both_ways(kind):
    made, tokens, lengths = scorer(kind), some_tokens(requires_grad=True), [7, 2, 5]
    candidates = every_candidate(lengths, 4)
    place = candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label
    inputs = (tokens, *made.parameters())
    weight = torch.linspace(-1, 1, len(candidates), dtype=torch.float64)
    from_dense = torch.autograd.grad((made.dense(made(tokens))[place] * weight).sum(), inputs)
    from_rows = torch.autograd.grad((made.at(made(tokens), candidates, 0) * weight).sum(), inputs)
    for left, right in zip(from_dense, from_rows):
        assert left.isfinite().all()
        torch.testing.assert_close(left, right)
    assert torch.autograd.gradcheck(lambda x: made.dense(made(x)), (some_tokens(1, 3, True),))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(kind, dtype):
    made, tokens, candidates = scorer(kind), some_tokens(), every_candidate([7, 7, 7], 4)
    state = made(tokens)
    dense, rows = made.dense(state), made.rows(state, candidates)
    made.to(dtype)
    half = made(tokens.to(dtype))
    torch.testing.assert_close(made.dense(half).double()[:, :4], dense[:, :4], rtol=0.05, atol=0.3)
    torch.testing.assert_close(made.rows(half, candidates).double(), rows, rtol=0.05, atol=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_has_a_gradient(kind):
    made, tokens = scorer(kind).float(), some_tokens().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        made.dense(made(tokens)).float().sum().backward()
    assert tokens.grad is not None
    assert tokens.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["mean", "sum", "endpoints-content"])
def test_a_span_far_into_a_long_text_scores_as_it_does_at_the_start(kind):
    made = scorer(kind).float()
    short = some_tokens(1, 6).float() + 3.0
    long = torch.cat((torch.full((1, 20_000, SIZE), 3.0), short), dim=1)
    with torch.inference_mode():
        expected, found = made.dense(made(short)), made.dense(made(long))[:, -6:]
    start, width = torch.tensor([(i, j - i - 1) for i, j in spans_within(6, 4)]).unbind(1)
    expected, found = expected[:, start, width].float(), found[:, start, width].float()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_dropout_only_in_training():
    for kind in ("max", "endpoints", "endpoints-content"):
        made, tokens = scorer(kind, dropout=0.5), some_tokens()
        assert torch.equal(made.dense(made(tokens)), made.dense(made(tokens)))
        made.train()
        assert not torch.equal(made.dense(made(tokens)), made.dense(made(tokens)))
