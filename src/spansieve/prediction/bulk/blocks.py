"""Bulk data cut into blocks: parts of files that are read, predicted and written by themselves.

Where the cuts are follows from the files and the size of a block alone, so that a job that was interrupted finds the
same blocks again. Any place that fsspec supports will do: a folder, s3://, gs://, hdfs://.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, NamedTuple

from fsspec.core import url_to_fs

from spansieve.data.formats.files import MAX_LINE, unpacked
from spansieve.prediction.bulk.rows import (
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    Columns,
    JsonRows,
    ParquetRows,
    parquet_module,
)

BLOCK_SIZE = 32 << 20  # bytes
_PACKED_SUFFIXES = tuple(f"{suffix}.gz" for suffix in JSON_SUFFIXES)
_KNOWN = (*JSON_SUFFIXES, *_PACKED_SUFFIXES, *PARQUET_SUFFIXES)
_FOOTERS_AT_ONCE = 16
_CHUNK = 1 << 20  # bytes that are read at once behind a block, to the end of its last line


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
        return self.path.endswith(PARQUET_SUFFIXES)

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
                return ParquetRows(parquet_module().ParquetFile(file).read_row_groups(groups), columns)
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
    """List the files of a source or of several, each once."""
    sources = [source] if isinstance(source, str) else source
    return list(dict.fromkeys(file for each in sources for file in _files_of_one(each, leaving_out)))


def _files_of_one(source: str, leaving_out: str) -> list[File]:
    """The files of a folder and all within it, of a pattern, or one file; sorted.

    In folders, what begins with . or _ is left out, as is usual, and so is the folder `leaving_out`, where the output
    goes.
    """
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
    if file.path.endswith(PARQUET_SUFFIXES):
        yield from _group_bounds(file, block_size)
        return
    number = 1 if file.path.endswith(_PACKED_SUFFIXES) else max(1, -(-file.size // block_size))
    for i in range(number):
        yield file.size * i // number, file.size * (i + 1) // number


def _group_bounds(file: File, block_size: int) -> Iterator[tuple[int, int]]:
    filesystem, path = url_to_fs(file.path)
    parquet = parquet_module()
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
