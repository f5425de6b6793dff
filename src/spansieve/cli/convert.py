"""`spansieve convert`: from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spansieve.cli.data import FORMAT_HELP, ReadOptions, read_options, show_notes
from spansieve.cli.inputs import read_labelled
from spansieve.cli.outputs import Console
from spansieve.data.formats import FORMATS, format_of, format_to_write, write_examples
from spansieve.data.overlap_resolution import flat_examples
from spansieve.data.reader_warnings import ReaderWarnings
from spansieve.data.tag_schemes import SCHEMES

WRITABLE = ", ".join(name for name, format in FORMATS.items() if format.writer)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="a file or folder", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="a file, or a folder for brat and hugging-face")],
    from_format: Annotated[str | None, typer.Option("--from", metavar="FORMAT", help=FORMAT_HELP)] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help=f"one of {WRITABLE}; by the suffix of OUT where not given"),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help=f"tags to write, where the format has them: {', '.join(SCHEMES)}")
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="drop entities that overlap a wider one")] = False,
    option: ReadOptions = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite OUT where it exists")] = False,
) -> None:
    """Convert annotated text between formats, and report what could not be carried over.

    Example: spansieve convert annotations/ train.jsonl --from brat
    """
    if target.exists() and not force:
        raise ValueError(f"OUT must not exist yet, got {target}; give --force to overwrite it")
    written = to_format or format_to_write(target)
    if not source.exists():
        raise FileNotFoundError(f"no file or folder {source}")
    console = Console()
    reading, writing = ReaderWarnings(), ReaderWarnings()
    read = from_format or format_of(source)
    examples = read_labelled(source, read, reading, **read_options(option))
    if flat:
        examples, dropped = flat_examples(examples)
        writing.add("overlapping entities dropped by --flat", count=dropped)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_examples(examples, target, written, writing, **({"scheme": scheme} if scheme else {}))
    sentences, entities = len(examples), sum(len(example.segments) for example in examples)
    done = f"{sentences:,} sentences with {entities:,} entities, {read} to {written}: {target}"
    console.print(done, markup=False, highlight=False, soft_wrap=True)
    show_notes(console, {"reading": reading, "writing": writing})
