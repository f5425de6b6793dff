"""A run on the terminal, as a bar and a line per epoch, and scores as tables."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from spansieve.cli.outputs import Console
from spansieve.evaluation.calibration import Calibration, Threshold
from spansieve.evaluation.error_types import ERROR_KINDS, ErrorAnalysis
from spansieve.evaluation.scores import Counts, Scores
from spansieve.evaluation.significance import Interval, Intervals
from spansieve.training.callbacks import DataCounts, EpochReport, StepReport

if TYPE_CHECKING:
    from spansieve.prediction.model_evaluation import ExpectedScores

MAX_CONFUSIONS = 10  # of a table; --json has all
COUNTS = ("gold", "predicted")
GRAPH_COLUMNS = (
    "on dev, |V|: candidates that the filter keeps, per sentence; |E|: pairs of them that may follow one another; "
    "kept: % of gold that is among the candidates, which bounds recall"
)


class TerminalObserver:
    """A bar with loss, dev F1, tokens per second and time left, and a line per epoch."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._has_header = False
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("dev F1 {task.fields[f1]}"),
            TextColumn("{task.fields[speed]} tokens/s"),
            TextColumn("{task.fields[left]}"),
            console=console,
        )

    def __enter__(self) -> TerminalObserver:
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def on_start(self, counts: DataCounts, num_steps: int, step: int) -> None:
        labels = escape(", ".join(counts.labels))
        limit = "" if counts.max_width is None else f", max_width {counts.max_width}"
        self.console.print(
            f"{counts.sentences:,} sentences, {counts.entities:,} entities ({labels}){limit}", highlight=False
        )
        if counts.vectors:
            self.console.print(escape(counts.vectors), highlight=False, soft_wrap=True)
        for line in counts.started_from:
            self.console.print(f"started from: {escape(line)}", highlight=False, soft_wrap=True)
        if counts.teacher:
            self.console.print(f"teacher: {escape(counts.teacher)}", highlight=False, soft_wrap=True)
        elif counts.unknown_tokens:
            self.console.print(f"{counts.unknown_tokens:,} unknown tokens: whatever is there is summed over")
        if counts.lost_to_overlaps:
            self.console.print(f"[yellow]{counts.lost_to_overlaps:,} entities left out: a wider one overlaps them[/]")
        if counts.lost_to_width:
            self.console.print(f"[yellow]{_lost_to_width(counts)}[/]", highlight=False, soft_wrap=True)
        if counts.unknown_in_dev:
            names = escape(", ".join(counts.unknown_in_dev))
            self.console.print(f"[yellow]labels that only the dev data has, and that count as missed: {names}[/]")
        if step:
            self.console.print(f"going on from step {step:,} of {num_steps:,}")
        self.console.print("[dim]the first step compiles its kernels for this machine, once[/]")
        self._task = self._progress.add_task(
            "", total=num_steps, completed=step, epoch="-", loss="-", f1="-", speed="-", left=""
        )

    def _update(self, report: StepReport | EpochReport, **fields: Any) -> None:
        loss = f"{report.loss:.3f}"
        self._progress.update(self._task, completed=report.step, epoch=report.epoch, loss=loss, **fields)

    def on_step(self, report: StepReport) -> None:
        speed, left = f"{report.tokens_per_second:,.0f}", f"{duration(report.seconds_left)} left"
        self._update(report, speed=speed, left=left)

    def on_epoch(self, report: EpochReport) -> None:
        self._update(report, f1=f"{100 * report.dev['f1']:.2f}", left="")
        if not self._has_header:
            if report.graph:
                self.console.print(f"[dim]{GRAPH_COLUMNS}[/]", highlight=False)
            head = f"[dim]epoch{'loss':>10}{'precision':>11}{'recall':>8}{'F1':>8}"
            head += f"{'|V|':>8}{'|E|':>8}{'kept':>8}" if report.graph else ""
            self.console.print(head + "[/]", highlight=False)
            self._has_header = True
        precision, recall, f1 = (100 * report.dev[name] for name in ("precision", "recall", "f1"))
        line = f"{report.epoch:>5}{report.loss:>10.3f}{precision:>11.2f}{recall:>8.2f}[bold]{f1:>8.2f}[/]"
        if report.graph:
            nodes, edges, kept = (report.graph[name] for name in ("nodes", "edges", "filter_recall"))
            line += f"{nodes:>8.1f}{edges:>8.1f}{100 * kept:>8.2f}"
        self.console.print(line + ("  [green]best[/]" if report.is_best else ""), highlight=False)


def _lost_to_width(counts: DataCounts) -> str:
    """A warning of the entities that are wider than max_width.

    >>> _lost_to_width(DataCounts(9_000, 23_499, ("LOC",), max_width=10, widest=51, lost_to_width=12))
    '12 of 23,499 entities are wider than max_width 10 and left out of training; --set model.max_width=51 keeps them'
    """
    verb, them = ("is", "it") if counts.lost_to_width == 1 else ("are", "them")
    lost = f"{counts.lost_to_width:,} of {counts.entities:,} entities {verb} wider than max_width {counts.max_width}"
    return f"{lost} and left out of training; --set model.max_width={counts.widest} keeps {them}"


def duration(seconds: float) -> str:
    """Format seconds as minutes or hours.

    >>> duration(75.2), duration(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# ---- Scores ----------------------------------------------------------------------------------------------------------


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


def expected_table(expected: ExpectedScores, title: str, scores: Scores | None = None) -> Table:
    """A table of the scores that a model expects of itself; with true ones, beside those."""
    columns = ["precision", "recall", "F1", "entities", "predicted"] + (["true F1"] if scores else [])
    table = score_columns(title, "label", *columns)
    rows = [*expected.by_label.items(), ("all (micro)", expected.micro)]
    for i, (label, own) in enumerate(rows):
        if i == len(rows) - 1:
            table.add_section()
        figures = (percent(own.precision), percent(own.recall), percent(own.f1))
        true = [] if scores is None else [scores.micro if own is expected.micro else scores.by_label.get(label)]
        beside = ["-" if counts is None else percent(counts.f1) for counts in true]
        table.add_row(escape(label), *figures, f"{own.entities:,.1f}", f"{own.predicted:,}", *beside)
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
