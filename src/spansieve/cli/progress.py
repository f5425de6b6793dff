"""A run on the terminal: a bar with loss, dev F1, tokens per second and time left, and a line per epoch."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from spansieve.cli.outputs import Console
from spansieve.training.callbacks import DataCounts, EpochReport, StepReport

GRAPH_COLUMNS = (
    "on dev, |V|: candidates that the filter keeps, per sentence; |E|: pairs of them that may follow one another; "
    "kept: % of gold that is among the candidates, which bounds recall"
)


class TerminalObserver:
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
        for line in counts.started_from:
            self.console.print(f"started from: {escape(line)}", highlight=False, soft_wrap=True)
        if counts.unknown_tokens:
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
