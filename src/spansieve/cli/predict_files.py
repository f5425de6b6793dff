"""`spansieve predict-files`: files of rows in, the same rows with their entities out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spansieve.cli.inputs import JSON_SUFFIXES, check_text_file
from spansieve.cli.options import Device, MinProbability, Model, Sentences
from spansieve.cli.outputs import Console

if TYPE_CHECKING:
    from spansieve.prediction.bulk.job import Job, Summary
    from spansieve.prediction.bulk.ledger import Outcome


def predict_files(
    model: Model,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT", help="JSON lines or Parquet: files, folders, patterns or URIs", show_default=False
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="a folder, or the URI of one", show_default=False)],
    text_column: Annotated[str, typer.Option(help="the column that is read")] = "text",
    entities_column: Annotated[str, typer.Option(help="the column that is added")] = "entities",
    error_column: Annotated[str, typer.Option(help="the column for why a row could not be read")] = "error",
    sentences: Sentences = True,
    threshold: MinProbability = 0.0,
    device: Device = "cpu",
    precision: Annotated[str, typer.Option(help="of the encoder: fp32 or bf16")] = "fp32",
    workers: Annotated[int, typer.Option(help="processes that prepare text, for each copy of the model", min=0)] = 0,
    block_size: Annotated[int, typer.Option(help="MB of input that become one part of the output", min=1)] = 32,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="work on a Ray cluster: auto or its address; local starts one here"),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(help="copies of the model on the Ray cluster; as many as fit if not given", min=1)
    ] = None,
) -> None:
    """Find the entities of many rows, in files; a job that was stopped goes on when it is started again.

    Every row comes out as it was, with its entities.

    Example: spansieve predict-files runs/demo/model rows/ --output found/
    """
    if replicas is not None and ray is None:
        raise typer.BadParameter("--replicas needs --ray: without it there is one copy of the model")
    for path in map(Path, inputs):
        if path.suffix in JSON_SUFFIXES:
            check_text_file(path)
    from spansieve.integrations.hub import downloaded, is_hub_name
    from spansieve.prediction.bulk.job import Job
    from spansieve.prediction.bulk.rows import Columns

    job = Job(
        downloaded(model) if is_hub_name(model) else model,
        tuple(inputs),
        output,
        Columns(text_column, entities_column, error_column),
        block_size=block_size << 20,
        device=device,
        precision=cast(Any, precision),
        workers=workers,
        sentences=sentences,
        threshold=threshold,
    )
    console = Console(stderr=True)
    summary = _run(job, ray, replicas, console)
    console.print(escape(summary_line(summary, output)), highlight=False, soft_wrap=True)


def _run(job: Job, ray: str | None, replicas: int | None, console: Console) -> Summary:
    """Run the job, with a progress bar."""
    from spansieve.prediction.bulk.job import run_bulk

    begin, rows = time.monotonic(), 0
    columns = (MofNCompleteColumn(), TextColumn("blocks"), TimeRemainingColumn(), TextColumn("{task.fields[rate]}"))
    progress = Progress(BarColumn(), *columns, console=console, transient=True)
    task = progress.add_task("", total=None, rate="")

    def show(outcome: Outcome, finished: int, total: int) -> None:
        nonlocal rows
        rows += outcome.rows
        rate = f"{rows / (time.monotonic() - begin):,.0f} rows/s"
        progress.update(task, completed=finished, total=total, rate=rate)

    # Only on a terminal: before version 14.3 of rich even a disabled bar ends with an empty line.
    with progress if console.is_terminal else nullcontext():
        address = None if ray == "local" else ray
        return run_bulk(job, "local" if ray is None else "ray", address, replicas, show)


def summary_line(summary: Summary, output: str) -> str:
    """Sum up a bulk job in a line.

    >>> from spansieve.prediction.bulk.job import Summary
    >>> summary_line(Summary(rows=1200, errors=1, entities=3400, parts=3, skipped=2, workers=()), "out")
    '1,200 rows, 3,400 entities, 3 parts in out; 2 parts were there before; 1 row could not be read: see its error'
    """
    clauses = [
        f"{_count(summary.rows, 'row')}, {summary.entities:,} entities, {_count(summary.parts, 'part')} in {output}"
    ]
    if summary.skipped:
        clauses.append(f"{_count(summary.skipped, 'part')} {'was' if summary.skipped == 1 else 'were'} there before")
    if summary.errors:
        clauses.append(
            f"{_count(summary.errors, 'row')} could not be read: see {'its' if summary.errors == 1 else 'their'} error"
        )
    return "; ".join(clauses)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
