"""The command line: one file per command, the only place that prints or parses arguments."""

from __future__ import annotations

import typer

from spansieve.cli import benchmark, demo

app = typer.Typer(
    help="Filtered semi-Markov CRFs: exact, fast taggers for named entities and other text segments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.add_typer(benchmark.app, name="benchmark")


@app.callback()
def _root() -> None:
    """Nothing is shared by the commands; this keeps them named even while there are few."""


def main() -> None:
    app()
