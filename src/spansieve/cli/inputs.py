"""What commands read: texts as arguments, files and folders of text, standard input, and labelled data.

A path is never taken for a text: an argument that is one is refused; where `--file` is given, all arguments are paths.
A table is never taken for lines of text: its column of texts is read.
"""

from __future__ import annotations

import codecs
import glob
import io
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from spansieve.cli import without_collection
from spansieve.cli.options import Loading, parsed
from spansieve.data.example import MAX_TEXT, DataError, ReaderWarnings, check_length
from spansieve.data.formats import read_examples
from spansieve.data.formats.files import MAX_LINE, parsed_json

if TYPE_CHECKING:
    from spansieve.cli.outputs import Console
    from spansieve.data.example import Example
    from spansieve.prediction.text_predictor import TextPredictor

STDIN = Path("-")
JSON_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv")
FOLDER_SUFFIXES = (".txt", *JSON_SUFFIXES)  # the files of a folder that are read
# One word that ends so is the name of a file, whether that exists or not.
PATH_ENDINGS = (*FOLDER_SUFFIXES, *TABLE_SUFFIXES, ".json", ".conll", ".gz", ".parquet", "/")
HEAD_BYTES = 8_192  # read in advance, to refuse what is no text before anything is predicted

Record = dict[str, Any]  # a text, as `{"text": …}`, and whatever else its line of JSON and its file say


# ---- Which files -----------------------------------------------------------------------------------------------------


def records_of_arguments(
    arguments: Sequence[str], files: Sequence[str], whole: bool, text_column: str | None = None
) -> Iterator[Record]:
    """Read the arguments: texts, or files where `--file` gives some. Without any of them standard input is read."""
    if files:
        for argument in arguments:
            if not _matches(argument):
                raise FileNotFoundError(f"no file or folder {argument}; with --file all arguments are paths, not texts")
        return records_of_files([*files, *arguments], whole, text_column)
    if not arguments or list(arguments) == [str(STDIN)]:
        return records_of_files([], whole)
    for argument in arguments:
        _refuse_path(argument)
    return ({"text": text} for text in arguments)


def records_of_files(paths: Sequence[str], whole: bool, text_column: str | None = None) -> Iterator[Record]:
    """Check files, folders and patterns at once, and read them when they are needed; without any, standard input."""
    files = text_files(paths or [str(STDIN)])
    return (record for file in files for record in _records(file, whole, text_column))


def text_files(paths: Sequence[str]) -> list[Path]:
    """List the files of text among paths: those named, those of folders, and those that match patterns such as `*.txt`.

    Of a folder these are the .txt and .jsonl files in it and below, sorted, without hidden ones.
    """
    files = []
    for path in paths:
        matches = _matches(path)
        if not matches:
            raise FileNotFoundError(f"no file or folder {path}")
        for match in matches:
            files += _files_in(match) if match.is_dir() else [match]
    for file in files:
        if file != STDIN:
            check_text_file(file)
    return files


def _matches(path: str) -> list[Path]:
    if path == str(STDIN) or os.path.exists(path):
        return [Path(path)]
    return [Path(match) for match in sorted(glob.glob(path, recursive=True))]


def _files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.rglob("*") if file.suffix in FOLDER_SUFFIXES and file.is_file())
    visible = [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    if not visible:
        raise FileNotFoundError(f"{folder} must hold .txt or .jsonl files, got none")
    return visible


def check_text_file(path: Path) -> None:
    """Refuse a file that is empty or binary. Pipes cannot be looked into in advance."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise ValueError(f"{path} must hold text, got an empty file")
    if b"\0" in head:
        raise ValueError(f"{path} must be UTF-8 text, got binary data")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error


def _refuse_path(text: str) -> None:
    if os.path.exists(text):
        kind = "folder" if os.path.isdir(text) else "file"
        raise ValueError(
            f"{text} is a {kind}, not a text: read it with --file {shlex.quote(text)}; where the word itself is meant, "
            "send it to standard input"
        )
    if text.endswith(PATH_ENDINGS) and len(text.split()) == 1:
        raise FileNotFoundError(
            f"no file or folder {text}; where the word itself is meant as a text, send it to standard input"
        )


# ---- What is in them -------------------------------------------------------------------------------------------------


def _records(path: Path, whole: bool, text_column: str | None) -> Iterator[Record]:
    if path.suffix in JSON_SUFFIXES:
        return json_lines(path, text_column or "text")
    source = {} if path == STDIN else {"file": str(path)}
    if path.suffix.lower() in TABLE_SUFFIXES:
        from spansieve.data.formats.tables import read_texts

        return ({**source, **record} for record in read_texts(path, text_column))
    return ({"text": text, **source} for text in _texts(path, MAX_TEXT, whole))


def json_lines(path: Path, column: str = "text") -> Iterator[Record]:
    """Read JSON objects with a text. One that has no `file` yet, such as that of an earlier command, gets this one."""
    for number, line in enumerate(_texts(path, MAX_LINE), start=1):
        if not line.strip():
            continue
        record = parsed_json(line, f"{path} line {number}")
        if not isinstance(record, dict) or not isinstance(record.get(column), str):
            raise ValueError(f"{path} line {number}: must be a JSON object with a {column}")
        check_length(record[column], f"{path} line {number}")
        record["text"] = record[column]
        yield record if "file" in record or path == STDIN else {**record, "file": str(path)}


def _texts(path: Path, max_length: int, whole: bool = False) -> Iterator[str]:
    """The lines of a file, or all of it as one, each of at most so many characters."""
    with _opened(path) as stream:
        read = stream.read if whole else stream.readline
        number = 0
        try:
            while (text := read(max_length + 3)) or (whole and not number):
                number, text = number + 1, text if whole else text.rstrip("\r\n")
                if len(text) > max_length:
                    where = f"{path}" if whole else f"{path} line {number}"
                    way_out = "cut it into several, such as its chapters"
                    raise ValueError(f"{where}: must have at most {max_length:,} characters, got more; {way_out}")
                yield text
        except UnicodeDecodeError as error:
            raise _not_utf8(path, error) from error


def _not_utf8(path: Path, error: UnicodeDecodeError) -> ValueError:
    return ValueError(f"{'standard input' if path == STDIN else path} must be UTF-8 text: {error}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open a file with line ends as they are, so that offsets are those of the file."""
    if path != STDIN:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
        return
    if sys.stdin.isatty():
        print("reading texts from standard input, one per line; Ctrl-D ends them", file=sys.stderr)
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield stream
    finally:
        stream.detach()  # so that standard input is not closed with it


# ---- Labelled data ---------------------------------------------------------------------------------------------------


def read_labelled(path: Path, format: str | None, warnings: ReaderWarnings, **options: Any) -> list[Example]:
    """Read labelled data, at least a sentence of it."""
    examples = read_examples(path, format, warnings, **options)
    if not examples:
        raise DataError(f"{path} must hold at least one sentence, got none")
    return examples


def read_with_warnings(path: Path, format: str | None, console: Console) -> list[Example]:
    """Read labelled data, with a warning of what its reader could not represent."""
    warnings = ReaderWarnings()
    examples = read_labelled(path, format, warnings)
    if warnings:
        console.warn(f"{path}: {warnings}")
    return examples


# ---- Models ----------------------------------------------------------------------------------------------------------


def load_predictor(
    model: str,
    device: str,
    settings: Sequence[str] | None = None,
    guarantee: str | None = None,
    threads: int | None = None,
) -> TextPredictor:
    """Load a model, or an export of one, which comes without torch and takes so many threads; with a guarantee, under
    that promise."""
    from spansieve.prediction.onnx.folder import is_export

    options: dict[str, Any] = {"guarantee": guarantee, **asdict(parsed(Loading, settings))}
    with without_collection():
        if not is_export(model):
            from spansieve.integrations.hub import load

            return load(model, device, **options)
        if device != "cpu":
            raise typer.BadParameter(f"an exported model runs on the CPU, got --device {device}: name the model itself")
        from spansieve.prediction.onnx import load as load_export

        return load_export(model, threads, **options)
