"""Text files in and out: UTF-8 with or without a byte order mark, `.gz` like any other, errors that name the line.

Packages that only some formats need are loaded here, too, when they are first used.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from spansieve.data.example import DataError

MAX_LINE = 16 << 20  # characters, or bytes in bulk: a text at its limit, with annotation
MAX_UNPACKED = 1 << 30  # bytes
MAX_DIGITS = 18  # of an offset
_BEYOND_ASCII = re.compile("[\x7f-\x9f]")  # control characters that JSON leaves as they are
_BLANKS = re.compile(r"[ \t\r\n]*")
_KINDS: dict[type, str] = {dict: "objects", str: "strings"}


def read_bytes(path: str | Path, max_bytes: int = -1) -> bytes:
    """The bytes of a file, or at most `max_bytes` of them, unpacked where it is gzip, whatever its name."""
    with Path(path).open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return unpacked(file, path, max_bytes) if is_packed else file.read(max_bytes)


def unpacked(file: IO[bytes], path: str | Path, max_bytes: int = -1) -> bytes:
    """The bytes, or at most `max_bytes` of them, that a gzip file holds; a few bytes can stand for gigabytes."""
    try:
        content = gzip.GzipFile(fileobj=file).read(MAX_UNPACKED + 1 if max_bytes < 0 else max_bytes)
    except (EOFError, OSError, zlib.error) as error:
        message = f"{path} must be a whole gzip file, got one that is cut short or damaged ({error})"
        raise DataError(message) from error
    if len(content) > MAX_UNPACKED:
        raise DataError(f"{path} must hold at most {MAX_UNPACKED:,} bytes where it is gzip, got more; unpack it first")
    return content


def read_text(path: str | Path) -> str:
    """The characters of a file, line ends as they are."""
    data = read_bytes(path)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} must be UTF-8, got UTF-16; convert it with iconv -f UTF-16 -t UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{path} line {line}: must be UTF-8, got byte 0x{data[error.start]:02x}; convert it with iconv"
        raise DataError(message) from error


def opened(output: Path | None) -> AbstractContextManager[IO[str]]:
    """Open a file to write, with line ends as they are given, or standard output."""
    return nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="")


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Line numbers, from 1, and lines without their ends."""
    return numbered_lines(read_text(path), path)


def numbered_lines(text: str, path: str | Path) -> Iterator[tuple[int, str]]:
    """Number lines. Only line feeds (and CRLF) end one: `str.splitlines` would also break tokens at Unicode's rarer
    separators."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise DataError(f"{path} line {number}: must have at most {MAX_LINE:,} characters, got {len(line):,}")
        yield number, line[:-1] if line.endswith("\r") else line


def read_blocks(path: str | Path) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of a file in blocks: blank lines stand between them."""
    for is_blank, block in groupby(read_lines(path), key=lambda numbered: not numbered[1].strip()):
        if not is_blank:
            yield list(block)


def read_records(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON lines file, or of a JSON file that is a list of them, each with its location."""
    text = read_text(path)
    if text.lstrip().startswith("["):
        records = ((f"{path} record {n}", record) for n, record in enumerate(_json_list(text, path), start=1))
    else:
        lines = ((f"{path} line {n}", line) for n, line in numbered_lines(text, path) if line.strip())
        records = ((location, parsed_json(line, location)) for location, line in lines)
    for location, record in records:
        if not isinstance(record, dict):
            raise DataError(f"{location}: must be a JSON object, got {type(record).__name__}")
        yield location, record


def parsed_json(text: str, location: str) -> Any:
    """The value of a JSON text, such as one line of a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{location}: must be JSON, got {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location}: {_json_limit(error)}") from error


def _json_list(text: str, path: str | Path) -> Iterator[Any]:
    """The values of a JSON list, one by one, so that an error has its line."""
    decoder, position, sign = json.JSONDecoder(), text.index("["), "["
    try:
        while sign != "]":
            position = behind_blanks(text, position + 1)
            if sign == "[" and text.startswith("]", position):
                break
            value, position = decoder.raw_decode(text, position)
            yield value
            position = behind_blanks(text, position)
            sign = text[position : position + 1]
            if sign not in (",", "]"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
        if (position := behind_blanks(text, position + 1)) < len(text):
            raise json.JSONDecodeError("Extra data", text, position)
    except json.JSONDecodeError as error:
        message = f"must be JSON, got {error.msg} at column {error.colno}"
        raise DataError(f"{path} line {error.lineno}: {message}") from error
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, position) + 1
        raise DataError(f"{path} line {line}, in the value that begins there: {_json_limit(error)}") from error


def behind_blanks(text: str, position: int) -> int:
    """The first position from here on that has none of the blanks of JSON."""
    return _BLANKS.match(text, position).end()  # type: ignore[union-attr]


def _json_limit(error: Exception) -> str:
    is_deep = isinstance(error, RecursionError)
    return f"must be JSON, got {'one nested too deep' if is_deep else 'a number of too many digits'}"


@contextmanager
def errors_at(location: str) -> Iterator[None]:
    """Name the location in errors of what is read there."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise DataError(f"{location}: {error}") from error


def offset_in(text: str, location: str, what: str = "a position") -> int:
    """A number of characters, as a file has it; longer ones are beyond any text, and `int` refuses some of them."""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise DataError(f"{location}: {what} must be a number of characters, got {text!r:.40}")
    return int(text)


def list_in(record: dict[str, Any], key: str, location: str, kind: type = object) -> list[Any]:
    """The list that a record holds under a key, each entry of the kind; an empty one where it holds nothing."""
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        of = "" if kind is object else f" of {_KINDS[kind]}"
        raise DataError(f"{location}: {key} must be a list{of}, got {values!r:.80}")
    return values


def annotator_of(record: dict[str, Any]) -> str | None:
    """Who made an annotation of Label Studio's, or a task of Prodigy's; None where that is not in it."""
    who = next((record[key] for key in ("completed_by", "_annotator_id", "_session_id") if record.get(key)), None)
    who = who.get("email") or who.get("id") if isinstance(who, dict) else who
    return None if who is None else str(who)


def annotators_in(path: str | Path) -> list[str]:
    """The annotators that a file of JSON names, sorted."""
    annotations = [a for where, task in read_records(path) for a in (task, *list_in(task, "annotations", where))]
    return sorted({who for a in annotations if isinstance(a, dict) and (who := annotator_of(a))})


def first_wanted(records: Iterable[dict[str, Any]], annotator: Any) -> list[dict[str, Any]]:
    """Select from the records of one text those of the first wanted annotator who made any; None wants all."""
    records = list(records)
    if annotator is None:
        return records
    wanted = annotator if isinstance(annotator, list | tuple) else [annotator]
    by_annotator = [[r for r in records if annotator_of(r) == str(who)] for who in wanted]
    return next((kept for kept in by_annotator if kept), [])


def write_text(text: str, path: str | Path) -> None:
    """Write UTF-8 with line feeds; gzip where the name ends in `.gz`."""
    path = Path(path)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise DataError(f"{path} line {line}: must be written in UTF-8, got half a surrogate pair") from error
    # mtime 0: the same examples give the same bytes.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_records(records: Iterable[dict[str, Any]], path: str | Path) -> None:
    """Write JSON lines, one object each."""
    write_text("".join(map(json_line, records)), path)


def json_line(record: Any) -> str:
    """Format a record as a line of JSON, in the letters of the text; half a surrogate pair is written as its number."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record)
    return _BEYOND_ASCII.sub(lambda match: f"\\u{ord(match[0]):04x}", line) + "\n"


def files_in(folder: str | Path, *suffixes: str) -> list[Path]:
    """The files below a folder with one of the suffixes, with or without `.gz`, in order of their names."""
    wanted = tuple(end for suffix in suffixes for end in (suffix, suffix + ".gz"))
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.name.endswith(wanted))
    if not files:
        raise DataError(f"{folder} must hold files that end in {' or '.join(suffixes)}, got none")
    return files


def files_of(path: str | Path, *suffixes: str) -> list[Path]:
    """The file itself, or those in the folder."""
    return files_in(path, *suffixes) if Path(path).is_dir() else [Path(path)]


def in_pair(path: Path, suffix: str, other: str) -> tuple[Path, Path]:
    """The two files of a document, given either of them; each may be gzip."""
    base = path.name.removesuffix(".gz").removesuffix(suffix).removesuffix(other)
    pair = []
    for wanted in (path.with_name(base + suffix), path.with_name(base + other)):
        packed = wanted.with_name(wanted.name + ".gz")
        if not wanted.exists() and not packed.exists():
            raise DataError(f"a document must have a {other} and a {suffix} file side by side, got no {wanted}")
        pair.append(wanted if wanted.exists() else packed)
    return pair[0], pair[1]


def stem(path: str | Path) -> str:
    """The name without `.gz` and without the suffix under it."""
    path = Path(path)
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


class MissingPackageError(ImportError, ValueError):
    """A format needs a package that is not installed; the message has the command to install it."""


def package(name: str, install: str) -> Any:
    """The module of that name; `install` is what to pass to pip where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if error.name != top:
            raise
        raise MissingPackageError(f"this needs the package {top}, got none installed; pip install {install}") from error


@contextmanager
def package_errors(requirement: str) -> Iterator[None]:
    """State what a package requires of a file, in whatever it raises where the file is damaged."""
    try:
        yield
    except (DataError, MissingPackageError):
        raise
    except Exception as error:  # these errors have no common name
        raise DataError(f"{requirement}, got {error}") from error
