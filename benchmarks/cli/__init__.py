"""The commands of `python -m benchmarks`."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.cli import reproduce, speed
from benchmarks.cli.active_learning import active_learning
from benchmarks.cli.bulk import bulk
from benchmarks.cli.chunking import chunking
from benchmarks.cli.nested import nested, nested_speed
from benchmarks.cli.onnx import onnx
from benchmarks.cli.partial import partial
from benchmarks.cli.prediction import prediction
from benchmarks.cli.service import service
from benchmarks.cli.soft_filters import soft_filters
from spansieve.cli import interruptible, run

NAME = "python -m benchmarks"
COMMANDS = {
    "The paper's tables and figures": (
        reproduce.all_corpora,
        reproduce.table1,
        reproduce.table2,
        reproduce.complexity,
        reproduce.graph_size,
        reproduce.throughput,
    ),
    "Speed, ours beside the peers'": (
        speed.core,
        speed.training_speed,
        speed.tagging,
        prediction,
        bulk,
        onnx,
        service,
        nested_speed,
        soft_filters,
    ),
    "What single ideas are worth": (active_learning, partial, chunking, nested),
}

app = typer.Typer(
    help="Make the paper's tables and figures again, measure speed, and see what single ideas are worth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
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
