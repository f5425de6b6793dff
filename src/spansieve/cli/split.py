"""`spansieve split`: one corpus in, its training, development and test data out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spansieve.cli.inputs import read_with_warnings
from spansieve.cli.options import DataFormat
from spansieve.cli.outputs import Console
from spansieve.data.formats import format_to_write, write_examples
from spansieve.data.reader_warnings import ReaderWarnings
from spansieve.data.splits import described_part, split_examples


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
