"""Rows: what a table shows, in order."""

from __future__ import annotations

import pytest

from spansieve import evaluation
from spansieve.evaluation import compare, evaluate
from spansieve.evaluation.tables import comparison_rows, length_rows, score_rows, width_rows

GOLD = [[(0, 2, "PER"), (4, 5, "LOC")], [(1, 2, "ORG")]]
PREDICTED = [[(0, 2, "PER"), (3, 5, "LOC")], [(1, 2, "ORG")]]


def test_score_rows():
    rows = score_rows(evaluate(GOLD, PREDICTED))
    assert [row["label"] for row in rows] == ["LOC", "ORG", "PER", "micro", "macro"]
    assert rows[2]["f1"] == 1
    assert len({tuple(row) for row in rows}) == 1  # the same columns throughout
    assert rows[-1]["f1"] == pytest.approx(2 / 3)


def test_width_and_length_rows():
    scores = evaluate(GOLD, PREDICTED, lengths=[6, 12])
    assert [(row["width"], row["gold"]) for row in width_rows(scores)] == [(1, 2), (2, 1)]
    assert [(row["length"], row["gold"]) for row in length_rows(scores)] == [("1-10", 2), ("11-20", 1)]


def test_comparison_rows():
    rows = comparison_rows(compare(GOLD, PREDICTED, GOLD, resamples=10))
    assert [row["label"] for row in rows] == ["LOC", "ORG", "PER", "micro", "macro"]
    assert [row["difference"] for row in rows[:3]] == [1, 0, 0]


def test_the_package_offers_its_members():
    for name in dir(evaluation):
        assert getattr(evaluation, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        _ = evaluation.unheard_of
