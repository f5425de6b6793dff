"""A comparison as plain rows, one dictionary per line of a table; how they are printed is left to the caller."""

from __future__ import annotations

from typing import Any

from spansieve.evaluation.scores import Counts, Scores
from spansieve.evaluation.significance import Comparison

Row = dict[str, Any]


def comparison_rows(comparison: Comparison) -> list[Row]:
    """F1 of both systems per label and over all, and what b gains."""
    a, b = comparison.a, comparison.b
    labels = sorted({*a.by_label, *b.by_label})
    figures = [(label, _f1(a, label), _f1(b, label)) for label in labels]
    figures += [("micro", a.f1, b.f1), ("macro", a.macro_f1, b.macro_f1)]
    return [{"label": name, "a": first, "b": second, "difference": second - first} for name, first, second in figures]


def _f1(scores: Scores, label: str) -> float:
    return scores.by_label.get(label, Counts()).f1
