"""`python -m benchmarks soft-filters`: what a filter that keeps more costs, and what a budget bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.cli.typed import typed_options


def soft_filters(
    seconds: Annotated[float, typer.Option(help="time to spend on each contender")] = 0.05,
    out: Annotated[Path, typer.Option(help="folder for the tables, the CSV and the plot")] = Path("results"),
) -> None:
    """Candidates listed and every span swept over, as the filter keeps more, on one CPU thread; and a budget."""
    from benchmarks.measuring import markdown_table, provenance, write_csv
    from benchmarks.soft_filters import BUDGET, break_even, plot_forms, run_budget, run_forms
    from spansieve.crf.kernels.cpu.dense_filter import DENSE_FROM

    rows, bounded = run_forms(seconds), run_budget(seconds)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "soft_filters_cpu.csv", rows)
    plot_forms(rows, out / "soft_filters_cpu.png")
    lines = [
        "# Softer filters",
        *provenance(f"python -m benchmarks soft-filters{typed_options(soft_filters, seconds=seconds)}", "cpu"),
        "Batch 32, L tokens, widths up to K, Y labels with null, float32, one thread, paths that may skip; a filter "
        "that may keep every label of a span. *Listed* and *every span* are the two forms of the same call, which take "
        f"turns with the library, which takes every span from {DENSE_FROM:g} candidates a span. Without a budget that "
        "many labels stand above null; with one all do, and the budget is that many. Processor time, the least of all "
        "turns; filter and gradient are part of it.",
        "![times](soft_filters_cpu.png)",
        "## Where the two break even, and what the choice is worth",
        "In candidates a span. Beside it the time of the library over that of the cheaper form: the median of all "
        "measurements, and the most.",
        markdown_table(break_even(rows)),
        "## What a budget bounds",
        f"The library's choice, with and without a budget of {BUDGET}. Candidates and edges are those of a sentence, "
        "times those of the batch; *MB on top* is what log Z with its gradient takes beside the scores.",
        markdown_table(bounded),
        "## All measurements",
        markdown_table(rows),
    ]
    page = out / "soft_filters_cpu.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console = Console()
    console.print("\n\n".join(lines[:-2]), markup=False, highlight=False)
    console.print(f"written to {page}")
