"""Scores as tables on the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from spansieve.evaluation.bootstrap_intervals import Interval, Intervals
from spansieve.evaluation.calibration import Calibration
from spansieve.evaluation.scores import Counts, Scores


def score_table(scores: Scores, title: str, intervals: Intervals | None = None) -> Table:
    """A table of the scores per label and over all; with intervals, also that of F1."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("label")
    for name in ("precision", "recall", "F1", *(["95 % interval"] if intervals else []), "gold", "predicted"):
        table.add_column(name, justify="right")

    def add(name: str, figures: tuple[float, float, float], interval: Interval | None, counts: Counts) -> None:
        between = [] if intervals is None else [_between(interval)]
        table.add_row(escape(name), *map(percent, figures), *between, f"{counts.gold:,}", f"{counts.predicted:,}")

    for label, counts in scores.by_label.items():
        interval = None if intervals is None else intervals.by_label.get(label)
        add(label, (counts.precision, counts.recall, counts.f1), interval, counts)
    table.add_section()
    micro = scores.micro
    add("all (micro)", (micro.precision, micro.recall, micro.f1), None if intervals is None else intervals.f1, micro)
    macro = (scores.macro_precision, scores.macro_recall, scores.macro_f1)
    add("all (macro)", macro, None if intervals is None else intervals.macro_f1, micro)
    return table


def counts_table(parts: dict[str, Counts], title: str, name: str) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column(name)
    for column in ("precision", "recall", "F1", "gold", "predicted"):
        table.add_column(column, justify="right")
    for part, counts in parts.items():
        figures = map(percent, (counts.precision, counts.recall, counts.f1))
        table.add_row(part, *figures, f"{counts.gold:,}", f"{counts.predicted:,}")
    return table


def reliability_table(calibration: Calibration) -> Table:
    table = Table(title="of entities with this probability, so many are right", title_justify="left")
    for column in ("probability", "mean", "right", "entities"):
        table.add_column(column, justify="right")
    for bin in calibration.bins:
        if bin.count:
            between = f"{bin.low:.1f} … {bin.high:.1f}"
            table.add_row(between, percent(bin.probability), percent(bin.accuracy), f"{bin.count:,}")
    return table


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{100 * interval.low:.1f} … {100 * interval.high:.1f}"
