"""WebAnno TSV 3, which INCEpTION writes too: one layer of spans, read by its name.

By default the layer whose name holds `NamedEntity`, else the first layer of spans, with its first feature as the label.
An annotation that goes on into the next sentence is read as one entity in each, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spansieve.data.alignment import examples_of_text
from spansieve.data.example import DataError, Example
from spansieve.data.formats.files import files_of, read_lines, stem
from spansieve.data.reader_warnings import IGNORED, ReaderWarnings
from spansieve.data.tag_schemes import UNNAMED
from spansieve.data.tokenizer import Token

_VALUE = re.compile(r"(.*?)(?:\[(\d+)\])?$", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_BAR = re.compile(r"(?<!\\)\|")


@dataclass
class _Sentence:
    """A sentence of the file; `rows`: location, token id, start and end in the file's units, words, value in the
    label's column."""

    text: str = ""
    rows: list[tuple[str, str, int, int, str, str]] = field(default_factory=list)


def read_webanno(
    path: str | Path, *, layer: str | None = None, feature: str | None = None, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of a file or of the `.tsv` files below a folder. `layer` and `feature`: part of the names in the
    `#T_SP=` header."""
    return [e for file in files_of(path, ".tsv") for e in _read_file(file, layer, feature, warnings)]


def _read_file(path: Path, layer: str | None, feature: str | None, warnings: ReaderWarnings) -> list[Example]:
    examples: list[Example] = []
    seen: set[str] = set()
    for sentence in _sentences(path, layer, feature):
        tokens = _located(sentence)
        annotations, numbered = _annotations(sentence, tokens)
        location = sentence.rows[0][0]
        warnings.add("entities over the end of a sentence read as one in each", location, len(numbered & seen))
        seen |= numbered
        examples += examples_of_text(
            sentence.text,
            annotations,
            document=stem(path),
            tokens=list(tokens.values()),
            split_sentences=False,
            location=location,
            warnings=warnings,
        )
    return examples


def _sentences(path: str | Path, layer: str | None, feature: str | None) -> Iterator[_Sentence]:
    column: int | None = None
    header: list[str] = []
    sentence = _Sentence()
    for number, line in [*read_lines(path), (0, "")]:
        location = f"{path} line {number}"
        if re.match(r"#T_\w\w=", line):
            header.append(line)
        elif line.startswith("#Text="):
            text = _ESCAPED.sub(_unescape, line[len("#Text=") :])
            # A sentence of several lines has several of these.
            sentence.text = f"{sentence.text}\n{text}" if sentence.text else text
        elif re.match(r"\d+-\d", line):
            column = _column(path, header, layer, feature) if column is None else column
            sentence.rows.append(_row(location, line.split("\t"), column))
        elif not line.strip() and sentence.rows:
            yield sentence
            sentence = _Sentence()


def _row(location: str, fields: list[str], column: int) -> tuple[str, str, int, int, str, str]:
    if len(fields) <= column:
        raise DataError(f"{location}: must have at least {column + 1} columns, got {len(fields)}")
    try:
        start, end = (int(number) for number in fields[1].split("-"))
    except ValueError as error:
        raise DataError(f"{location}: must have characters like 0-9 in its second column, got {fields[1]!r}") from error
    return location, fields[0], start, end, _ESCAPED.sub(_unescape, fields[2]), fields[column]


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


def _located(sentence: _Sentence) -> dict[str, Token]:
    """The tokens by their ids, with their characters in the sentence's text.

    The file's own offsets count UTF-16 units of the whole document, so the words are looked for instead.
    """
    tokens, position = {}, 0
    for location, name, _, _, words, _ in sentence.rows:
        if "." in name:
            continue
        start = sentence.text.find(words, position)
        if start < 0:
            raise DataError(f"{location}: token {words!r} must stand in its sentence's #Text, got {sentence.text!r}")
        position = start + len(words)
        tokens[name] = Token(words, start, position)
    return tokens


def _annotations(sentence: _Sentence, tokens: dict[str, Token]) -> tuple[list[tuple[int, int, str]], set[str]]:
    """Entities in characters of the sentence, and the numbers of those that have one."""
    first_units = {name: start for _, name, start, _, _, _ in sentence.rows if "." not in name}
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for location, name, start, _, words, value in sentence.rows:
        token = tokens.get(name.partition(".")[0])
        if token is None:
            raise DataError(f"{location}: part {name} must come after its token")
        first, last = token.start, token.end
        if "." in name:
            first = token.start + _characters(token.text, start - first_units[name.partition(".")[0]])
            last = first + len(words)
        for label, number in _values(value):
            key = (label, number or name)
            before = spans.get(key, (first, last))
            spans[key] = (min(before[0], first), max(before[1], last))
    entities = [(start, end, label) for (label, _), (start, end) in spans.items()]
    return entities, {number for _, number in spans if number.isdigit()}


def _values(value: str) -> Iterator[tuple[str, str]]:
    """Label and number, "" for none, of each annotation in a cell such as `PER[1]|LOC`."""
    for part in _BAR.split(value):
        match = _VALUE.match(part)
        if match and part not in ("_", ""):
            label = _ESCAPED.sub(_unescape, match[1])
            yield (UNNAMED if label in ("*", "") else label), match[2] or ""


def _characters(text: str, units: int) -> int:
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="ignore"))


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1])
