"""Data for a command, with a warning of what its reader could not represent."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from spansieve.data.example import DataError, Example
from spansieve.data.formats import read_examples
from spansieve.data.reader_warnings import ReaderWarnings


def read_with_notes(path: Path, format: str | None, console: Console) -> list[Example]:
    notes = ReaderWarnings()
    examples = read_examples(path, format, notes)
    if notes:
        console.print(f"[yellow]{escape(f'{path}: {notes}')}[/]", highlight=False, soft_wrap=True)
    if not examples:
        raise DataError(f"{path} must hold at least one sentence, got none")
    return examples
