"""`python -m benchmarks onnx`: models beside their exports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.cli.typed import typed_options


def onnx(
    models: Annotated[list[Path], typer.Argument(help="folders of models", metavar="MODEL...", show_default=False)],
    data: Annotated[Path, typer.Argument(help="labelled text", show_default=False)],
    rounds: Annotated[int, typer.Option(help="how often each is run; the medians count")] = 3,
    threads: Annotated[int, typer.Option(help="of the CPU, for everyone")] = 2,
    out: Annotated[Path, typer.Option(help="folder for the table and the CSV")] = Path("results"),
) -> None:
    """Size, start-up, memory and speed of models with torch and as ONNX, in full and in 8 bits."""
    from benchmarks.onnx_table import run_onnx_table, write_onnx_table
    from spansieve.data.formats import read_examples

    examples = read_examples(data)
    rows = [row for model in models for row in run_onnx_table(model, examples, rounds, threads)]
    options = f" --threads {threads}" + typed_options(onnx, rounds=rounds)
    command = f"python -m benchmarks onnx {' '.join('MODEL' for _ in models)} {data.name}{options}"
    title = f"Torch and ONNX on the {len(examples):,} sentences of {data.name}, {threads} CPU threads"
    page = write_onnx_table(rows, out, title, command)
    console = Console()
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)
    console.print(f"written to {page}")
