"""The command line: its commands, and the only place that prints or parses arguments."""

from __future__ import annotations

import functools
import gc
import inspect
import io
import os
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
    "distil": "train",
    "evaluate": "evaluate",
    "calibrate": "evaluate",
    "predict": "predict",
    "predict-files": "predict_files",
    "redact": "redact",
    "rank": "annotation",
    "suggest": "annotation",
    "audit": "annotation",
    "serve": "serve",
    "export": "publish",
    "push": "publish",
    "compare": "evaluate",
    "convert": "data",
    "data": "data",
    "split": "data",
}

PLAIN_COMMANDS = {"example", "push", "convert", "data", "split"}  # which have nothing to compute
Threads = Annotated[int | None, typer.Option(min=1, help="of the processor; one for each core if not set")]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


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


def with_threads(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --threads to a command that has no such option of its own."""
    signature = inspect.signature(command, eval_str=True)
    if "threads" in signature.parameters:
        return command

    @functools.wraps(command)
    def run(*arguments: Any, threads: int | None = None, **options: Any) -> None:
        if threads is not None:
            bound_threads(threads)
        command(*arguments, **options)

    option = inspect.Parameter("threads", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Threads)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "threads": Threads}
    return run


def bound_threads(threads: int) -> None:
    """Compute with so many threads, in this process and in those that it starts."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    if "torch" in sys.modules:  # and has read them
        sys.modules["torch"].set_num_threads(threads)


def wait_passively() -> None:
    """Let threads that wait for others sleep, unless the environment says how they wait. OpenMP's would go on in a loop
    for milliseconds, and take the processor from the very thread that they wait for wherever anything else runs."""
    if not any(name in os.environ for name in WAIT_VARIABLES):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # which is read when torch is loaded


def write_utf8() -> None:
    """Write UTF-8 to pipes and files, as to all others: Windows has a code page there, without most letters and signs.
    A terminal that cannot show a sign gets a question mark for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


def _version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"spansieve {__version__}")
        raise typer.Exit


def _root(
    debug: Annotated[bool, typer.Option("--debug", help="show where an error came from")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="show it")] = False,
) -> None:
    pass


def new_program(help: str) -> typer.Typer:
    """A program without commands, whose errors `run` shows."""
    options: Any = {"no_args_is_help": True, "add_completion": False, "pretty_exceptions_enable": False}
    return typer.Typer(help=help, rich_markup_mode="rich", **options)


def program_of(names: Collection[str]) -> typer.Typer:
    """The program with these commands and no others."""
    program = new_program("Filtered semi-Markov CRFs: exact, fast taggers for named entities and other text segments.")
    program.callback()(_root)
    for name in names:
        command = command_named(name)
        program.command()(interruptible(command if name in PLAIN_COMMANDS else with_threads(command)))
    return program


def main() -> None:
    """Run the command `spansieve`."""
    wait_passively()
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
    write_utf8()
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
