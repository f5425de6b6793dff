"""`spansieve predict --input`: files of rows in, the same rows with their entities out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from spansieve.prediction.bulk.job import Summary
    from spansieve.prediction.bulk.ledger import Outcome


class Cluster(NamedTuple):
    engine: str
    address: str | None
    replicas: int | None


def bulk_option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Many rows, with --input")


def predict_bulk(
    model: str, source: str, output: str | None, cluster: Cluster, columns: dict[str, str], **settings: Any
) -> None:
    """Predict files of rows. The settings are those of `Job`."""
    if output is None:
        raise typer.BadParameter("--input needs --output: a folder, or the URI of one")
    from spansieve.integrations.hub import downloaded, is_hub_name
    from spansieve.prediction.bulk.job import Job, run_bulk
    from spansieve.prediction.bulk.rows import Columns

    folder = downloaded(model) if is_hub_name(model) else model
    job = Job(folder, source, output, Columns(**columns), **settings)
    console = Console(stderr=True)
    begin, rows = time.monotonic(), 0
    shown = ("blocks", "{task.fields[rate]}")
    bars = (BarColumn(), MofNCompleteColumn(), TextColumn(shown[0]), TimeRemainingColumn(), TextColumn(shown[1]))
    progress = Progress(*bars, console=console, transient=True)
    task = progress.add_task("", total=None, rate="")

    def watch(outcome: Outcome, finished: int, total: int) -> None:
        nonlocal rows
        rows += outcome.rows
        rate = f"{rows / (time.monotonic() - begin):,.0f} rows/s"
        progress.update(task, completed=finished, total=total, rate=rate)

    # Only on a terminal: before version 14.3 of rich even a disabled bar ends with an empty line.
    with progress if console.is_terminal else nullcontext():
        summary = run_bulk(job, cast(Any, cluster.engine), cluster.address, cluster.replicas, watch)
    console.print(escape(told(summary, output)), highlight=False, soft_wrap=True)


def told(summary: Summary, output: str) -> str:
    """A line that sums up a bulk job.

    >>> from spansieve.prediction.bulk.job import Summary
    >>> told(Summary(rows=1200, errors=1, entities=3400, parts=3, skipped=2, workers=()), "out")
    '1,200 rows, 3,400 entities, 3 parts in out; 2 parts were there before; 1 row could not be read and says why'
    """
    said = [f"{summary.rows:,} rows, {summary.entities:,} entities, {summary.parts:,} parts in {output}"]
    if summary.skipped:
        said.append(f"{summary.skipped:,} parts were there before")
    if summary.errors:
        rows = "row" if summary.errors == 1 else "rows"
        said.append(f"{summary.errors:,} {rows} could not be read and {'says' if summary.errors == 1 else 'say'} why")
    return "; ".join(said)
