"""brat standoff: `name.txt` with the text and `name.ann` with its entities.

Only text-bound annotations (`T…`) are entities; relations, events, attributes and remarks are not read. A discontinuous
entity is read from the start of its first part to the end of its last, with a warning. A text without an `.ann` file is
left out with a warning, since it may not have been annotated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from spansieve.data.alignment import Document, distinct_names, documents_of_examples, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, check_length, check_span
from spansieve.data.formats.files import files_in, files_of, in_pair, offset_in, read_lines, read_text, stem, write_text

_ENTITY = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?$")


def read_brat(path: str | Path, *, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED) -> list[Example]:
    """The sentences of one document (give either file) or of all those below a folder."""
    return examples_of_documents(_documents(Path(path), warnings), split_sentences, warnings)


def write_brat(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write a folder with two files per document."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in distinct_names(documents_of_examples(examples, warnings, join_unnamed=True)):
        lines = []
        for number, (start, end, label) in enumerate(document.annotations, start=1):
            words = re.sub(r"\s", " ", document.text[start:end])
            name_of_label = re.sub(r"\s", "_", label)  # brat ends a label at the first blank
            lines.append(f"T{number}\t{name_of_label} {start} {end}\t{words}\n")
        write_text(document.text, folder / f"{name}.txt")
        write_text("".join(lines), folder / f"{name}.ann")


def _documents(path: Path, warnings: ReaderWarnings) -> Iterator[Document]:
    pairs = [in_pair(file, ".ann", ".txt") for file in files_of(path, ".ann")]
    for standoff, source in pairs:
        text = read_text(source)
        check_length(text, str(source))
        yield Document(stem(source), text, _entities(standoff, text, warnings), str(standoff))
    annotated = {source for _, source in pairs}
    for source in files_in(path, ".txt") if path.is_dir() else ():
        warnings.add("texts without an .ann file left out", str(source), int(source not in annotated))


def _entities(file: Path, text: str, warnings: ReaderWarnings) -> Iterator[tuple[int, int, str]]:
    for number, line in read_lines(file):
        if not line.startswith("T"):
            continue
        location = f"{file} line {number}"
        match = _ENTITY.match(line)
        if match is None:
            raise DataError(f"{location}: must be like 'T1<tab>PER 0 5<tab>words', got {line!r:.200}")
        parts = sorted([offset_in(number, location) for number in part.split()] for part in match[2].split(";"))
        start, end = parts[0][0], max(part[1] for part in parts)
        check_span(start, end, text, location)
        if len(parts) > 1 and any(after[0] > before[1] + 1 for before, after in zip(parts, parts[1:])):
            warnings.add("discontinuous entities read from their first part to their last", location)
        elif match[3] is not None and _letters(match[3]) != _letters(text[start:end]):
            warnings.add("entities whose words are not those of the text, read by their characters", location)
        yield start, end, match[1]


def _letters(words: str) -> str:
    return "".join(words.split())
