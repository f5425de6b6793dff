"""The texts of a stream and where they stand in it, so that some of them can be replaced and all else stays byte for
byte: lines or paragraphs of text, fields of JSON lines, columns of CSV.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # the parser of a JSON string, which tells its end
from typing import IO, Literal, NamedTuple

from spansieve.data.example import DataError
from spansieve.data.formats.files import MAX_LINE, behind_blanks, parsed_json

Form = Literal["lines", "paragraphs", "jsonl", "csv", "tsv"]
MAX_PIECE = 65_536  # bytes of plain text that are read as one; a longer line is cut at a blank
_BLANKS = " \t\r\n"


# A character as it is written: in a JSON string one may be an escape, or two of them; in a quoted cell two quotes.
_WRITTEN = {
    "json": re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL),
    "cell": re.compile('""|.', re.DOTALL),
}


class Field(NamedTuple):
    """A text in a record: `record[start:end]` as it is written there, without quotes around it."""

    start: int
    end: int
    text: str
    quoting: Literal["none", "bare cell", "cell", "json"] = "none"

    def replaced(self, raw: str, spans: Sequence[tuple[int, int, str]]) -> str:
        """Replace spans of the text in `raw`, the field as it is written: what is not in one of them stays as it is.

        >>> Field(0, 9, "Zoë!", "json").replaced(r"Zo\u00eb!", [(0, 3, "[PER]")])
        '[PER]!'
        """
        quoting = self.quoting
        if quoting == "bare cell":
            if any(sign in instead for _, _, instead in spans for sign in ',\t"\r\n'):
                quoted = self._replace(quoting="cell").replaced(raw.replace('"', '""'), spans)
                return f'"{quoted}"'
            quoting = "none"
        offsets: Sequence[int] = range(len(raw) + 1)
        if quoting != "none":
            offsets = [match.start() for match in _WRITTEN[quoting].finditer(raw)] + [len(raw)]
        parts, reached = [], 0
        for start, end, instead in spans:
            if quoting == "json":
                instead = json.dumps(instead, ensure_ascii=raw.isascii())[1:-1]
            elif quoting == "cell":
                instead = instead.replace('"', '""')
            parts += [raw[reached : offsets[start]], instead]
            reached = offsets[end]
        return "".join((*parts, raw[reached:]))


class Record(NamedTuple):
    """A part of a stream: what is read and written as one."""

    raw: str
    fields: list[Field]
    line: int  # the number of its first line
    continues: bool = False  # the line of the record before, which was too long for one


def read_fields(stream: IO[bytes], form: Form, names: Sequence[str], source: str) -> Iterator[Record]:
    """Read the records of a stream one by one: joined, their `raw` are the stream. `names` are of the JSON fields or
    CSV columns that hold text; `source` is what errors call the stream. No error shows anything of the text."""
    if form in ("lines", "paragraphs"):
        return _plain(stream, form == "paragraphs", source)
    if not names:
        raise DataError(f"{source}: name the fields that hold text")
    if form == "jsonl":
        return _json(stream, names, source)
    return _table(stream, names, source, "," if form == "csv" else "\t")


def _decoded(raw: bytes, source: str, line: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{source} line {line}: must be UTF-8 text, got other bytes") from None


# ---- Plain text ------------------------------------------------------------------------------------------------------


def _plain(stream: IO[bytes], by_paragraph: bool, source: str) -> Iterator[Record]:
    line, continues, held, first = 1, False, b"", 1
    while piece := stream.readline(MAX_PIECE):
        held += piece
        ends = piece.endswith(b"\n")
        if ends:
            line += 1
        is_full = len(held) >= MAX_PIECE
        if by_paragraph and ends and piece.strip() and not is_full:
            continue
        cut = _last_blank(held) if len(piece) == MAX_PIECE and not ends else len(held)
        yield _whole(_decoded(held[:cut], source, first), first, continues)
        held, continues, first = held[cut:], not ends, line if ends else first
    if held:
        yield _whole(_decoded(held, source, first), first, continues)


def _last_blank(piece: bytes) -> int:
    """Where to cut a piece of a line: behind its last blank or, where a word fills it, before its last character."""
    cut = max(piece.rfind(b" "), piece.rfind(b"\t")) + 1
    if not cut and len(piece) > 4:
        cut = len(piece) - 1
        while piece[cut] & 0xC0 == 0x80 and cut > len(piece) - 4:  # within a character
            cut -= 1
    return cut or len(piece)


def _whole(raw: str, line: int, continues: bool) -> Record:
    text = raw.rstrip("\r\n")
    return Record(raw, [Field(0, len(text), text)] if text.strip() else [], line, continues)


# ---- JSON lines ------------------------------------------------------------------------------------------------------


def _lines(stream: IO[bytes], source: str) -> Iterator[tuple[int, str]]:
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise DataError(f"{source} line {number}: must have at most {MAX_LINE:,} bytes, got more")
        yield number, _decoded(line, source, number)


def _json(stream: IO[bytes], names: Sequence[str], source: str) -> Iterator[Record]:
    for number, line in _lines(stream, source):
        fields = list(json_fields(line, names, f"{source} line {number}")) if line.strip() else []
        yield Record(line, fields, number)


def json_fields(line: str, names: Sequence[str], location: str) -> Iterator[Field]:
    """Find the fields of a JSON object, also one that occurs twice.

    >>> [field[:3] for field in json_fields('{"id": 7, "text": "Zo\\u00eb"}', ["text"], "line 1")]
    [(19, 22, 'Zoë')]
    """
    if not isinstance(parsed_json(line, location), dict):
        raise DataError(f"{location}: must be a JSON object")
    decoder, is_found = json.JSONDecoder(), False
    position = behind_blanks(line, line.index("{") + 1)
    while line[position] != "}":
        name, position = scanstring(line, position + 1)
        start = behind_blanks(line, behind_blanks(line, position) + 1)  # behind the colon
        value, end = decoder.raw_decode(line, start)
        if name in names:
            if not isinstance(value, str | None):
                raise DataError(f"{location}: {name} must be a string or null, got another value")
            is_found = True
            if value:
                yield Field(start + 1, end - 1, value, "json")
        position = behind_blanks(line, end)
        if line[position] == ",":
            position = behind_blanks(line, position + 1)
    if not is_found:
        raise DataError(f"{location}: must have a field {' or '.join(names)}")


# ---- Tables ----------------------------------------------------------------------------------------------------------


def _table(stream: IO[bytes], names: Sequence[str], source: str, separator: str) -> Iterator[Record]:
    columns: list[int] | None = None
    for number, raw in _rows(_lines(stream, source), source, separator):
        cells = table_cells(raw, separator)
        if columns is None:
            header = [cell.text.removeprefix("\ufeff") for cell in cells]
            for name in names:
                if name not in header:
                    raise DataError(f"{source} line {number}: must have a column {name}, got {', '.join(header)}")
            columns = [index for index, name in enumerate(header) if name in names]
            yield Record(raw, [], number)
            continue
        if raw.strip(_BLANKS) and columns[-1] >= len(cells):
            raise DataError(f"{source} line {number}: must have {columns[-1] + 1} cells or more, got {len(cells)}")
        fields = [cells[index] for index in columns if index < len(cells)]
        yield Record(raw, [field for field in fields if field.text.strip()], number)


def _rows(lines: Iterator[tuple[int, str]], source: str, separator: str) -> Iterator[tuple[int, str]]:
    """Join the lines of a row whose quoted cells hold line ends."""
    held: list[str] = []
    first, size, is_quoted = 1, 0, False
    for number, line in lines:
        first = first if held else number
        held.append(line)
        size += len(line)
        if size > MAX_LINE:
            raise DataError(f"{source} line {first}: a row must have at most {MAX_LINE:,} characters, got more")
        is_quoted = _ends_quoted(line, is_quoted, separator)
        if not is_quoted:
            yield first, "".join(held)
            held, size = [], 0
    if held:
        raise DataError(f"{source} line {first}: a quoted cell must end, got none of its end before that of the file")


def _ends_quoted(line: str, is_quoted: bool, separator: str) -> bool:
    """Whether a quoted cell goes on behind a line; `is_quoted`: one goes on from the line before. In a cell that does
    not begin with a quote, quotes are characters as any other."""
    position = 0
    if not is_quoted and line.startswith('"'):
        is_quoted, position = True, 1
    while True:
        position = line.find('"' if is_quoted else f'{separator}"', position)
        if position < 0:
            return is_quoted
        if is_quoted and line.startswith('""', position):
            position += 2
        else:
            position += 1 if is_quoted else 2
            is_quoted = not is_quoted


def table_cells(row: str, separator: str) -> list[Field]:
    """Find the cells of a row.

    >>> [cell[:3] for cell in table_cells('7,"a ""b"", c",d', ",")]
    [(0, 1, '7'), (3, 13, 'a "b", c'), (15, 16, 'd')]
    """
    cells, start, end_of_row = [], 0, len(row.rstrip("\r\n"))
    while True:
        end = start
        if row.startswith('"', start):
            end = row.find('"', start + 1)
            while row.startswith('"', end + 1):
                end = row.find('"', end + 2)
        border = row.find(separator, end, end_of_row)
        end = end_of_row if border < 0 else border
        cells.append(_cell(row, start, end))
        if border < 0:
            return cells
        start = border + 1


def _cell(row: str, start: int, end: int) -> Field:
    raw = row[start:end]
    if len(raw) > 1 and raw[0] == raw[-1] == '"':
        return Field(start + 1, end - 1, raw[1:-1].replace('""', '"'), "cell")
    return Field(start, end, raw, "bare cell")
