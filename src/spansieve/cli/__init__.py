"""The command line: its commands, and the only place that prints or parses arguments."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer

from spansieve import __version__

# Which module defines a command. It is imported when the command is used, or listed.
COMMANDS = {
    "demo": "demo",
    "example": "demo",
    "train": "train",
    "distil": "distil",
    "evaluate": "evaluate",
    "calibrate": "evaluate",
    "predict": "predict",
    "predict-files": "predict_files",
    "redact": "redact",
    "rank": "annotation",
    "suggest": "annotation",
    "audit": "audit",
    "serve": "serve",
    "export": "publish",
    "push": "publish",
    "compare": "compare",
    "convert": "convert",
    "data": "data",
    "split": "convert",
}


def command_named(name: str) -> Callable[..., None]:
    """Import the function that a command is."""
    return getattr(import_module(f"spansieve.cli.{COMMANDS[name]}"), name.replace("-", "_"))


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


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"spansieve {__version__}")
        raise typer.Exit


def _root(
    debug: Annotated[bool, typer.Option("--debug", help="show where an error came from")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="show it")] = False,
) -> None:
    pass


def program_of(names: Collection[str]) -> typer.Typer:
    """The program with these commands and no others."""
    program = typer.Typer(
        help="Filtered semi-Markov CRFs: exact, fast taggers for named entities and other text segments.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    program.callback()(_root)
    for name in names:
        program.command()(interruptible(command_named(name)))
    return program


def main() -> None:
    """Run the command `spansieve`."""
    first = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    # The others are needed for help and for errors alone.
    with without_collection():
        program = program_of([first] if first in COMMANDS else COMMANDS)
    run(program, "spansieve")


@contextmanager
def without_collection() -> Iterator[None]:
    """Load code and weights without a search for garbage among them, which takes a sixth of the time. They stay, so
    that later searches pass over them, too."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


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
        from spansieve.cli.outputs import printable

        print(f"error: {printable(_in_one_line(error))}", file=sys.stderr)
        raise SystemExit(1) from None


def _in_one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
