"""Rows of bulk data: read from JSON lines or Parquet, and written again with what was found in them.

Every row comes out, with all that it had. One whose text cannot be read gets an error, and does not stop the others.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """The names of the columns: the one that is read, and the two that are added."""

    text: str = "text"
    entities: str = "entities"
    error: str = "error"

    def check_new(self, present: Iterable[str], where: str) -> None:
        for name, option in ((self.entities, "entities_column"), (self.error, "error_column")):
            if name in present:
                raise ValueError(f"{where} has a column {name!r} already: call the new one otherwise by {option}")


# ---- JSON lines ------------------------------------------------------------------------------------------------------


class JsonRows:
    """The rows of a block of JSON lines. A line is written as it was, with two more columns at its end: numbers keep
    their digits, columns their order."""

    def __init__(self, content: bytes, columns: Columns, where: str) -> None:
        self._columns = columns
        self._lines: list[str] = []
        self._errors: list[str | None] = []
        self.texts: list[str | None] = []  # None where there is none to be read
        for line in content.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
            if line.strip():
                self._read(line.strip(), where)

    def _read(self, line: bytes, where: str) -> None:
        text, error = None, None
        try:
            row = json.loads(line.decode())
        except (ValueError, RecursionError) as problem:
            row, error = None, f"a row must be JSON: {problem or 'nested too deep'}"
        if error is None and not isinstance(row, dict):
            error = f"a row must be a JSON object, got {type(row).__name__}"
        if error is not None:
            self._lines.append(f'{{"line": {_as_json(line.decode(errors="replace"))}}}')
        else:
            self._columns.check_new(row, where)
            self._lines.append(line.decode())
            column = self._columns.text
            missing = (None, f"a row must have a column {column!r}")
            text, error = _checked_text(row[column], column) if column in row else missing
        self.texts.append(text)
        self._errors.append(error)

    def written(self, entities: Sequence[list[Entity]]) -> bytes:
        """The rows with the entities of those that have a text, as a file of the same kind."""
        found = iter(entities)
        column, error_column = _as_json(self._columns.entities), _as_json(self._columns.error)
        lines = []
        for line, error in zip(self._lines, self._errors):
            if error is None:
                more = f"{column}: [{', '.join(map(_json_of, next(found)))}]"
            else:
                more = f"{column}: null, {error_column}: {_as_json(error)}"
            comma = "" if line[1:-1].isspace() or line == "{}" else ", "
            lines.append(f"{line[:-1]}{comma}{more}}}\n")
        return "".join(lines).encode()


def _json_of(entity: Entity) -> str:
    start, end, label, text, probability, depth = entity
    # Half a surrogate pair can be written in ASCII alone.
    written = _as_ascii_json(text) if SURROGATE.search(text) else _as_json(text)
    share = "null" if probability is None else repr(probability)
    return (  # by hand: of many small objects, the json module takes three times as long
        f'{{"start": {start}, "end": {end}, "label": {_as_json(label)}, "text": {written}, "probability": {share}, '
        f'"depth": {depth}}}'
    )


def _checked_text(value: Any, column: str) -> tuple[str | None, str | None]:
    """The text, or why there is none."""
    if isinstance(value, str):
        return value, None
    return None, f"column {column!r} must be a string, got {'null' if value is None else type(value).__name__}"


# ---- Parquet ---------------------------------------------------------------------------------------------------------


class ParquetRows:
    def __init__(self, table: pyarrow.Table, columns: Columns, where: str) -> None:
        columns.check_new(table.column_names, where)
        self._table, self._columns = table, columns
        checked = [_checked_text(value, columns.text) for value in table.column(columns.text).to_pylist()]
        self.texts = [text for text, _ in checked]
        self._errors = [error for _, error in checked]

    def written(self, entities: Sequence[list[Entity]]) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        found = iter(entities)
        values = [[one._asdict() for one in next(found)] if error is None else None for error in self._errors]
        table = self._table.append_column(self._columns.entities, pa.array(values, _entities_type()))
        table = table.append_column(self._columns.error, pa.array(self._errors, pa.string()))
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
