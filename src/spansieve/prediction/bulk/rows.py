"""Rows of bulk data: read from JSON lines or Parquet, and written again with what was found in them.

A row comes out with all that it had. One whose text cannot be read is left out, with the reason, and does not stop the
others.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spansieve.data.example import MAX_TEXT
from spansieve.data.formats.files import MAX_LINE
from spansieve.models.inference import SURROGATE
from spansieve.segments import Entity

if TYPE_CHECKING:
    import pyarrow

JSON_SUFFIXES, PARQUET_SUFFIXES = (".jsonl", ".ndjson"), (".parquet", ".pq")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_as_ascii_json = json.JSONEncoder().encode


@dataclass(frozen=True)
class Columns:
    """The names of the columns: the one that is read, and the one that is added."""

    text: str = "text"
    entities: str = "entities"

    def check(self, present: Collection[str]) -> None:
        if self.text not in present:
            got = ", ".join(map(str, present)) or "none"
            raise ValueError(f"must have a column {self.text!r}, got {got:.200}; name another by text_column")
        if self.entities in present:
            raise ValueError(f"has a column {self.entities!r} already: name the new one by entities_column")


def _checked_text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        got = "null" if value is None else type(value).__name__
        raise ValueError(f"column {column!r} must be a string, got {got}")
    if len(value) > MAX_TEXT:
        raise ValueError(f"column {column!r} must have at most {MAX_TEXT:,} characters, got {len(value):,}")
    return value


# ---- JSON lines ------------------------------------------------------------------------------------------------------


class JsonRows:
    """The rows of a block of JSON lines. A line is written as it was, with one more column at its end: numbers keep
    their digits, columns their order."""

    def __init__(self, content: bytes, columns: Columns) -> None:
        self._columns = columns
        self._lines: list[str] = []
        self.texts: list[str] = []
        self.left_out: list[tuple[int, str]] = []  # the number of the line in the block, from 1, and why
        lines = content.removeprefix(BYTE_ORDER_MARK).split(b"\n")
        self.num_read = len(lines) if lines[-1] else len(lines) - 1  # blank lines too
        for number, line in enumerate(lines, start=1):
            if stripped := line.strip():
                try:
                    self._read(stripped)
                except (ValueError, RecursionError) as error:
                    self.left_out.append((number, _reason(error)))

    def _read(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            raise ValueError(f"a line must have at most {MAX_LINE:,} bytes, got more")
        decoded = line.decode()
        row = json.loads(decoded)
        if not isinstance(row, dict):
            raise ValueError(f"a row must be a JSON object, got {type(row).__name__}")
        self._columns.check(row)
        self.texts.append(_checked_text(row[self._columns.text], self._columns.text))
        self._lines.append(decoded)

    def written(self, entities: Sequence[list[Entity]]) -> bytes:
        """The rows with their entities, as a file of the same kind."""
        column = _as_json(self._columns.entities)
        return "".join(
            f"{line[:-1]}, {column}: [{', '.join(map(_json_of, found))}]}}\n"
            for line, found in zip(self._lines, entities)
        ).encode()


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"a row must be JSON, got {error.msg} at column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"a row must be UTF-8, got byte 0x{error.object[error.start]:02x} at byte {error.start + 1}"
    return "a row must be JSON, got one nested too deep" if isinstance(error, RecursionError) else str(error)


def _json_of(entity: Entity) -> str:
    start, end, label, text, probability, depth = entity
    # Half a surrogate pair can be written in ASCII alone.
    written = _as_ascii_json(text) if SURROGATE.search(text) else _as_json(text)
    share = "null" if probability is None else repr(probability)
    return (  # by hand: of many small objects, the json module takes three times as long
        f'{{"start": {start}, "end": {end}, "label": {_as_json(label)}, "text": {written}, "probability": {share}, '
        f'"depth": {depth}}}'
    )


# ---- Parquet ---------------------------------------------------------------------------------------------------------


class ParquetRows:
    def __init__(self, table: pyarrow.Table, columns: Columns) -> None:
        columns.check(table.column_names)
        self._columns = columns
        self.texts: list[str] = []
        self.left_out: list[tuple[int, str]] = []
        self.num_read = len(table)
        for number, value in enumerate(table.column(columns.text), start=1):
            try:
                self.texts.append(_checked_text(value.as_py(), columns.text))
            except ValueError as error:
                self.left_out.append((number, _reason(error)))
        bad = {number for number, _ in self.left_out}
        self._table = table.filter([i + 1 not in bad for i in range(len(table))]) if bad else table

    def written(self, entities: Sequence[list[Entity]]) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        values = [[entity._asdict() for entity in found] for found in entities]
        table = self._table.append_column(self._columns.entities, pa.array(values, _entities_type()))
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        return buffer.getvalue()


def _entities_type() -> pyarrow.DataType:
    import pyarrow as pa

    kinds = (pa.int64(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.int64())
    return pa.list_(pa.struct(list(zip(Entity._fields, kinds))))


def parquet_module() -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'spansieve[ray]'") from error
    return pq
