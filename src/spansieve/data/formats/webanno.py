"""WebAnno TSV 3, which INCEpTION writes too: one layer of spans, read by its name.

By default the layer whose name holds `NamedEntity`, else the first layer of spans, with its first feature as the label.
An annotation that goes on into the next sentence is read as one entity in each, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import files_of, read_blocks, stem
from spansieve.data.tag_schemes import UNNAMED
from spansieve.data.tokenizer import Token

_VALUE = re.compile(r"(.*?)(?:\[(\d+)\])?$", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_BAR = re.compile(r"(?<!\\)\|")
_Row = tuple[str, str, int, str, str]  # location, token id, first character in the file's units, words, label's value


def read_webanno(
    path: str | Path, *, layer: str | None = None, feature: str | None = None, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of a file or of the `.tsv` files below a folder. `layer` and `feature`: part of the names in the
    `#T_SP=` header."""
    documents = (one for file in files_of(path, ".tsv") for one in _documents(file, layer, feature, warnings))
    return examples_of_documents(documents, split_sentences=False, warnings=warnings)


def _documents(path: Path, layer: str | None, feature: str | None, warnings: ReaderWarnings) -> Iterator[Document]:
    """The sentences of a file."""
    header: list[str] = []
    seen: set[str] = set()
    for block in read_blocks(path):
        header += [line for _, line in block if re.match(r"#T_\w\w=", line)]
        # A sentence of several lines has several of these.
        text = "\n".join(_unescaped(line.removeprefix("#Text=")) for _, line in block if line.startswith("#Text="))
        lines = [(f"{path} line {number}", line) for number, line in block if re.match(r"\d+-\d", line)]
        if lines:
            column = _column(path, header, layer, feature)
            tokens, spans = _sentence(text, [_row(location, line.split("\t"), column) for location, line in lines])
            numbered = {number for _, number in spans if number.isdigit()}
            location = lines[0][0]
            warnings.add("entities over the end of a sentence read as one in each", location, len(numbered & seen))
            seen |= numbered
            entities = [(start, end, label) for (label, _), (start, end) in spans.items()]
            yield Document(stem(path), text, entities, location, tokens)


def _row(location: str, fields: list[str], column: int) -> _Row:
    if len(fields) <= column:
        raise DataError(f"{location}: must have at least {column + 1} columns, got {len(fields)}")
    try:
        start, _ = (int(number) for number in fields[1].split("-"))
    except ValueError as error:
        raise DataError(f"{location}: must have characters like 0-9 in its second column, got {fields[1]!r}") from error
    return location, fields[0], start, _unescaped(fields[2]), fields[column]


def _column(path: str | Path, header: list[str], layer: str | None, feature: str | None) -> int:
    """The column of the label of the wanted layer."""
    position, columns = 3, []
    for line in header:
        kind, _, names = line[1:].partition("=")
        name, *features = names.split("|")
        features = features or ["*"]
        if kind == "T_SP":
            columns += [(name, feature_name, position + n) for n, feature_name in enumerate(features)]
        position += len(features)
    wanted = [entry for entry in columns if (layer or "NamedEntity") in entry[0]]
    wanted = wanted if wanted or layer else columns
    wanted = [entry for entry in wanted if feature is None or feature in entry[1]]
    if not wanted:
        known = ", ".join(f"{name}|{feature_name}" for name, feature_name, _ in columns) or "none"
        raise DataError(f"{path} must have a layer of spans named like {layer}|{feature}, it has {known}")
    return wanted[0][2]


def _sentence(text: str, rows: list[_Row]) -> tuple[list[Token], dict[tuple[str, str], tuple[int, int]]]:
    """The tokens with their characters in the text, and the characters of each label and number or row.

    The file's own offsets count UTF-16 units of the whole document, so the words are looked for instead.
    """
    tokens: dict[str, tuple[Token, int]] = {}  # by their ids, with their first unit
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    position = 0
    for location, name, unit, words, value in rows:
        whole, _, part = name.partition(".")
        if not part:
            first = text.find(words, position)
            if first < 0:
                raise DataError(f"{location}: token {words!r} must stand in its sentence's #Text, got {text!r:.200}")
            position = first + len(words)
            tokens[name] = Token(words, first, position), unit
        elif whole not in tokens:
            raise DataError(f"{location}: part {name} must come after its token")
        else:
            token, first_unit = tokens[whole]
            first = token.start + _characters(token.text, unit - first_unit)
        last = first + len(words)
        for label, number in _values(value):
            before = spans.setdefault((label, number or name), (first, last))
            spans[label, number or name] = (min(before[0], first), max(before[1], last))
    return [token for token, _ in tokens.values()], spans


def _values(value: str) -> Iterator[tuple[str, str]]:
    """Label and number, "" for none, of each annotation in a cell such as `PER[1]|LOC`."""
    for part in _BAR.split(value):
        match = _VALUE.match(part)
        if match and part not in ("_", ""):
            label = _unescaped(match[1])
            yield (UNNAMED if label in ("*", "") else label), match[2] or ""


def _characters(text: str, units: int) -> int:
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore"))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1]), text)
