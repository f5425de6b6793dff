"""Filters that keep more labels of a span, and at most so many candidates of a sentence."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spansieve import Segment
from spansieve.crf import Candidates, FilteredSemiMarkov, Gold, NestedSegments
from spansieve.crf.candidates import candidate_mask
from spansieve.crf.kernels import FilterLimits, cpu, reference
from spansieve.crf.kernels.cpu import torch_api
from tests import oracle
from tests.batches import random_batch
from tests.contract import check, close, rounding
from tests.instances import gold_for, instances

LIMITS = st.builds(FilterLimits, st.integers(1, 3), st.one_of(st.none(), st.integers(0, 6)))


@given(data=st.data(), drawn=instances(), limits=LIMITS)
@settings(max_examples=150, deadline=None)
def test_what_is_kept(data, drawn, limits):
    lists = oracle.kept_by_filter(drawn.tensor(drawn.local_scores).numpy(), drawn.lengths, *limits)
    local_scores = drawn.tensor(drawn.local_scores)
    candidates = Candidates.from_local_scores(local_scores, drawn.lengths, **limits._asdict())
    assert [sorted(found) for found in candidates.segments()] == lists
    gold = gold_for(data.draw, drawn.lengths, *drawn.scores.shape[2:])
    for skip in (False, True):
        for_training = Candidates.for_training(local_scores, drawn.lengths, gold, skip, **limits._asdict())
        near = [
            sorted({*(s for s in found if skip or any(s.overlaps(g) for g in golden)), *golden})
            for found, golden in zip(lists, gold)
        ]
        assert [sorted(found) for found in for_training.segments()] == near
        ready, lengths = Gold.from_segments(gold, local_scores.shape), torch.tensor(drawn.lengths)
        masked = Candidates.of_mask(candidate_mask(local_scores, lengths, ready, skip, limits), lengths)
        assert all(map(np.array_equal, masked.on_host(), for_training.on_host()))


@pytest.mark.parametrize("kernel", [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")])
@pytest.mark.parametrize("model", ["filtered", "filtered_skip", "nested"])
@given(drawn=instances(most_tokens=3), limits=LIMITS)
@settings(max_examples=25, deadline=None)
def test_the_distribution_over_what_is_kept(model, kernel, drawn, limits):
    lists = oracle.kept_by_filter(drawn.tensor(drawn.local_scores).numpy(), drawn.lengths, *limits)
    arguments = [drawn.tensor(array) for array in (drawn.local_scores, drawn.scores, drawn.transition)]
    options = {**limits._asdict(), "kernel": kernel}
    if model == "nested":
        dense = NestedSegments.from_scores(*arguments, drawn.lengths, **options)
    else:
        dense = FilteredSemiMarkov.from_scores(*arguments, drawn.lengths, skip=model == "filtered_skip", **options)
    c = dense.candidates
    place = tuple(x.numpy() for x in (c.sentence, c.start, c.end - c.start - 1, c.label))
    if model == "nested":
        expected = oracle.nested(lists, drawn.scores[place], drawn.transition)
        same = NestedSegments(c, dense.scores, arguments[2], kernel=kernel)
    else:
        expected = oracle.filtered(lists, drawn.scores[place], drawn.transition, model == "filtered_skip")
        same = FilteredSemiMarkov(c, dense.scores, arguments[2], model == "filtered_skip", kernel=kernel)
    check(same, expected, drawn.is_exact)
    within = rounding(dense, expected)
    close(dense.log_partition, expected.log_partition, within.sums)
    close(dense.marginals[place], expected.marginals, within.shares)
    assert np.isinf(expected.max_score).any() or dense.mode == same.mode


def test_threads_and_room_change_nothing():
    for seed in range(4):
        batch = random_batch(seed, lengths=(40, 3, 25, 0), max_width=6, num_labels=5)
        lengths = np.array(batch.lengths)
        for limits in (FilterLimits(3), FilterLimits(4, 30), FilterLimits(1, 7)):
            one, many = (cpu.filter_spans(batch.local_scores, lengths, threads=t, limits=limits) for t in (1, 4))
            assert all((a == b).all() for a, b in zip(one.graph, many.graph))
            assert limits.budget is None or np.diff(one.graph[0]).max() <= limits.budget


def test_a_budget_bounds_what_one_long_sentence_takes():
    """All spans stand above null, as in a model that knows nothing."""
    local_scores = torch.rand(1, 3000, 12, 5) + torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    everything = Candidates.from_local_scores(local_scores, [3000], labels_per_span=4)
    bounded = Candidates.from_local_scores(local_scores, [3000], labels_per_span=4, budget=200)
    assert len(everything) == 4 * (3000 * 12 - 66)
    assert len(bounded) == 200


def test_a_lone_bad_candidate_is_rejected_only_where_it_may_be_skipped():
    """The filter keeps a span that the global model knows to be bad. Every path of the paper's graph takes it."""
    local_scores = torch.zeros(1, 5, 2, 2)
    local_scores[..., 0] = 1.0
    local_scores[0, 1, 0, 1] = local_scores[0, 3, 1, 1] = 2.0  # two spans clear of each other
    global_scores = torch.zeros_like(local_scores)
    global_scores[0, 1, 0, 1], global_scores[0, 3, 1, 1] = -9.0, 3.0
    arguments = (local_scores, global_scores, torch.zeros(2, 2), [5])
    bad, good = Segment(1, 2, 1), Segment(3, 5, 1)
    assert FilteredSemiMarkov.from_scores(*arguments).mode == [(bad, good)]
    free = FilteredSemiMarkov.from_scores(*arguments, skip=True)
    assert free.mode == [(good,)]
    assert free.marginals[0, 1, 0, 1] < 0.001 < FilteredSemiMarkov.from_scores(*arguments).marginals[0, 1, 0, 1]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"labels_per_span": 0}, "labels_per_span must be at least 1, got 0"),
        ({"budget": -1}, "budget must be at least 0"),
    ],
)
def test_limits_that_cannot_be(limits, message):
    with pytest.raises(ValueError, match=message):
        Candidates.from_local_scores(torch.zeros(1, 1, 1, 2), [1], **limits)
    with pytest.raises(ValueError, match=message):
        FilteredSemiMarkov.from_scores(*torch.zeros(2, 1, 1, 1, 2), torch.zeros(2, 2), [1], **limits)
