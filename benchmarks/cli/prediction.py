"""`python -m benchmarks prediction`: text to entities, beside the bare encoder and beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.cli.typed import typed_options


def prediction(
    source: Annotated[
        str, typer.Argument(help="a model's folder, or a Hugging Face encoder", metavar="MODEL", show_default=False)
    ],
    data: Annotated[Path, typer.Argument(help="labelled text", show_default=False)],
    sentences: Annotated[int | None, typer.Option(help="so many of them, drawn by chance; all if not given")] = None,
    rounds: Annotated[int, typer.Option(help="how often each is run; the medians count", min=1)] = 3,
    threads: Annotated[int, typer.Option(help="of the CPU, for everyone", min=1)] = 2,
    spanmarker_python: Annotated[
        Path | None, typer.Option(help="the Python of an environment with SpanMarker, to run that, too")
    ] = None,
    note: Annotated[str, typer.Option(help="a sentence for the page: what else there is to know")] = "",
    out: Annotated[Path, typer.Option(help="folder for the table and the CSV")] = Path("results"),
) -> None:
    """Sentences per second from text to entities with probabilities, and where the time goes."""
    import torch

    from benchmarks.fitting import drawn
    from benchmarks.measuring import markdown_table, provenance, write_csv
    from benchmarks.prediction_speed import run_prediction_speed
    from spansieve.data.formats import read_examples

    torch.set_num_threads(threads)
    examples = [example for example in read_examples(data) if len(example)]
    if sentences is not None and sentences < len(examples):
        examples = list(drawn(examples, sentences))
    rows = run_prediction_speed(source, examples, rounds, spanmarker_python)
    console, table = Console(), Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)
    size = "" if sentences is None else f" --sentences {len(examples)}"
    turns = typed_options(prediction, rounds=rounds)
    peer = "" if spanmarker_python is None else " --spanmarker-python PYTHON"
    command = f"python -m benchmarks prediction {Path(source).name} {data.name}{size}{turns} --threads {threads}{peer}"
    title = f"# Text to entities: {len(examples):,} sentences of {data.name}, {threads} CPU threads"
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "prediction_cpu.csv", rows)
    about = (
        f"Medians of {rounds} rounds in turns. *time* and *CPU time* are multiples of the bare encoder's; where other "
        "work ran on the machine, look at the second, on one thread."
    )
    page = [title, *provenance(command, "cpu"), about, *([note] if note else []), markdown_table(rows)]
    (out / "prediction_cpu.md").write_text("\n\n".join(page), encoding="utf-8")
    console.print(f"written to {out / 'prediction_cpu.md'}")
