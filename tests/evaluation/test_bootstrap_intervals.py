"""Bootstrap intervals: the figures themselves, and what they would be by drawing sentences one by one."""

from __future__ import annotations

import json
from math import comb

import numpy as np
import pytest
from hypothesis import given

from spansieve.evaluation import bootstrap, evaluate
from spansieve.evaluation.significance import parts_of, resampled_totals, sentence_counts
from tests.evaluation.segmentations import corpora

RIGHT, MISSED, WRONG = ([(0, 1, "A")], [(0, 1, "A")]), ([(0, 1, "A")], []), ([(0, 1, "B")], [(0, 2, "B")])


def corpus_of(*counts: tuple[tuple[list, list], int]) -> tuple[list, list]:
    pairs = [pair for pair, count in counts for _ in range(count)]
    return [gold for gold, _ in pairs], [predicted for _, predicted in pairs]


@given(corpora())
def test_values_are_those_of_evaluate(corpus):
    _, gold, predicted = corpus
    scores, intervals = evaluate(gold, predicted), bootstrap(gold, predicted, resamples=20)
    for name in ("precision", "recall", "f1", "macro_f1"):
        interval = getattr(intervals, name)
        assert interval.value == pytest.approx(getattr(scores, name))
        assert 0 <= interval.low <= interval.high <= 1
    assert {label: i.value for label, i in intervals.by_label.items()} == pytest.approx(
        {label: counts.f1 for label, counts in scores.by_label.items()}
    )


def test_a_share_has_its_binomial_interval():
    # Recall is the mean of 100 draws that are right with probability 0.7: the quantiles are known.
    gold, predicted = corpus_of((RIGHT, 70), (MISSED, 30))
    interval = bootstrap(gold, predicted, resamples=50_000).recall
    below = np.cumsum([comb(100, k) * 0.7**k * 0.3 ** (100 - k) for k in range(101)])
    low, high = (int(np.searchsorted(below, q)) / 100 for q in (0.025, 0.975))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.0101)


def test_kinds_together_are_as_sentences_one_by_one():
    gold, predicted = corpus_of((RIGHT, 12), (MISSED, 5), (WRONG, 3))
    rows = sentence_counts(gold, predicted)[1].reshape(20, -1)
    generator = np.random.default_rng(1)
    together = resampled_totals(rows, 40_000, generator)
    one_by_one = rows[generator.integers(0, 20, (40_000, 20))].sum(1)
    assert together.mean(0) == pytest.approx(one_by_one.mean(0), abs=0.05)
    assert np.cov(together.T) == pytest.approx(np.cov(one_by_one.T), abs=0.1)


def test_without_errors_there_is_no_doubt():
    gold, predicted = corpus_of((RIGHT, 20))
    intervals = bootstrap(gold, predicted)
    assert intervals.f1 == intervals.macro_f1 == intervals.by_label["A"] == (1, 1, 1)


def test_without_segments_everything_is_zero():
    intervals = bootstrap([[], []], [[], []], resamples=10)
    assert intervals.f1 == intervals.macro_f1 == (0, 0, 0)
    assert intervals.by_label == {}


def test_a_rare_label_is_judged_where_it_occurs():
    gold, predicted = corpus_of((RIGHT, 30), (([(0, 1, "B")], [(0, 1, "B")]), 1))
    intervals = bootstrap(gold, predicted)
    assert intervals.by_label["B"] == (1, 1, 1)
    assert intervals.macro_f1 == (1, 1, 1)


def test_more_sentences_and_less_confidence_make_it_narrower():
    def width(times, **options):
        interval = bootstrap(*corpus_of((RIGHT, 7 * times), (MISSED, 3 * times)), **options).f1
        return interval.high - interval.low

    assert width(100) < width(1) / 5
    assert width(1, confidence=0.5) < width(1, confidence=0.99)


def test_a_seed_repeats():
    corpus = corpus_of((RIGHT, 7), (MISSED, 3), (WRONG, 4))
    assert bootstrap(*corpus, seed=3) == bootstrap(*corpus, seed=3)
    assert bootstrap(*corpus, seed=3, resamples=999) != bootstrap(*corpus, seed=4, resamples=999)


def test_json():
    values = json.loads(json.dumps(bootstrap(*corpus_of((RIGHT, 2), (WRONG, 1)), resamples=50).to_dict()))
    assert set(values["f1"]) == {"value", "low", "high"}
    assert set(values["by_label"]) == {"A", "B"}
    assert (values["confidence"], values["resamples"]) == (0.95, 50)


def test_a_large_resampling_is_done_in_parts():
    parts = list(parts_of(10_000, 1_000))
    assert sum(parts) == 10_000
    assert max(parts) * 1_000 <= 4_000_000
    assert list(parts_of(5, 10**9)) == [1] * 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 0}, "resamples must be at least 1, got 0"),
        ({"confidence": 95}, "confidence must lie between 0 and 1, got 95; for 95 percent write 0.95"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap([[]], [[]], **options)


def test_there_must_be_a_sentence():
    with pytest.raises(ValueError, match="gold must have at least one sentence"):
        bootstrap([], [])
