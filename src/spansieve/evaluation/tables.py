"""Scores as plain rows, one dictionary per line of a table; whoever prints them decides how."""

from __future__ import annotations

from typing import Any

from spansieve.evaluation.scores import Counts, Scores
from spansieve.evaluation.significance import Comparison

Row = dict[str, Any]


def score_rows(scores: Scores) -> list[Row]:
    """One row per label, then micro and macro; precision, recall and F1 are fractions."""
    macro = {"precision": scores.macro_precision, "recall": scores.macro_recall, "f1": scores.macro_f1}
    totals = {"true_positives": scores.micro.true_positives, "gold": scores.micro.gold}
    return [
        *(_row("label", label, counts) for label, counts in scores.by_label.items()),
        _row("label", "micro", scores.micro),
        {"label": "macro", **macro, **totals, "predicted": scores.micro.predicted},
    ]


def width_rows(scores: Scores) -> list[Row]:
    return [_row("width", width, counts) for width, counts in scores.by_width.items()]


def length_rows(scores: Scores) -> list[Row]:
    return [_row("length", bucket, counts) for bucket, counts in scores.by_length.items()]


def comparison_rows(comparison: Comparison) -> list[Row]:
    """F1 of both systems per label and over all, and what b gains."""
    a, b = comparison.a, comparison.b
    labels = sorted({*a.by_label, *b.by_label})
    figures = [(label, _f1(a, label), _f1(b, label)) for label in labels]
    figures += [("micro", a.f1, b.f1), ("macro", a.macro_f1, b.macro_f1)]
    return [{"label": name, "a": first, "b": second, "difference": second - first} for name, first, second in figures]


def _f1(scores: Scores, label: str) -> float:
    return scores.by_label.get(label, Counts()).f1


def _row(name: str, value: object, counts: Counts) -> Row:
    return {name: value, **counts.to_dict()}
