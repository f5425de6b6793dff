"""OntoNotes 5 as CoNLL-2012 has it: `*gold_conll` files, named entities in brackets in the eleventh column.

Tokens stay as they are written there (`-LRB-`, `/.`). A document without any entity may be one whose names were never
annotated; such documents are read, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import files_of, read_lines
from spansieve.segments import NamedSegment

SUFFIX = "gold_conll"
WORD_COLUMN, NAME_COLUMN = 3, 10
_BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")
_OPENING = re.compile(r"\(([^()*|\s]+)")


def read_ontonotes(path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> list[Example]:
    """The sentences of a `*gold_conll` file, or of all those below a folder."""
    examples: list[Example] = []
    for file in files_of(path, SUFFIX):
        examples += _read_file(file)
    for document, group in groupby(examples, key=lambda example: example.document):
        if not any(example.segments for example in group):
            warnings.add("documents without any entity, perhaps never annotated", str(document))
    return examples


def _read_file(file: Path) -> Iterator[Example]:
    document = None
    rows: list[tuple[int, list[str]]] = []
    for number, line in [*read_lines(file), (0, "")]:
        if begin := _BEGIN.match(line):
            document = f"{begin[1]} part {begin[2].lstrip('0') or '0'}"
        elif line.strip() and not line.startswith("#"):
            rows.append((number, line.split()))
        elif rows:
            yield _example(file, rows, document)
            rows = []


def _example(file: Path, rows: list[tuple[int, list[str]]], document: str | None) -> Example:
    tokens: list[str] = []
    segments: list[NamedSegment] = []
    under_way: list[tuple[int, str]] = []  # start and label of the brackets still open, innermost last
    for position, (number, row) in enumerate(rows):
        if len(row) <= NAME_COLUMN:
            raise DataError(f"{file} line {number}: must have more than {NAME_COLUMN} columns, got {len(row)}")
        if row[WORD_COLUMN] == "[WORD]":
            raise DataError(f"{file} line {number}: must have words, got a skeleton; fill it with skeleton2conll first")
        tokens.append(row[WORD_COLUMN])
        under_way += [(position, label) for label in _OPENING.findall(row[NAME_COLUMN])]
        for _ in range(row[NAME_COLUMN].count(")")):
            if not under_way:
                raise DataError(f"{file} line {number}: a bracket closes that none has opened, {row[NAME_COLUMN]!r}")
            start, label = under_way.pop()
            segments.append(NamedSegment(start, position + 1, label))
    if under_way:
        raise DataError(f"{file} line {rows[-1][0]}: the bracket of {under_way[-1][1]!r} must close in its sentence")
    return Example(tuple(tokens), tuple(segments), document=document)
