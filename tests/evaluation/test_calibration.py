"""Calibration: by hand, and on probabilities that keep or break their promise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.evaluation import calibrate, outcomes, threshold_for
from spansieve.evaluation.calibration import nearest_threshold

PREDICTIONS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40)


@given(PREDICTIONS, st.integers(1, 12))
def test_figures_follow_from_the_bins(predictions, bins):
    probability, is_correct = [p for p, _ in predictions], [c for _, c in predictions]
    result = calibrate(probability, is_correct, bins)
    assert sum(bin.count for bin in result.bins) == result.count == len(predictions)
    for k, bin in enumerate(result.bins):
        inside = [(p, c) for p, c in predictions if bin.low <= p < bin.high or (p == 1 and k == bins - 1)]
        assert bin.count == len(inside)
        assert bin.probability == pytest.approx(sum(p for p, _ in inside) / max(1, len(inside)))
        assert bin.accuracy == pytest.approx(sum(c for _, c in inside) / max(1, len(inside)))
    number = max(1, len(predictions))
    assert result.expected_error == pytest.approx(sum(bin.count * abs(bin.gap) for bin in result.bins) / number)
    assert result.largest_error == pytest.approx(max(abs(bin.gap) for bin in result.bins))
    assert result.brier == pytest.approx(sum((p - c) ** 2 for p, c in predictions) / number)


def test_honest_probabilities():
    generator = np.random.default_rng(0)
    probability = generator.random(200_000)
    result = calibrate(probability, generator.random(200_000) < probability)
    assert result.expected_error < 0.01
    assert result.brier == pytest.approx(1 / 6, abs=0.005)  # the mean of p (1 - p)


def test_boastful_probabilities():
    result = calibrate([0.99] * 100, [True] * 60 + [False] * 40)
    assert result.expected_error == result.largest_error == pytest.approx(0.39)
    assert result.bins[-1].gap > 0


def test_certain_and_right():
    result = calibrate([1.0, 1.0, 0.0], [True, True, False])
    assert (result.expected_error, result.brier) == (0, 0)
    assert [bin.count for bin in result.bins] == [1, *[0] * 8, 2]


def test_no_predictions():
    result = calibrate([], [])
    assert (result.expected_error, result.largest_error, result.brier, result.count) == (0, 0, 0, 0)


def test_rounding_beyond_one_is_one():
    assert calibrate([1.000001, -0.000001], [True, False]).brier == 0


def test_outcomes_of_predictions():
    gold = [[(0, 1, "A"), (2, 4, "B")], []]
    predicted = [[(2, 4, "B"), (0, 1, "B")], [(0, 1, "A")]]
    probability, is_correct = outcomes(gold, predicted, [[0.9, 0.4], [0.2]])
    assert probability.tolist() == [0.9, 0.4, 0.2]
    assert is_correct.tolist() == [True, False, False]
    assert calibrate(probability, is_correct).count == 3


def test_json():
    values = json.loads(json.dumps(calibrate([0.3, 0.9], [False, True], bins=2).to_dict()))
    assert values["bins"][0] == {"low": 0.0, "high": 0.5, "count": 1, "probability": 0.3, "accuracy": 0.0}
    assert values["count"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.5], [True]), "probabilities must lie between 0 and 1, got 1.5; a score is not a probability"),
        (([float("nan")], [True]), "probabilities must lie between 0 and 1, got nan"),
        (([0.5, 0.5], [True]), "two lists of one length"),
        (([0.5], [True], 0), "bins must be at least 1, got 0"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        calibrate(*arguments)


def test_one_probability_per_prediction():
    with pytest.raises(ValueError, match=r"one number per predicted segment of each sentence"):
        outcomes([[]], [[(0, 1, "A")]], [[]])


# ---- Thresholds ------------------------------------------------------------------------------------------------------


@given(PREDICTIONS, st.floats(0.01, 1), st.integers(0, 5))
def test_a_threshold_is_the_best_of_all_that_will_do(predictions, precision, missed):
    probability, is_correct = [p for p, _ in predictions], [c for _, c in predictions]
    num_gold = sum(is_correct) + missed
    found = threshold_for(precision, probability, is_correct, num_gold)
    fit = {}
    for limit in set(probability):
        believed = [c for p, c in predictions if p >= limit]
        if sum(believed) >= precision * len(believed) - 1e-9:
            fit[limit] = believed
    if found is None:
        assert not any(sum(believed) / len(believed) >= precision for believed in fit.values())
        return
    believed = fit[found.probability]
    assert found.count == len(believed) == max(len(other) for other in fit.values())
    assert found.precision == sum(believed) / len(believed) >= precision
    assert found.recall == sum(believed) / num_gold


@given(PREDICTIONS, st.floats(0.01, 1))
def test_where_a_precision_is_out_of_reach_the_highest_is_found(predictions, precision):
    probability, is_correct = [p for p, _ in predictions], [c for _, c in predictions]
    found, nearest = (
        f(precision, probability, is_correct, len(predictions)) for f in (threshold_for, nearest_threshold)
    )
    if found is not None or not predictions:
        assert nearest == found
        return
    reached = {limit: [c for p, c in predictions if p >= limit] for limit in probability}
    highest = max(sum(believed) / len(believed) for believed in reached.values())
    assert nearest.precision == highest < precision
    assert nearest.count == max(len(b) for b in reached.values() if sum(b) / len(b) == highest)
    assert nearest.count == len(reached[nearest.probability])


def test_equals_are_believed_together():
    assert threshold_for(1.0, [0.9, 0.5, 0.5], [True, True, False], 2).probability == 0.9
    assert threshold_for(1.0, [0.5, 0.5], [True, False], 1) is None
    assert threshold_for(0.5, [], [], 3) is None


def test_what_no_threshold_is_found_for():
    with pytest.raises(ValueError, match=r"precision must lie in \(0, 1\], got 1.5"):
        threshold_for(1.5, [0.5], [True], 1)
    with pytest.raises(ValueError, match="num_gold must be at least the 1 that are right, got 0"):
        threshold_for(0.5, [0.5], [True], 0)
