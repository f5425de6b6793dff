"""PubTator: `id|t|title`, `id|a|abstract`, then lines of id, start, end, words and label.

A blank line stands between documents. The text is title and abstract with one character between them. Lines of
relations are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, check_span
from spansieve.data.formats.files import offset_in, read_blocks

_PASSAGE = re.compile(r"([^|\t]+)\|(\w+)\|(.*)$")


def read_pubtator(
    path: str | Path, *, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of every document in a file; none spans title and abstract."""
    return examples_of_documents(_documents(path, warnings), split_sentences, warnings)


def _documents(path: str | Path, warnings: ReaderWarnings) -> Iterator[Document]:
    for block in read_blocks(path):
        passages = [(match[1], match[3]) for _, line in block if (match := _PASSAGE.match(line))]
        location = f"{path} line {block[0][0]}"
        if not passages:
            raise DataError(f"{location}: a document must begin with 'id|t|title', got {block[0][1][:60]!r}")
        text, (name, title) = "\n".join(passage for _, passage in passages), passages[0]
        yield Document(name, text, _entities(path, block, text, warnings), location, breaks=[len(title)])


def _entities(
    path: str | Path, block: list[tuple[int, str]], text: str, warnings: ReaderWarnings
) -> Iterator[tuple[int, int, str]]:
    for number, line in block:
        fields = line.split("\t")
        if _PASSAGE.match(line) or (len(fields) >= 3 and not fields[1].isdigit()):
            continue
        location = f"{path} line {number}"
        if len(fields) < 5 or not fields[2].isdigit() or not fields[4]:
            wanted = "id, start, end, words and label, with tabs between"
            raise DataError(f"{location}: must be {wanted}, got {line!r:.200}")
        start, end = offset_in(fields[1], location), offset_in(fields[2], location)
        check_span(start, end, text, location)
        if text[start:end] != fields[3]:
            warnings.add("entities whose words are not those of the text, read by their characters", location)
        yield start, end, fields[4]
