"""A run on the terminal, as a bar and a line per epoch, and scores as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table

from spansieve.cli.outputs import Console
from spansieve.training.callbacks import DataCounts, EpochReport, Observer, StepReport

if TYPE_CHECKING:
    from spansieve.evaluation.calibration import Calibration, Threshold
    from spansieve.evaluation.error_types import ErrorAnalysis
    from spansieve.evaluation.scores import Counts, Scores
    from spansieve.evaluation.significance import Intervals
    from spansieve.prediction.model_evaluation import ExpectedCounts, ExpectedScores

MAX_CONFUSIONS = 10  # of a table; --json has all
COUNTS = ("gold", "predicted")
MICRO, MACRO = "all (micro)", "all (macro)"
GRAPH_COLUMNS = (
    "on dev, |V|: candidates that the filter keeps, per sentence; |E|: pairs of them that may follow one another; "
    "kept: % of gold that is among the candidates, which bounds recall"
)


class TerminalObserver(Observer):
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
        limit = "" if counts.max_width is None else f", max_width {counts.max_width}"
        labels = ", ".join(counts.labels)
        lines = [f"{counts.sentences:,} sentences, {counts.entities:,} entities ({labels}){limit}", counts.vectors]
        lines += [f"started from: {line}" for line in counts.started_from]
        if counts.teacher:
            lines.append(f"teacher: {counts.teacher}")
        elif counts.unknown_tokens:
            lines.append(f"{counts.unknown_tokens:,} unknown tokens: whatever is there is summed over")
        for line in filter(None, lines):
            self.console.print(line, markup=False)
        if counts.lost_to_overlaps:
            self.console.warn(f"{counts.lost_to_overlaps:,} entities left out: a wider one overlaps them")
        if counts.lost_to_width:
            lost = f"{counts.lost_to_width:,} of {counts.entities:,}"
            keeps = f"--set model.max_width={counts.widest} keeps all"
            self.console.warn(
                f"entities wider than max_width {counts.max_width}, left out of training: {lost}; {keeps}"
            )
        if counts.unknown_in_dev:
            names = ", ".join(counts.unknown_in_dev)
            self.console.warn(f"labels that only the dev data has, and that count as missed: {names}")
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
                self.console.print(f"[dim]{GRAPH_COLUMNS}[/]", soft_wrap=False)
            head = f"[dim]epoch{'loss':>10}{'precision':>11}{'recall':>8}{'F1':>8}"
            head += f"{'|V|':>8}{'|E|':>8}{'kept':>8}" if report.graph else ""
            self.console.print(head + "[/]")
            self._has_header = True
        precision, recall, f1 = (100 * report.dev[name] for name in ("precision", "recall", "f1"))
        line = f"{report.epoch:>5}{report.loss:>10.3f}{precision:>11.2f}{recall:>8.2f}[bold]{f1:>8.2f}[/]"
        if report.graph:
            nodes, edges, kept = (report.graph[name] for name in ("nodes", "edges", "filter_recall"))
            line += f"{nodes:>8.1f}{edges:>8.1f}{100 * kept:>8.2f}"
        self.console.print(line + ("  [green]best[/]" if report.is_best else ""))


def duration(seconds: float) -> str:
    """Format seconds as minutes or hours.

    >>> duration(75.2), duration(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# ---- Scores ----------------------------------------------------------------------------------------------------------


def table_of(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], totals: Iterable[Sequence[str]] = ()
) -> Table:
    """A table of names and figures, with what is of all rows below a line."""
    first, *others = columns
    table = Table(first, *(Column(name, justify="right") for name in others), title=escape(title), title_justify="left")
    for row in rows:
        table.add_row(*map(escape, row))
    table.add_section()
    for row in totals:
        table.add_row(*map(escape, row))
    return table


def score_table(scores: Scores, title: str, intervals: Intervals | None = None) -> Table:
    """A table of the scores per label and over all; with intervals, also that of F1."""
    own = {} if intervals is None else {**intervals.by_label, MICRO: intervals.f1, MACRO: intervals.macro_f1}

    def row(name: str, figures: Sequence[str], counts: Counts) -> list[str]:
        between = f"{100 * own[name].low:.1f} … {100 * own[name].high:.1f}" if name in own else ""
        return [name, *figures, *([between] if intervals else []), f"{counts.gold:,}", f"{counts.predicted:,}"]

    rows = [row(label, _figures(counts), counts) for label, counts in scores.by_label.items()]
    macro = [percent(figure) for figure in (scores.macro_precision, scores.macro_recall, scores.macro_f1)]
    totals = [row(MICRO, _figures(scores.micro), scores.micro), row(MACRO, macro, scores.micro)]
    more = ["95 % interval"] if intervals else []
    return table_of(title, ("label", "precision", "recall", "F1", *more, *COUNTS), rows, totals)


def expected_table(expected: ExpectedScores, title: str, scores: Scores | None = None) -> Table:
    """A table of the scores that a model expects of itself; with true ones, beside those."""
    true = {} if scores is None else {**scores.by_label, MICRO: scores.micro}
    rows = []
    for label, own in (*expected.by_label.items(), (MICRO, expected.micro)):
        beside = [percent(true[label].f1) if label in true else "-"] if scores else []
        rows.append([label, *_figures(own), f"{own.entities:,.1f}", f"{own.predicted:,}", *beside])
    columns = ("label", "precision", "recall", "F1", "entities", "predicted", *(["true F1"] if scores else []))
    return table_of(title, columns, rows[:-1], rows[-1:])


def counts_table(parts: Mapping[Any, Counts], title: str, name: str) -> Table:
    rows = [
        (str(part), *_figures(counts), f"{counts.gold:,}", f"{counts.predicted:,}") for part, counts in parts.items()
    ]
    return table_of(title, (name, "precision", "recall", "F1", *COUNTS), rows)


def reliability_table(calibration: Calibration) -> Table:
    rows = [
        (f"{bin.low:.1f} … {bin.high:.1f}", percent(bin.probability), percent(bin.accuracy), f"{bin.count:,}")
        for bin in calibration.bins
        if bin.count
    ]
    title = "of entities with this probability, so many are right"
    return table_of(title, ("probability", "mean", "right", "entities"), rows)


def errors_table(analysis: ErrorAnalysis) -> Table:
    rows = [(label, *map("{:,}".format, counts.values())) for label, counts in analysis.by_label.items()]
    total = ("all", *map("{:,}".format, analysis.by_kind.values()))
    return table_of("errors by label, those of pairs under gold's", ("label", *analysis.by_kind), rows, [total])


def confusion_table(analysis: ErrorAnalysis) -> Table:
    """A table of the labels that are most often predicted for another one, whatever the boundary."""
    pairs = [(*pair, count) for pair, count in analysis.confusion.most_common() if None not in pair]
    rows = []
    for gold, predicted, count in [row for row in pairs if row[0] != row[1]][:MAX_CONFUSIONS]:
        total = sum(number for (label, _), number in analysis.confusion.items() if label == gold)
        rows.append((str(gold), str(predicted), f"{count:,}", percent(count / total)))
    return table_of("gold labels predicted as others", ("gold", "predicted", "entities", "% of gold"), rows)


def thresholds_table(thresholds: dict[str, Threshold], precision: float) -> Table:
    rows = []
    for label, found in thresholds.items():
        figures = (rounded_down(found.probability), percent(found.precision), percent(found.recall), f"{found.count:,}")
        rows.append((label, *figures, "" if found.precision >= precision else "the highest"))
    title = f"thresholds for a precision of {percent(precision)} % of each label"
    return table_of(title, ("label", "probability", "precision", "recall", "entities", ""), rows)


def rounded_down(probability: float) -> str:
    """Format a threshold in few digits, but never above it, and as fine as single precision is near 1.

    >>> rounded_down(0.97), rounded_down(0.12345678951)
    ('0.97', '0.12345678')
    """
    return f"{Decimal(repr(probability)).quantize(Decimal('1e-8'), ROUND_FLOOR).normalize():f}"


def _figures(counts: Counts | ExpectedCounts) -> list[str]:
    return [percent(figure) for figure in (counts.precision, counts.recall, counts.f1)]


def percent(value: float) -> str:
    return f"{100 * value:.2f}"
