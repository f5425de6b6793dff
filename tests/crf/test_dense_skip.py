"""Paths that may skip, from dense scores: by listing the candidates and by a sweep over every span, which is chosen
where it is cheaper. Either is forced here, and both must be what enumeration says."""

from __future__ import annotations

import math
from contextlib import contextmanager

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given as drawing
from hypothesis import settings
from torch.testing import assert_close

from spansieve import Segment
from spansieve.crf import FilteredSemiMarkov, Known, given
from spansieve.crf.filtered_semi_markov import FilteredOnCpu, FilteredOnCpuDense
from spansieve.crf.kernels import FilterLimits, reference
from spansieve.crf.kernels.cpu import dense_skip, torch_api
from tests import oracle
from tests.batches import Batch, random_batch
from tests.contract import check_best, check_samples, check_scores, check_top_k, close, rounding
from tests.instances import gold_for, instances

SWEEPS = [pytest.param(0.0, id="every_span"), pytest.param(math.inf, id="listed")]
LIMITS = st.builds(FilterLimits, st.integers(1, 3), st.one_of(st.none(), st.integers(0, 6)))
ALL_LABELS = FilterLimits(9)


@contextmanager
def dense_from(candidates_per_span: float):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_skip, "DENSE_FROM", candidates_per_span)
        yield


def skipping(*arguments, **options) -> FilteredSemiMarkov:
    return FilteredSemiMarkov.from_scores(*arguments, skip=True, **options)


def of_batch(batch: Batch, dtype=torch.float64, limits=ALL_LABELS, gold=None, **options) -> FilteredSemiMarkov:
    return skipping(*batch.tensors(dtype), batch.lengths, gold, **limits._asdict(), **options)


def never_listed(distribution: FilteredSemiMarkov) -> bool:
    return isinstance(distribution, FilteredOnCpuDense) and "_kept" not in distribution.__dict__


# ---- Against enumeration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", SWEEPS)
@drawing(data=st.data(), drawn=instances(), limits=LIMITS)
@settings(max_examples=100, deadline=None)
def test_equals_enumeration(sweep, data, drawn, limits):
    arguments = [drawn.tensor(array) for array in (drawn.local_scores, drawn.scores, drawn.transition)]
    local_scores = arguments[0].double().numpy()
    gold = data.draw(st.sampled_from([None, "some"])) and gold_for(data.draw, drawn.lengths, *drawn.scores.shape[2:])
    with dense_from(sweep):
        found = skipping(*arguments, drawn.lengths, gold, **limits._asdict())
    assert isinstance(found, FilteredOnCpuDense if sweep == 0 else FilteredOnCpu)
    if gold is None:
        kept = oracle.kept_by_filter(local_scores, drawn.lengths, *limits)
    else:
        kept = oracle.kept_for_training(local_scores, drawn.lengths, gold, True, **limits._asdict())
    place = places_of(kept)
    expected = oracle.filtered(kept, drawn.scores[place], drawn.transition, skip=True)
    marginals, within = np.zeros(drawn.scores.shape), rounding(found, expected)
    marginals[place] = expected.marginals
    close(found.log_partition, expected.log_partition, within.sums)
    close(found.marginals, marginals, within.shares)
    close(found.transition_counts, expected.transition_counts, within.shares)
    close(found.entropy(), expected.entropy(), within.entropy)
    check_best(found, expected, drawn.is_exact)
    check_top_k(found, expected, 3)
    check_scores(found, expected)
    assert [sorted(nodes) for nodes in found.candidates.segments()] == kept
    assert found.scores.shape == (len(found.candidates),)
    if gold is not None and np.isfinite(drawn.scores).all() and np.isfinite(drawn.transition).all():
        close(found.log_prob(gold), found.log_prob([list(golden) for golden in gold]).numpy(), within.sums)


def places_of(kept: list[list[Segment]]) -> tuple[np.ndarray, ...]:
    """Where the candidates stand in dense scores, in (sentence, end, start, label) order."""
    columns = [
        (b, s.start, s.width - 1, s.label)
        for b, nodes in enumerate(kept)
        for s in sorted(nodes, key=lambda s: (s.end, s.start, s.label))
    ]
    return tuple(np.array(columns, np.int64).reshape(-1, 4).T)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_samples_come_with_their_probabilities(sweep):
    batch = random_batch(0, (3, 0, 2), 2, 3)
    with dense_from(sweep):
        found = of_batch(batch)
    kept = oracle.kept_by_filter(batch.local_scores, batch.lengths, *ALL_LABELS)
    check_samples(found, oracle.filtered(kept, batch.scores[places_of(kept)], batch.transition, skip=True))


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("has_gold", [False, True])
def test_derivatives_of_both_orders_are_those_of_the_reference(sweep, has_gold):
    batch = random_batch(4, (5, 0, 4, 1), 3, 4)
    gold = batch.gold if has_gold else None

    def derivatives(kernel):
        local_scores, *inputs = batch.tensors(torch.float64, requires_grad=True)
        found = skipping(local_scores, *inputs, batch.lengths, gold, labels_per_span=3, kernel=kernel)
        weight = torch.tensor([0.5, 1.0, -2.0, 3.0], dtype=torch.float64)
        asked = {
            "log_partition": found.log_partition,
            "log_prob": found.log_prob(gold or found.mode),
            "entropy": found.entropy(),
        }
        for name, value in asked.items():
            first = torch.autograd.grad((weight * value).sum(), inputs, retain_graph=True, create_graph=True)
            yield name, first
            squares = sum((gradient**2).sum() for gradient in first)
            if squares.requires_grad and name != "entropy":
                yield name + " twice", torch.autograd.grad(squares, inputs, retain_graph=True)

    with dense_from(sweep):
        ours, theirs = dict(derivatives(torch_api)), dict(derivatives(reference))
    assert ours.keys() == theirs.keys()
    assert "log_prob twice" in ours
    for name, gradients in ours.items():
        assert_close(gradients, theirs[name], rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


# ---- Against the other sweep, where enumeration does not reach -------------------------------------------------------


def both(batch: Batch, **options) -> tuple[FilteredSemiMarkov, FilteredSemiMarkov]:
    found = []
    for sweep in (0.0, math.inf):
        with dense_from(sweep):
            found.append(of_batch(batch, **options))
    return found[0], found[1]


def agree(dense: FilteredSemiMarkov, listed: FilteredSemiMarkov, tolerance: float = 1e-10) -> None:
    assert dense.max_score.equal(listed.max_score)
    assert dense.mode == listed.mode
    for name in ("log_partition", "marginals", "transition_counts"):
        assert_close(getattr(dense, name), getattr(listed, name), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("whole_numbers", [True, False], ids=["ties", "no_ties"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_same_path_bit_for_bit(dtype, whole_numbers):
    for seed in range(40):
        limits = FilterLimits(1 + seed % 4, None if seed % 3 else 40)
        batch = random_batch(seed, (30, 1, 17, 0), 1 + seed % 6, 2 + seed % 8, whole_numbers)
        agree(*both(batch, dtype=dtype, limits=limits), 1e-10 if dtype is torch.float64 else 2e-5)


def test_what_rounding_makes_equal():
    """Scores that differ, and no longer do once a large transition is added."""
    for seed in range(40):
        batch = random_batch(seed, (12, 9), 3, 4, whole_numbers=True)
        batch.scores[...] += np.random.default_rng(seed).normal(scale=1e-6, size=batch.scores.shape)
        batch.transition[...] += 30.0
        dense, listed = both(batch, dtype=torch.float32)
        assert dense.max_score.equal(listed.max_score)
        assert dense.mode == listed.mode


@pytest.mark.parametrize("num_labels", [1, 2, 3, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("max_width", [1, 2, 5])
def test_all_numbers_of_labels_and_widths(num_labels, max_width):
    agree(*both(random_batch(num_labels, (9, 2, 0), max_width, num_labels)))


def test_a_long_sentence():
    batch = random_batch(3, (600, 171), 4, 4)
    batch.scores[...] += 3.0  # log Z leaves exp far behind
    agree(*both(batch), 1e-9)


def test_what_is_likely_though_the_best_on_both_sides_do_not_meet():
    """Label 1 is by far the best before each boundary and label 2 after it, but the one cannot follow the other."""
    batch = random_batch(0, (4, 4), 2, 4)
    batch.transition[1:, 1:] = [[0.0, -4000.0, -2000.0], [2000.0, 0.0, -1500.0], [1500.0, 0.0, 2000.0]]
    batch.scores[:, :2, :, 1] += 1500.0
    batch.scores[:, 2:, :, 2] += 1500.0
    agree(*both(batch), 1e-9)


# ---- What is asked for and what is not -------------------------------------------------------------------------------


def test_training_and_prediction_never_list_the_candidates():
    batch = random_batch(2, (6, 0, 5), 3, 4)
    local_scores, scores, transition = batch.tensors(torch.float64, requires_grad=True)
    with dense_from(0.0):
        training = skipping(local_scores, scores, transition, batch.lengths, batch.gold, labels_per_span=3)
        prediction = of_batch(batch)
    training.log_prob(batch.gold).sum().backward()
    assert never_listed(training)
    assert (prediction.max_score >= 0).all()
    assert len(prediction.mode) == 3
    assert ((prediction.marginals >= 0) & (prediction.marginals <= 1)).all()
    assert prediction.log_partition.isfinite().all()
    assert never_listed(prediction)


def test_log_z_without_gradients_first_has_them_later():
    batch = random_batch(2, (6, 5), 3, 4)
    local_scores, scores, transition = batch.tensors(torch.float64, requires_grad=True)
    with dense_from(0.0):
        found = skipping(local_scores, scores, transition, batch.lengths)
    with torch.no_grad():
        before = found.log_partition
        before.zero_()
        found.marginals.zero_()
    assert not before.requires_grad
    assert found.log_partition.requires_grad
    (gradient,) = torch.autograd.grad(found.log_partition.sum(), scores, retain_graph=True)
    assert_close(gradient, found.marginals.detach())
    (again,) = torch.autograd.grad(2 * found.log_partition.sum(), scores)
    assert_close(again, 2 * gradient)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_conditioned(sweep):
    batch = random_batch(7, (5, 4), 3, 4)
    known = [Known(required=(Segment(1, 3, 2),)), Known(forbidden=(Segment(0, 1, 1),))]
    with dense_from(sweep):
        ours = given(of_batch(batch), known, [(1, 2)])
    expected = given(of_batch(batch, kernel=reference), known, [(1, 2)])
    assert_close(ours.log_partition, expected.log_partition)
    assert_close(ours.marginals, expected.marginals)
    assert ours.mode == expected.mode


# ---- Which sweep -----------------------------------------------------------------------------------------------------


def test_the_sweep_over_every_span_is_for_graphs_that_may_skip_and_have_almost_all():
    everything = torch.randn(2, 20, 4, 5)
    everything[..., 0] = -torch.inf
    few = torch.randn(2, 20, 4, 5)
    few[..., 0] = 3.0
    rest = (torch.randn(2, 20, 4, 5), torch.zeros(5, 5), [20, 13])
    assert isinstance(skipping(everything, *rest, labels_per_span=4), FilteredOnCpuDense)
    assert isinstance(skipping(everything, *rest), FilteredOnCpuDense)
    assert isinstance(skipping(everything, *rest, budget=60), FilteredOnCpuDense)
    for listed in (
        skipping(few, *rest, labels_per_span=4),
        skipping(everything, *rest, budget=6),
        FilteredSemiMarkov.from_scores(everything, *rest),
    ):
        assert not isinstance(listed, FilteredOnCpuDense)


@pytest.mark.parametrize("shape", [(0, 4, 2, 3), (2, 0, 2, 3), (2, 4, 2, 1)])
@pytest.mark.parametrize("sweep", SWEEPS)
def test_nothing_to_choose_from(sweep, shape):
    scores, transition = torch.zeros(shape), torch.zeros(shape[3], shape[3], requires_grad=True)
    with dense_from(sweep):
        found = skipping(scores, scores, transition, [min(4, shape[1])] * shape[0])
    assert found.mode == [()] * shape[0]
    assert found.log_partition.tolist() == [0.0] * shape[0]
    found.log_partition.sum().backward()
    assert (transition.grad == 0).all()


# ---- What cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("limits", [FilterLimits(), FilterLimits(2), FilterLimits(4), FilterLimits(4, 30)])
def test_what_is_no_number(sweep, wrong, limits):
    local_scores, scores, transition = torch.ones(2, 5, 2, 5), torch.zeros(2, 5, 2, 5), torch.zeros(5, 5)
    local_scores[..., 0] = 0.0
    with dense_from(sweep):
        for at, what in ((0, "scores"), (1, "scores"), (2, "transition")):
            arguments = [local_scores.clone(), scores.clone(), transition.clone()]
            arguments[at][(1, 2, 0, 1)[-arguments[at].ndim :]] = wrong
            with pytest.raises(ValueError, match=f"{what} must be numbers below"):
                skipping(*arguments, [5, 4], **limits._asdict())
        ignored = scores.clone()
        ignored[..., 0], ignored[1, 4] = wrong, wrong  # null, and beyond the sentence
        assert skipping(local_scores, ignored, transition, [5, 4], **limits._asdict()).log_partition.isfinite().all()


@pytest.mark.parametrize("sweep", SWEEPS)
def test_lengths_and_gold_that_cannot_be(sweep):
    scores, transition = torch.ones(1, 4, 2, 3), torch.zeros(3, 3)
    scores[..., 0] = 0.0
    with dense_from(sweep):
        for length in (-1, 5):
            with pytest.raises(
                ValueError, match=f"lengths must lie between 0 and 4, the number of tokens, got {length}"
            ):
                skipping(scores, scores, transition, [length])
        overlapping = [[Segment(0, 2, 1), Segment(1, 3, 2)]]
        with pytest.raises(ValueError, match=r"must not overlap, got segment \(0, 2, 1\) and segment \(1, 3, 2\)"):
            skipping(scores, scores, transition, [4], overlapping).log_prob(overlapping)
        gold = [[Segment(0, 2, 1), Segment(2, 3, 2)]]
        nowhere = scores.clone()
        nowhere[0, 2, 0, 2] = -math.inf
        with pytest.raises(ValueError, match="structure 0 is outside the support: a part of it has a score of -inf"):
            skipping(scores, nowhere, transition, [4], gold).log_prob(gold)
        nan = scores.clone()
        nan[0, 2, 0, 2] = math.nan
        below_null = torch.zeros_like(scores)
        with pytest.raises(ValueError, match="scores must be numbers below"):
            skipping(below_null, nan, transition, [4], gold)
