"""Thresholds that keep a promise: against populations of which the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from spansieve.evaluation.calibration import (
    Units,
    accepting_threshold,
    covering_threshold,
    fitted_units,
    log_evidence,
    order_of_tests,
    reachable_level,
    risk_controlling_threshold,
)

DRAWS = 300


def population(chance: np.random.Generator, units: int, hard: float = 0.1) -> Units:
    """Gold tokens by unit: in some units all are hard to find, so that what is missed comes in bulk."""
    size = chance.geometric(0.3, units)
    unit = np.repeat(np.arange(units), size)
    is_hard = np.repeat(chance.random(units) < hard, size)
    score = np.where(is_hard, chance.beta(1, 4, len(unit)), chance.beta(8, 1, len(unit)))
    return Units(score, unit, np.ones(len(unit), bool))


def share_missed(population: Units, threshold: float, cap: int) -> float:
    """The share of a whole population, in which a unit counts as at most `cap`."""
    size = np.bincount(population.unit)
    weight = np.minimum(1, cap / np.maximum(size, 1))
    missed = np.bincount(population.unit[population.score < threshold], minlength=len(size))
    return (weight * missed).sum() / (weight * size).sum()


@pytest.mark.parametrize(("level", "confidence"), [(0.02, 0.9), (0.05, 0.9), (0.05, 0.8)])
def test_a_promise_is_kept_as_often_as_it_says(level, confidence):
    """And a threshold that is chosen by the same data without a test is not."""
    chance = np.random.default_rng(0)
    everything, cap = population(chance, 200_000), 8
    held = made = naive = 0
    for _ in range(DRAWS):
        data = population(chance, 800)
        threshold = covering_threshold(data, 800, level, confidence, cap)
        if threshold is not None:
            made += 1
            held += share_missed(everything, threshold, cap) <= level
        naive += share_missed(everything, np.quantile(data.score, level, method="lower"), cap) <= level
    assert made > 0.9 * DRAWS
    assert held >= confidence * made - 3 * np.sqrt(made * confidence * (1 - confidence))
    assert naive < 0.7 * DRAWS


def test_evidence_grows_only_where_the_mean_is_below_zero():
    """Markov's inequality: with a mean of 0, it reaches 20 in at most one of 20 draws."""
    chance = np.random.default_rng(1)
    losses = np.where(chance.random((2_000, 400)) < 0.01, 0.99, -0.01)  # of mean 0
    reached = np.mean([log_evidence(row, 0.99) >= np.log(20) for row in losses])
    assert reached <= 0.05
    assert log_evidence(np.full(400, -0.01), 0.99) > np.log(20)
    assert log_evidence(np.array([0.5, -0.5, 0.5]), 1.0) < 0


def test_it_does_not_matter_in_which_order_the_units_come():
    losses = np.random.default_rng(2).normal(size=50).clip(-1, 1)
    assert log_evidence(losses, 1.0) == pytest.approx(log_evidence(losses[::-1], 1.0))


def test_more_data_more_confidence_and_a_higher_level_move_the_threshold_as_they_should():
    data = population(np.random.default_rng(3), 3_000)
    base = covering_threshold(data, 3_000, 0.05, 0.9, 8)
    assert covering_threshold(data, 3_000, 0.08, 0.9, 8) >= base >= covering_threshold(data, 3_000, 0.05, 0.99, 8)
    assert base in data.score


def test_what_cannot_be_covered_cannot_be_promised():
    """A tenth of the gold tokens has no probability at all."""
    score = np.where(np.arange(2_000) % 10 == 0, 0.0, 0.9)
    data = Units(score, np.arange(2_000), np.ones(2_000, bool))
    assert covering_threshold(data, 2_000, 0.05, 0.9, 1) is None
    missed, size = (score == 0).astype(int), np.ones(2_000, int)
    reachable = reachable_level(missed, size, 0.9, 1)
    assert 0.1 < reachable < 0.13
    assert covering_threshold(data, 2_000, reachable, 0.9, 1) == 0.9
    assert covering_threshold(data, 2_000, 0.99 * reachable, 0.9, 1) is None
    assert reachable_level(np.ones(20, int), np.ones(20, int), 0.9, 1) == 1


def test_without_any_misses_about_three_over_the_level_are_needed():
    """The rule of three, for 95 %."""
    enough = reachable_level(np.zeros(1_000, int), np.ones(1_000, int), 0.95, 1)
    assert 0.003 < enough < 0.0045
    # One document of ten tokens can be missed at once: ten times as many are needed.
    many = reachable_level(np.zeros(1_000, int), np.full(1_000, 10), 0.95, 10)
    assert many == pytest.approx(enough, rel=0.05)


def entities(chance: np.random.Generator, units: int) -> Units:
    """Predicted entities that are right less often than they say."""
    unit = np.repeat(np.arange(units), chance.poisson(2, units))
    score = chance.beta(5, 1, len(unit))
    return Units(score, unit, chance.random(len(unit)) > score**2)


def wrong_share(found: Units, threshold: float) -> float:
    is_accepted = found.score >= threshold
    return found.is_wrong[is_accepted].mean()


def test_accepted_entities_are_as_right_as_promised():
    chance, level, confidence, cap = np.random.default_rng(4), 0.1, 0.9, 4
    everything = entities(chance, 100_000)
    held = made = 0
    for _ in range(DRAWS):
        data = entities(chance, 1_000)
        fitted, given = data.halves(fitted_units(1_000))
        order = order_of_tests(fitted, 1_000, level, cap)
        assert order == sorted(order, reverse=True)
        threshold = accepting_threshold(given, 1_000, level, confidence, cap, order)
        if threshold is not None:
            made += 1
            held += wrong_share(everything, threshold) <= level
    assert made > 0.6 * DRAWS
    assert held >= confidence * made - 3 * np.sqrt(made * confidence * (1 - confidence))


def test_sets_hold_the_true_one_as_often_as_promised():
    """Split conformal prediction: in expectation over calibration and new text."""
    chance, level, held = np.random.default_rng(5), 0.1, []
    for _ in range(DRAWS):
        probability = chance.beta(2, 1, 99)
        threshold = risk_controlling_threshold(probability, np.arange(99), 99, level)
        held.append(np.mean(chance.beta(2, 1, 1_000) >= threshold))
    assert 0.89 < np.mean(held) < 0.91  # at least 0.9, and at most 0.01 more
    assert risk_controlling_threshold(np.zeros(99), np.arange(99), 99, level) is None
    assert risk_controlling_threshold(np.ones(5), np.arange(5), 5, level) is None  # too few


def test_units_that_choose_give_no_promise():
    data = population(np.random.default_rng(6), 50)
    is_fitted = fitted_units(50)
    assert is_fitted.sum() == 10
    fitted, given = data.halves(is_fitted)
    assert set(fitted.unit) & set(given.unit) == set()
    assert len(fitted.score) + len(given.score) == len(data.score)
    assert data.cap() >= np.median(np.bincount(data.unit))
    assert Units(np.zeros(0), np.zeros(0, int), np.zeros(0, bool)).cap() == 1
