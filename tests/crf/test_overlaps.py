"""Overlap resolution against every subset."""

from __future__ import annotations

import itertools
import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from spansieve.crf import best_disjoint

spans = st.tuples(st.integers(-3, 6), st.integers(1, 4), st.integers(-2, 3)).map(lambda t: (t[0], t[0] + t[1], t[2]))


def columns(scored: list[tuple[int, int, int]]) -> tuple[list[int], list[int], list[int]]:
    starts, ends, scores = zip(*scored) if scored else ((), (), ())
    return list(starts), list(ends), list(scores)


def is_disjoint(chosen: list[tuple[int, int, int]]) -> bool:
    ordered = sorted(chosen)
    return all(left[1] <= right[0] for left, right in zip(ordered, ordered[1:]))


def brute_force(scored: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """The best set of all, and of equally good ones the one that the docstring names: (start, end) of its spans."""
    subsets = itertools.chain.from_iterable(itertools.combinations(scored, n) for n in range(len(scored) + 1))
    possible = [s for s in subsets if is_disjoint(list(s)) and all(score > 0 for _, _, score in s)]
    best = max(sum(score for _, _, score in s) for s in possible)
    order = [
        sorted(((end, start) for start, end, _ in s), reverse=True)
        for s in possible
        if sum(score for _, _, score in s) == best
    ]
    return sorted((start, end) for end, start in min(order))


def kept(scored: list[tuple[int, int, int]], **options) -> list[tuple[int, int, int]]:
    return list(itertools.compress(scored, best_disjoint(*columns(scored), **options)))


@given(scored=st.lists(spans, max_size=9))
@settings(max_examples=300, deadline=None)
def test_equals_every_subset(scored):
    chosen = kept(scored)
    assert is_disjoint(chosen)
    assert all(score > 0 for _, _, score in chosen)
    assert sorted((start, end) for start, end, _ in chosen) == brute_force(scored)
    assert sum(score for _, _, score in chosen) == sum(
        max((score for *span, score in scored if tuple(span) == chosen_span), default=0)
        for chosen_span in brute_force(scored)
    )


@given(scored=st.lists(st.tuples(spans, st.sampled_from([-7, 0, 3, 10**12])), max_size=20), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_a_batch_equals_one_by_one_in_any_order(scored, seed):
    order = np.random.default_rng(seed).permutation(len(scored))
    scored = [scored[k] for k in order]
    sentences = [sentence for _, sentence in scored]
    together = best_disjoint(*columns([span for span, _ in scored]), sentences=sentences)
    for sentence in set(sentences):
        places = [k for k, other in enumerate(sentences) if other == sentence]
        alone = best_disjoint(*columns([scored[k][0] for k in places]))
        assert together[places].tolist() == alone.tolist()


@given(scored=st.lists(spans, max_size=9), shift=st.integers(-(2**60), 2**60), stretch=st.integers(1, 2**40))
@settings(max_examples=50, deadline=None)
def test_only_the_order_of_positions_counts(scored, shift, stretch):
    far = [(shift + start * stretch, shift + end * stretch, score) for start, end, score in scored]
    assert best_disjoint(*columns(far)).tolist() == best_disjoint(*columns(scored)).tolist()


def test_touching_spans_do_not_overlap():
    assert best_disjoint([0, 2], [2, 4], [1.0, 1.0]).tolist() == [True, True]


@pytest.mark.parametrize("score", [0.0, -1.0, -np.inf])
def test_a_span_that_adds_nothing_is_left_out(score):
    assert best_disjoint([0, 5], [1, 6], [score, 1.0]).tolist() == [False, True]


def test_nothing_given():
    chosen = best_disjoint([], [], [])
    assert chosen.shape == (0,)
    assert chosen.dtype == np.bool_
    assert best_disjoint([], [], [], sentences=[]).shape == (0,)


def test_whole_number_and_single_precision_scores():
    for scores in ([2, 3, 2], np.array([2, 3, 2], np.float32), np.array([2, 3, 2], np.float16)):
        assert best_disjoint([0, 1, 3], [2, 4, 5], scores).tolist() == [True, False, True]


def test_arguments_are_left_as_they_were():
    arrays = np.array([3, 0, 1]), np.array([5, 2, 4]), np.array([2.0, 2.0, 3.0]), np.array([1, 1, 1])
    before = [array.copy() for array in arrays]
    best_disjoint(*arrays)
    for array, copy in zip(arrays, before):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (([0, 1], [1], [1.0, 1.0]), ValueError, r"ends must have shape \(2,\), one entry per span, got \(1,\)"),
        (([0], [1], [1.0, 1.0]), ValueError, r"scores must have shape \(1,\)"),
        (([0], [1], [1.0], [0, 0]), ValueError, r"sentences must have shape \(1,\)"),
        (([[0]], [[1]], [[1.0]]), ValueError, r"starts must have shape"),
        (([0.5], [1], [1.0]), TypeError, "starts must be integers, got float64"),
        (([0], [1.5], [1.0]), TypeError, "ends must be integers, got float64"),
        (([0], [1], [1.0], [0.5]), TypeError, "sentences must be integers, got float64"),
        (([0, 2], [1, 2], [1.0, 1.0]), ValueError, r"span 1 must end after it starts, got \[2, 2\)"),
        (([3], [1], [1.0]), ValueError, r"span 0 must end after it starts, got \[3, 1\)"),
        (([0], [1], [np.nan]), ValueError, "scores must be numbers below"),
        (([0], [1], [np.inf]), ValueError, "scores must be numbers below"),
    ],
)
def test_errors(arguments, kind, message):
    with pytest.raises(kind, match=message):
        best_disjoint(*arguments)


def test_comes_without_torch():
    code = """
import sys
from spansieve.crf import best_disjoint
assert best_disjoint([0, 1], [2, 3], [1.0, 2.0]).tolist() == [False, True]
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
