"""`spansieve convert` and `spansieve split`: annotated files from one format to another, and one corpus into parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spansieve.cli.data import FORMAT_HELP, ReadOptions, read_options, show_notes
from spansieve.cli.inputs import read_labelled, read_with_warnings
from spansieve.cli.options import DataFormat
from spansieve.cli.outputs import Console
from spansieve.data.example import ReaderWarnings
from spansieve.data.formats import FORMATS, format_of, format_to_write, write_examples
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
        from spansieve.data.overlap_resolution import flat_examples

        examples, dropped = flat_examples(examples)
        writing.add("overlapping entities dropped by --flat", count=dropped)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_examples(examples, target, written, writing, **({"scheme": scheme} if scheme else {}))
    sentences, entities = len(examples), sum(len(example.segments) for example in examples)
    done = f"{sentences:,} sentences with {entities:,} entities, {read} to {written}: {target}"
    console.print(done, markup=False, highlight=False, soft_wrap=True)
    show_notes(console, {"reading": reading, "writing": writing})


def split(
    source: Annotated[Path, typer.Argument(metavar="DATA", help="labelled text, in any format that `data` reads")],
    into: Annotated[list[Path], typer.Option(metavar="FILE...", help="files to write, in the format of their suffix")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="further files of --into")] = None,
    fractions: Annotated[
        str | None, typer.Option(help="such as 0.8,0.1,0.1; a tenth for each file but the first if not given")
    ] = None,
    seed: Annotated[int, typer.Option(help="the same seed gives the same parts")] = 0,
    format: DataFormat = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite files that exist")] = False,
) -> None:
    """Split labelled text into files at random, without dividing documents.

    Example: spansieve split data.jsonl --into train.jsonl dev.jsonl test.jsonl --fractions 0.8,0.1,0.1
    """
    from spansieve.data.batching import described_part, split_examples

    targets = [*into, *(more or ())]
    wanted = _fractions(fractions, len(targets))
    for target in targets:
        format_to_write(target)
        if target.exists() and not force:
            raise ValueError(f"--into must name new files, got {target}, which exists; --force overwrites it")
    if len(set(targets)) < len(targets):
        raise ValueError(f"--into must name different files, got {', '.join(map(str, targets))}")
    console = Console()
    parts = split_examples(read_with_warnings(source, format, console), wanted, seed)
    for target, part in zip(targets, parts):
        target.parent.mkdir(parents=True, exist_ok=True)
        notes = ReaderWarnings()
        write_examples(part, target, warnings=notes)
        line = "; ".join([described_part(str(target), part), *str(notes).splitlines()])
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _fractions(text: str | None, parts: int) -> list[float]:
    if text is None:
        return [1 - 0.1 * (parts - 1), *[0.1] * (parts - 1)]
    try:
        fractions = [float(part) for part in text.split(",")]
    except ValueError:
        fractions = []
    if len(fractions) != parts:
        raise ValueError(f"--fractions must be {parts} numbers like 0.9,0.1, one for each file of --into, got {text!r}")
    return fractions
