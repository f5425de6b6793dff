"""Files of many formats in and out: `read_examples` and `write_examples`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from spansieve.data.example import Example
from spansieve.data.notes import Notes


@dataclass(frozen=True)
class Format:
    """A way that examples are stored. Its module loads when it is first used."""

    name: str
    about: str
    suffixes: tuple[str, ...]
    module: str
    reader: str | None
    writer: str | None = None

    def read(self, path: str | Path, notes: Notes | None = None, **options: Any) -> list[Example]:
        if self.reader is None:
            raise ValueError(f"format {self.name} can only be written, got {path} to read")
        return self._call(self.reader, path, notes=notes, **options)

    def write(self, examples: Iterable[Example], path: str | Path, notes: Notes | None = None, **options: Any) -> None:
        if self.writer is None:
            writable = ", ".join(name for name, format in FORMATS.items() if format.writer)
            raise ValueError(f"format {self.name} can only be read; these can be written: {writable}")
        self._call(self.writer, examples, path, notes=notes, **options)

    def _call(self, name: str, *arguments: Any, notes: Notes | None, **options: Any) -> Any:
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{self.module}"), name)
        known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        known.remove("notes")
        for option in options:
            if option not in known:
                raise ValueError(f"format {self.name} takes {', '.join(known) or 'no options'}, got {option!r}")
        return function(*arguments, notes=notes, **options)


_TABLE = (
    Format(
        "conll",
        "tokens and tags in columns",
        (".conll", ".txt", ".tsv", ".iob", ".bio"),
        "conll",
        "read_conll",
        "write_conll",
    ),
    Format(
        "jsonl", "JSON lines with tokens or text", (".jsonl", ".ndjson", ".json"), "jsonl", "read_jsonl", "write_jsonl"
    ),
    Format("jsonl-text", "JSON lines with text", (), "jsonl", "read_jsonl", "write_jsonl_text"),
)
FORMATS = {format.name: format for format in _TABLE}


def read_examples(
    path: str | Path, format: str | None = None, notes: Notes | None = None, **options: Any
) -> list[Example]:
    """The examples of a file or folder, in the format given or in the one that it looks like.

    `options` are those of the format's reader; `notes` counts what could not be represented as it stood.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    return format_named(format or format_of(path)).read(path, notes, **options)


def write_examples(
    examples: Iterable[Example], path: str | Path, format: str | None = None, notes: Notes | None = None, **options: Any
) -> None:
    """Write examples in the format given, or the one that the name's suffix stands for."""
    format_named(format or _by_suffix(Path(path))).write(examples, path, notes, **options)


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def format_of(path: Path) -> str:
    return _by_suffix(path)


def _by_suffix(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    for format in FORMATS.values():
        if name.endswith(format.suffixes):
            return format.name
    return "conll"
