"""Rows: what a table shows, in order."""

from __future__ import annotations

from spansieve import evaluation
from spansieve.evaluation import compare
from spansieve.evaluation.tables import comparison_rows

GOLD = [[(0, 2, "PER"), (4, 5, "LOC")], [(1, 2, "ORG")]]
PREDICTED = [[(0, 2, "PER"), (3, 5, "LOC")], [(1, 2, "ORG")]]


def test_comparison_rows():
    rows = comparison_rows(compare(GOLD, PREDICTED, GOLD, resamples=10))
    assert [row["label"] for row in rows] == ["LOC", "ORG", "PER", "micro", "macro"]
    assert [row["difference"] for row in rows[:3]] == [1, 0, 0]


def test_the_package_offers_its_members():
    for name in evaluation.__all__:
        assert getattr(evaluation, name).__name__ == name
