"""Scores as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from rich.markup import escape
from rich.table import Table

from spansieve.evaluation.bootstrap_intervals import Interval, Intervals
from spansieve.evaluation.calibration import Calibration, Threshold
from spansieve.evaluation.error_types import ERROR_KINDS, ErrorAnalysis
from spansieve.evaluation.scores import Counts, Scores

MAX_CONFUSIONS = 10  # of a table; --json has all
COUNTS = ("gold", "predicted")


def score_table(scores: Scores, title: str, intervals: Intervals | None = None) -> Table:
    """A table of the scores per label and over all; with intervals, also that of F1."""
    more = ["95 % interval"] if intervals else []
    table = score_columns(title, "label", "precision", "recall", "F1", *more, *COUNTS)

    def add(name: str, figures: tuple[float, float, float], counts: Counts, interval: Interval | None) -> None:
        between = "" if interval is None else f"{100 * interval.low:.1f} … {100 * interval.high:.1f}"
        bounds = [] if intervals is None else [between]
        table.add_row(escape(name), *map(percent, figures), *bounds, f"{counts.gold:,}", f"{counts.predicted:,}")

    for label, counts in scores.by_label.items():
        add(label, _figures(counts), counts, None if intervals is None else intervals.by_label.get(label))
    table.add_section()
    add("all (micro)", _figures(scores.micro), scores.micro, None if intervals is None else intervals.f1)
    macro = (scores.macro_precision, scores.macro_recall, scores.macro_f1)
    add("all (macro)", macro, scores.micro, None if intervals is None else intervals.macro_f1)
    return table


def counts_table(parts: Mapping[Any, Counts], title: str, name: str) -> Table:
    table = score_columns(title, name, "precision", "recall", "F1", *COUNTS)
    for part, counts in parts.items():
        table.add_row(str(part), *map(percent, _figures(counts)), f"{counts.gold:,}", f"{counts.predicted:,}")
    return table


def reliability_table(calibration: Calibration) -> Table:
    columns = ("probability", "mean", "right", "entities")
    table = score_columns("of entities with this probability, so many are right", *columns)
    for bin in calibration.bins:
        if bin.count:
            between = f"{bin.low:.1f} … {bin.high:.1f}"
            table.add_row(between, percent(bin.probability), percent(bin.accuracy), f"{bin.count:,}")
    return table


def errors_table(analysis: ErrorAnalysis) -> Table:
    table = score_columns("errors by label, those of pairs under gold's", "label", *ERROR_KINDS)
    for label, counts in analysis.by_label.items():
        table.add_row(escape(label), *map("{:,}".format, counts.values()))
    table.add_section()
    table.add_row("all", *map("{:,}".format, analysis.by_kind.values()))
    return table


def confusion_table(analysis: ErrorAnalysis) -> Table:
    """A table of the labels that are most often predicted for another one, whatever the boundary."""
    table = score_columns("gold labels predicted as others", "gold", "predicted", "entities", "% of gold")
    pairs = [(*pair, count) for pair, count in analysis.confusion.most_common() if None not in pair]
    for gold, predicted, count in [row for row in pairs if row[0] != row[1]][:MAX_CONFUSIONS]:
        total = sum(number for (label, _), number in analysis.confusion.items() if label == gold)
        table.add_row(escape(str(gold)), escape(str(predicted)), f"{count:,}", percent(count / total))
    return table


def thresholds_table(thresholds: dict[str, Threshold], precision: float) -> Table:
    title = f"thresholds for a precision of {percent(precision)} % of each label"
    table = score_columns(title, "label", "probability", "precision", "recall", "entities", "")
    for label, found in thresholds.items():
        figures = (rounded_down(found.probability), percent(found.precision), percent(found.recall), f"{found.count:,}")
        table.add_row(escape(label), *figures, "" if found.precision >= precision else "the highest")
    return table


def rounded_down(probability: float) -> str:
    """Format a threshold in few digits, but never above it, and as fine as single precision is near 1.

    >>> rounded_down(0.97), rounded_down(0.12345678951)
    ('0.97', '0.12345678')
    """
    return f"{Decimal(repr(probability)).quantize(Decimal('1e-8'), ROUND_FLOOR).normalize():f}"


def score_columns(title: str, first: str, *columns: str) -> Table:
    table = Table(first, title=escape(title), title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _figures(counts: Counts) -> tuple[float, float, float]:
    return counts.precision, counts.recall, counts.f1


def percent(value: float) -> str:
    return f"{100 * value:.2f}"
