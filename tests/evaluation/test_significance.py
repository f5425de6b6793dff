"""Paired tests: against every swap and every resample there is, on inputs small enough to list them."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given, settings

from spansieve.evaluation import Difference, compare, evaluate
from spansieve.evaluation.significance import comparison_rows
from tests.evaluation.segmentations import corpora

RESAMPLES = 4000
TOLERANCE = 0.05  # more than six standard errors of a share over 4,000 resamples
ONE, NONE, TWO = [(0, 1, "A")], [], [(0, 1, "A"), (2, 4, "B")]


def exact_randomisation(gold: list, a: list, b: list) -> float:
    """The share of all 2^B swaps with a difference at least as large."""
    observed = abs(evaluate(gold, b).f1 - evaluate(gold, a).f1)
    hits = 0
    for swaps in product((False, True), repeat=len(gold)):
        first = [y if swap else x for x, y, swap in zip(a, b, swaps)]
        second = [x if swap else y for x, y, swap in zip(a, b, swaps)]
        hits += abs(evaluate(gold, second).f1 - evaluate(gold, first).f1) >= observed - 1e-12
    return hits / 2 ** len(gold)


def exact_bootstrap(gold: list, a: list, b: list) -> float:
    """The share of all B^B resamples whose difference is as far from the observed one as that is from 0."""
    observed = evaluate(gold, b).f1 - evaluate(gold, a).f1
    hits = 0
    for drawn in product(range(len(gold)), repeat=len(gold)):
        truth, first, second = ([side[k] for k in drawn] for side in (gold, a, b))
        difference = evaluate(truth, second).f1 - evaluate(truth, first).f1
        hits += abs(difference - observed) >= abs(observed) - 1e-12
    return hits / len(gold) ** len(gold)


@settings(max_examples=30, deadline=None)
@given(corpora(systems=2, most=5))
def test_randomisation_agrees_with_every_swap(corpus):
    _, gold, a, b = corpus
    exact = exact_randomisation(gold, a, b)
    found = compare(gold, a, b, resamples=RESAMPLES).randomisation_p_value
    assert found == pytest.approx(exact, abs=TOLERANCE)


@settings(max_examples=30, deadline=None)
@given(corpora(systems=2, most=4))
def test_bootstrap_agrees_with_every_resample(corpus):
    _, gold, a, b = corpus
    found = compare(gold, a, b, resamples=RESAMPLES).bootstrap_p_value
    assert found == pytest.approx(exact_bootstrap(gold, a, b), abs=TOLERANCE)


@settings(max_examples=30, deadline=None)
@given(corpora(systems=2))
def test_the_order_of_the_systems_does_not_matter(corpus):
    _, gold, a, b = corpus
    there, back = compare(gold, a, b, resamples=200), compare(gold, b, a, resamples=200)
    assert there.difference.value == -back.difference.value
    assert there.difference.value == pytest.approx(there.b.f1 - there.a.f1)
    assert [d.index for d in there.differences] == [d.index for d in back.differences]


def test_identical_systems():
    comparison = compare([ONE, TWO, NONE], [ONE, ONE, NONE], [ONE, ONE, NONE], resamples=500)
    assert comparison.randomisation_p_value == comparison.bootstrap_p_value == 1
    assert comparison.difference == (0, 0, 0)
    assert comparison.differences == ()


def test_equal_scores_are_no_difference_either():
    gold = [ONE] * 40
    a, b = [ONE, NONE] * 20, [NONE, ONE] * 20
    comparison = compare(gold, a, b)
    assert comparison.randomisation_p_value == comparison.bootstrap_p_value == 1
    assert len(comparison.differences) == 40


def test_a_clear_difference():
    gold = [TWO] * 100
    comparison = compare(gold, [ONE] * 60 + gold[60:], [ONE] * 5 + gold[5:], resamples=5000)
    assert comparison.randomisation_p_value == comparison.bootstrap_p_value == 1 / 5001
    assert 0 < comparison.difference.low < comparison.difference.value < comparison.difference.high


def test_a_small_difference_may_be_luck():
    gold = [TWO] * 100
    comparison = compare(gold, [ONE] * 21 + gold[21:], [ONE] * 20 + gold[20:])
    assert comparison.randomisation_p_value == 1  # one sentence differs, whoever has it
    assert comparison.bootstrap_p_value > 0.3
    assert comparison.difference.low <= 0


def test_differences_show_the_sentences():
    comparison = compare([ONE, TWO], [ONE, NONE], [ONE, [*TWO, TWO[0]]], lengths=[4, 4], resamples=10)
    (difference,) = comparison.differences
    assert difference == Difference(1, tuple(TWO), (), tuple(TWO))
    assert comparison.a.by_length["1-10"].gold == 3


def test_a_seed_repeats():
    arguments = ([TWO] * 10, [ONE, TWO] * 5, [TWO, TWO, NONE, TWO, TWO] * 2)
    assert compare(*arguments, seed=5) == compare(*arguments, seed=5)


def test_json():
    values = json.loads(json.dumps(compare([ONE, TWO], [ONE, NONE], [ONE, TWO], resamples=10).to_dict()))
    assert values["differences"] == [1]
    assert values["difference"]["value"] == pytest.approx(0.5)
    assert {"a", "b", "randomisation_p_value", "bootstrap_p_value", "resamples"} < set(values)


def test_what_is_refused():
    with pytest.raises(ValueError, match="b must have one entry per sentence of gold, 2, got 1"):
        compare([ONE, TWO], [ONE, TWO], [ONE])
    with pytest.raises(ValueError, match="gold must have at least one sentence"):
        compare([], [], [])
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        compare([ONE], [ONE], [ONE], confidence=1.0)


def test_rows_of_a_comparison():
    gold = [[(0, 2, "PER"), (4, 5, "LOC")], [(1, 2, "ORG")]]
    predicted = [[(0, 2, "PER"), (3, 5, "LOC")], [(1, 2, "ORG")]]
    rows = comparison_rows(compare(gold, predicted, gold, resamples=10))
    assert [row["label"] for row in rows] == ["LOC", "ORG", "PER", "micro", "macro"]
    assert [row["difference"] for row in rows[:3]] == [1, 0, 0]
