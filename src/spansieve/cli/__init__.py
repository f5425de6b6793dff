"""The command line: its commands, and the only place that prints or parses arguments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from spansieve import __version__
from spansieve.cli import (
    annotation,
    audit,
    compare,
    convert,
    data,
    demo,
    distil,
    evaluate,
    predict,
    predict_files,
    publish,
    redact,
    serve,
    train,
)
from spansieve.cli.outputs import printable

app = typer.Typer(
    help="Filtered semi-Markov CRFs: exact, fast taggers for named entities and other text segments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
COMMANDS = (
    demo.demo,
    demo.example,
    train.train,
    distil.distil,
    evaluate.evaluate,
    evaluate.calibrate,
    predict.predict,
    predict_files.predict_files,
    redact.redact,
    annotation.rank,
    annotation.suggest,
    audit.audit,
    serve.serve,
    publish.export,
    publish.push,
    compare.compare,
    convert.convert,
    data.data,
    convert.split,
)


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Make Ctrl-C end a command with exit code 130, as it does everywhere; versions of typer differ in this."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None

    return run


for command in COMMANDS:
    app.command()(interruptible(command))


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"spansieve {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="show where an error came from")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="show it")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command `spansieve`."""
    run(app, "spansieve")


def run(program: typer.Typer, name: str) -> None:
    """Run a program. Errors that a user can fix are one line, and the exit code is 1; with --debug, a traceback."""
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)  # after which everything is text
    is_debug = "--debug" in arguments[:end]
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    try:
        program([*options, *arguments[end:]], prog_name=name)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        if is_debug:
            raise
        print(f"error: {printable(_in_one_line(error))}", file=sys.stderr)
        raise SystemExit(1) from None


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
