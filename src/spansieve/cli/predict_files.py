"""`spansieve predict-files`: files of rows in, the same rows with their entities out."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spansieve.cli.options import Device, Guarantee, MinProbability, Model, Sentences, parsed
from spansieve.cli.outputs import Console

if TYPE_CHECKING:
    from spansieve.prediction.bulk.job import Job, Summary
    from spansieve.prediction.bulk.ledger import Outcome

MAX_SHOWN = 20  # of what was left out
LEFT_OUT_CODE = 3


@dataclass(frozen=True)
class JobSettings:
    """What `--set` sets of a job."""

    replicas: int | None = None
    block_size: int = 32
    entities_column: str = "entities"
    objective: str = "probability"


Inputs = Annotated[
    list[str],
    typer.Argument(metavar="INPUT", help="JSON lines or Parquet: files, folders, patterns or URIs", show_default=False),
]
JobValues = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="replicas=N: copies of the model on the Ray cluster, as many as fit if not set; block_size=MB (32): "
        "input that becomes one part of the output; entities_column=NAME (entities): the column that is added; "
        "objective=f1, as of `predict`",
    ),
]


def predict_files(
    model: Model,
    inputs: Inputs,
    output: Annotated[str, typer.Option("--output", "-o", help="a folder, or the URI of one", show_default=False)],
    text_column: Annotated[str, typer.Option(help="the column that is read")] = "text",
    sentences: Sentences = True,
    threshold: MinProbability = 0.0,
    guarantee: Guarantee = None,
    device: Device = "cpu",
    precision: Annotated[str, typer.Option(help="of the encoder: fp32 or bf16")] = "fp32",
    workers: Annotated[int, typer.Option(help="processes that prepare text, for each copy of the model", min=0)] = 0,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="work on a Ray cluster: auto or its address; local starts one here"),
    ] = None,
    settings: JobValues = None,
    strict: Annotated[bool, typer.Option("--strict", help="stop at the first row or file that cannot be read")] = False,
) -> None:
    """Find the entities of many rows, in files; a job that was stopped goes on when it is started again.

    Every row comes out as it was, with its entities. Rows and files that cannot be read are named and left out, and the
    exit code is 3.

    Example: spansieve predict-files runs/demo/model rows/ --output found/
    """
    own = parsed(JobSettings, settings)
    if own.replicas is not None and ray is None:
        raise typer.BadParameter("replicas need --ray: without it there is one copy of the model")
    from spansieve.integrations.hub import downloaded, is_hub_name
    from spansieve.prediction.bulk.blocks import Columns
    from spansieve.prediction.bulk.job import Job

    job = Job(
        downloaded(model) if is_hub_name(model) else model,
        tuple(inputs),
        output,
        Columns(text_column, own.entities_column),
        block_size=own.block_size << 20,
        device=device,
        precision=cast(Any, precision),
        workers=workers,
        sentences=sentences,
        threshold=threshold,
        guarantee=guarantee,
        objective=own.objective,
        strict=strict,
    )
    console = Console(stderr=True)
    promise = job.promise()
    if promise is not None:
        console.print(escape(f"under the guarantee {promise.describe()}"))
    summary = _run(job, ray, own.replicas, console)
    lines = [f"left out: {problem}" for problem in summary.problems[:MAX_SHOWN]]
    for line in (*lines, summary_line(summary, output)):
        console.print(escape(line))
    if summary.problems:
        raise typer.Exit(LEFT_OUT_CODE)


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
        return run_bulk(job, ray, replicas, show)


def summary_line(summary: Summary, output: str) -> str:
    """Sum up a bulk job in a line.

    >>> from spansieve.prediction.bulk.job import Summary
    >>> summary_line(Summary(12, 1, 0, (), entities=34, parts=3, skipped=2, workers=()), "out")
    '12 rows, 34 entities, 3 parts in out; 2 parts were there before; 1 row left out: out/_spansieve/left_out.jsonl'
    """
    from spansieve.prediction.bulk.ledger import LEFT_OUT

    clauses = [
        f"{_count(summary.rows, 'row')}, {summary.entities:,} entities, {_count(summary.parts, 'part')} in {output}"
    ]
    if summary.skipped:
        clauses.append(f"{_count(summary.skipped, 'part')} {'was' if summary.skipped == 1 else 'were'} there before")
    counts = (_count(summary.left_out, "row"), _count(summary.unread, "damaged block"))
    if left_out := " and ".join(count for count in counts if not count.startswith("0 ")):
        clauses.append(f"{left_out} left out: {output.rstrip('/')}/{LEFT_OUT}")
    return "; ".join(clauses)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
