"""Texts for a command: typed ones, files by line or whole, JSON lines, standard input."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

STDIN = Path("-")


def texts_of(texts: Sequence[str] | None, files: Sequence[Path] | None, whole: bool) -> Iterator[str]:
    """The texts of a command, checked at once and read when they are needed."""
    return (record["text"] for record in records_of(texts, files, whole, with_json=False))


def records_of(
    texts: Sequence[str] | None, files: Sequence[Path] | None, whole: bool, with_json: bool = True
) -> Iterator[dict[str, Any]]:
    """Texts as `{"text": …}`; those of a .jsonl file with all else that its lines hold."""
    for path in files or ():
        if path != STDIN and not path.is_file():
            raise FileNotFoundError(f"no file {path}")
    if not texts and not files:
        files = [STDIN]

    def read() -> Iterator[dict[str, Any]]:
        yield from ({"text": text} for text in texts or ())
        for path in files or ():
            is_json = with_json and path.suffix == ".jsonl"
            yield from json_lines(path) if is_json else ({"text": text} for text in _texts(path, whole))

    return read()


def _texts(path: Path, whole: bool) -> Iterator[str]:
    with _opened(path) as stream:
        try:
            if whole:
                yield stream.read()
            else:
                yield from (line.rstrip("\r\n") for line in stream)
        except UnicodeDecodeError as error:
            name = "standard input" if path == STDIN else path
            raise ValueError(f"{name} must be UTF-8 text: {error}") from error


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_texts(path, whole=False), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path} line {number}: must be JSON: {error}") from error
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise ValueError(f"{path} line {number}: must be a JSON object with a text")
        yield record


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open a file with line ends as they are, so that offsets are those of the file."""
    if path != STDIN:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
        return
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield stream
    finally:
        stream.detach()  # it is not ours to close


def json_line(record: Any) -> str:
    """A record as a line of JSON, in the letters of the text; half a character, which no encoding has, is a number."""
    line = json.dumps(record, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(record)
    return line + "\n"
