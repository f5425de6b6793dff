"""The commands of `python -m benchmarks`."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.cli import experiments, paper_tables, speed
from spansieve.cli import interruptible, new_program, run

NAME = "python -m benchmarks"
COMMANDS = {
    "The paper's tables and figures": (
        paper_tables.all_corpora,
        paper_tables.table1,
        paper_tables.table2,
        paper_tables.complexity,
        paper_tables.graph_size,
        paper_tables.throughput,
    ),
    "Speed, ours beside the peers'": (
        speed.core,
        speed.training_speed,
        speed.tagging,
        speed.spacy_vectors,
        speed.prediction,
        speed.bulk,
        speed.onnx,
        speed.service,
        speed.service_hostile,
        speed.nested_speed,
        speed.soft_filters,
        speed.startup,
        speed.neighbours,
    ),
    "What single ideas are worth": (
        experiments.active_learning,
        experiments.partial,
        experiments.audit,
        experiments.chunking,
        experiments.nested,
        experiments.vectors,
        experiments.distil,
        experiments.guarantees,
        experiments.decode,
    ),
}

app = new_program("Make the paper's tables and figures again, measure speed, and see what single ideas are worth.")
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(interruptible(command))


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="show where an error came from")] = False,
) -> None:
    pass


def main() -> None:
    """Errors are shown as by the command `spansieve`."""
    run(app, NAME)
