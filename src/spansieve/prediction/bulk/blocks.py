"""Bulk data cut into blocks: parts of files that are read, predicted and written by themselves.

Where the cuts are follows from the files and the size of a block alone, so that a job that was interrupted finds the
same blocks again. Any place that fsspec supports will do: a folder, s3://, gs://, hdfs://.

A row comes out with all that it had, and with what was found in it. One whose text cannot be read is left out, with the
reason, and does not stop the others.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fsspec.core import url_to_fs

from spansieve.data.example import MAX_TEXT
from spansieve.data.formats.files import MAX_LINE, package, unpacked
from spansieve.models.inference import SURROGATE
from spansieve.segments import Entity

if TYPE_CHECKING:
    import pyarrow

BLOCK_SIZE = 32 << 20  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_SUFFIXES, _PARQUET_SUFFIXES = (".jsonl", ".ndjson"), (".parquet", ".pq")
_PACKED_SUFFIXES = tuple(f"{suffix}.gz" for suffix in _JSON_SUFFIXES)
_KNOWN = (*_JSON_SUFFIXES, *_PACKED_SUFFIXES, *_PARQUET_SUFFIXES)
_PARQUET = ("pyarrow.parquet", "'spansieve[ray]'")
_FOOTERS_AT_ONCE = 16
_CHUNK = 1 << 20  # bytes that are read at once behind a block, to the end of its last line
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_as_ascii_json = json.JSONEncoder().encode


class File(NamedTuple):
    path: str  # with its protocol
    size: int


@dataclass(frozen=True)
class Block:
    """Bytes `start … end - 1` of JSON lines, and the lines that begin there; or those row groups of Parquet."""

    index: int
    path: str
    start: int
    end: int

    @property
    def is_parquet(self) -> bool:
        return self.path.endswith(_PARQUET_SUFFIXES)

    @property
    def part(self) -> str:
        """The name of the file that is written."""
        return f"part-{self.index:06d}.{'parquet' if self.is_parquet else 'jsonl'}"

    @property
    def place(self) -> str:
        """Which part of the file it is, in words; "" for a file that cannot be cut."""
        if self.start == self.end or self.path.endswith(_PACKED_SUFFIXES):
            return ""
        return f"{'row groups' if self.is_parquet else 'bytes'} {self.start}-{self.end}"

    def read(self, columns: Columns) -> JsonRows | ParquetRows:
        filesystem, path = url_to_fs(self.path)
        with filesystem.open(path, "rb") as file:
            if self.is_parquet:
                groups = list(range(self.start, self.end))
                return ParquetRows(package(*_PARQUET).ParquetFile(file).read_row_groups(groups), columns)
            is_packed = path.endswith(_PACKED_SUFFIXES)
            return JsonRows(unpacked(file, path) if is_packed else _lines(file, self.start, self.end), columns)


def _lines(file: IO[bytes], start: int, end: int) -> bytes:
    """The lines that begin at one of the bytes `start … end - 1`; of one that is too long, more than is permitted."""
    before = min(start, 1)  # the byte before shows whether a line begins at `start`
    file.seek(start - before)
    content = file.read(end - start + before)
    if before:
        content = content.partition(b"\n")[2]
    pieces, left = [content], MAX_LINE + 1 - (len(content) - content.rfind(b"\n") - 1)
    while content and b"\n" not in pieces[-1][-1:] and left > 0 and (more := file.read(min(_CHUNK, left))):
        pieces.append(more[: more.find(b"\n") + 1] or more)
        left -= len(more)
    return b"".join(pieces)


def files_of(source: str | Sequence[str], leaving_out: str) -> list[File]:
    """List the files of a folder and all within it, of a pattern, or one file, sorted; or of several of these, each
    file once.

    In folders, what begins with . or _ is left out, as is usual, and so is the folder `leaving_out`, where the output
    goes.
    """
    if not isinstance(source, str):
        return list(dict.fromkeys(file for each in source for file in files_of(each, leaving_out)))
    filesystem, path = url_to_fs(source)
    if "*" in path or "?" in path:
        found = filesystem.glob(path)
    elif filesystem.isdir(path):
        found = [name for name in filesystem.find(path) if not re.search(r"(^|/)[._]", name.removeprefix(path))]
    elif not filesystem.exists(path):
        raise FileNotFoundError(f"no file or folder {source}")
    elif not path.endswith(_KNOWN):
        raise ValueError(f"{source} must be named {', '.join(_KNOWN)}: that says what it is")
    else:
        return [File(filesystem.unstrip_protocol(path), filesystem.size(path))]
    output_filesystem, output = url_to_fs(leaving_out)
    if type(output_filesystem) is type(filesystem):
        found = [name for name in found if not name.startswith(f"{output.rstrip('/')}/")]
    found = sorted(name for name in found if name.endswith(_KNOWN))
    if not found:
        raise ValueError(f"{source} must hold files named {', '.join(_KNOWN)}, got none")
    return [File(filesystem.unstrip_protocol(name), filesystem.size(name)) for name in found]


def blocks_of(files: list[File], block_size: int) -> list[Block]:
    """Cut files into blocks of about `block_size` bytes each. A packed file and a row group cannot be cut."""
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    blocks: list[Block] = []
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:  # a footer takes a request to another machine
        for file, bounds in zip(files, pool.map(lambda file: list(_bounds(file, block_size)), files)):
            blocks += [Block(len(blocks) + i, file.path, start, end) for i, (start, end) in enumerate(bounds)]
    return blocks


def _bounds(file: File, block_size: int) -> Iterator[tuple[int, int]]:
    if file.path.endswith(_PARQUET_SUFFIXES):
        yield from _group_bounds(file, block_size)
        return
    number = 1 if file.path.endswith(_PACKED_SUFFIXES) else max(1, -(-file.size // block_size))
    for i in range(number):
        yield file.size * i // number, file.size * (i + 1) // number


def _group_bounds(file: File, block_size: int) -> Iterator[tuple[int, int]]:
    filesystem, path = url_to_fs(file.path)
    parquet = package(*_PARQUET)
    try:
        with filesystem.open(path, "rb") as stream:
            about = parquet.ParquetFile(stream).metadata
        sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
    except Exception:  # damaged: its one block fails by the same when it is read
        sizes = []
    start, size = 0, 0
    for i, more in enumerate(sizes):
        if i > start and size + more > block_size:
            yield start, i
            start, size = i, 0
        size += more
    yield start, len(sizes)


# ---- Rows ------------------------------------------------------------------------------------------------------------


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
