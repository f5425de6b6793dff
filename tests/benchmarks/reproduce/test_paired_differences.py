"""Paired tests of several corpora, against those of one and against definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reproduce.paired_differences import by_document, holm, paired_difference
from spansieve.evaluation import compare
from spansieve.evaluation.significance import paired_counts


def test_documents_are_resampled_whole():
    gold = [[(0, 1, "PER")]] * 6
    rows = by_document(paired_counts(gold, [[]] * 6, gold), ["a", "b", "a", None, None, "b"])
    assert rows.tolist() == [[0, 0, 2, 2, 2], [0, 0, 2, 2, 2], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]]
    with pytest.raises(ValueError, match="documents must have one entry per sentence of gold, 6, got 2"):
        by_document(paired_counts(gold, gold, gold), ["a", "b"])


def test_one_corpus_is_tested_as_compare_does():
    gold = [[(0, 1, "PER")]] * 30
    a = [[]] * 6 + gold[6:]
    whole, alone = (
        compare(gold, a, gold, resamples=999),
        paired_difference([paired_counts(gold, a, gold)], resamples=999),
    )
    assert alone.difference == whole.difference
    assert alone.p_value == whole.randomisation_p_value


def test_the_mean_of_corpora_is_less_chance_than_one():
    gold = [[(0, 1, "PER")]] * 60
    rows = paired_counts(gold, [[]] * 20 + gold[20:], [[]] * 10 + gold[10:])
    one, four = paired_difference([rows]), paired_difference([rows] * 4)
    assert four.difference.value == pytest.approx(one.difference.value)
    width = [found.difference.high - found.difference.low for found in (one, four)]
    assert width[1] == pytest.approx(width[0] / 2, rel=0.15)  # four independent ones: half the deviation


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_by_its_definition(p_values):
    corrected = holm(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    for rank, i in enumerate(order):
        steps = [(len(p_values) - k) * p_values[j] for k, j in enumerate(order[: rank + 1])]
        assert corrected[i] == min(1.0, max(steps))
