"""Which format a file or folder is in, by its name and its first lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from spansieve.data.example import DataError
from spansieve.data.formats.files import read_bytes, read_text

OPENING = 1_000_000  # bytes to look at first
_FOLDER_MARKS = (
    ("hugging-face", ("dataset_dict.json", "state.json", "*.parquet")),
    ("ace", ("*.apf.xml", "*.apf.xml.gz")),
    ("brat", ("*.ann", "*.ann.gz")),
    ("ontonotes", ("*gold_conll", "*gold_conll.gz")),
)
_SUFFIXES = (
    (("gold_conll",), "ontonotes"),
    ((".apf.xml", ".sgm"), "ace"),
    ((".ann",), "brat"),
    ((".spacy",), "spacy"),
    ((".parquet",), "hugging-face"),
    ((".csv",), "csv"),
)
_TEXT_MARKS = (
    ("webanno", re.compile(r"#FORMAT=WebAnno TSV")),
    ("ontonotes", re.compile(r"#begin document \(")),
    ("pubtator", re.compile(r"[^|\s]+\|[ta]\|")),
)

_TAG = re.compile(r"O|[BIESLU]-\S+")


def format_of(path: Path) -> str:
    """The name of the format that a file or folder looks like."""
    if path.is_dir():
        return _format_of_folder(path)
    name = path.name.removesuffix(".gz")
    for suffixes, format in _SUFFIXES:
        if name.lower().endswith(suffixes):
            return format
    if name.endswith(".txt") and any(path.with_name(name[:-4] + end).exists() for end in (".ann", ".ann.gz")):
        return "brat"
    opening = read_bytes(path, OPENING).decode("utf-8-sig", errors="replace").lstrip()
    # A token may be `[` or `{` too.
    has_name = name.endswith((".json", ".jsonl", ".ndjson")) and opening.startswith(("{", "["))
    if has_name or re.match(r'\[\s*[\[{]|\{\s*"', opening):
        return _format_of_record(_first_record(opening) or _first_record(read_text(path)))
    first = opening.split("\n", 1)[0]
    if name.lower().endswith(".tsv"):
        from spansieve.data.formats.tables import form_of_header  # NumPy comes with it

        if form_of_header(first.split("\t")):
            return "tsv"
    words = first.split()
    if words and all(word.find("|", 1) > 0 for word in words) and _TAG.fullmatch(words[-1].rpartition("|")[2]):
        return "iob-lines"
    return next((format for format, mark in _TEXT_MARKS if mark.match(first)), "conll")


def _format_of_folder(folder: Path) -> str:
    for format, marks in _FOLDER_MARKS:
        if any(next(folder.rglob(mark), None) for mark in marks):
            return format
    if any(format_of(file) == "webanno" for file in folder.rglob("*.tsv")):
        return "webanno"
    raise DataError(
        f"{folder} must hold brat, ACE, OntoNotes, WebAnno or Hugging Face files to be read as a whole; "
        "give the files one by one otherwise"
    )


def _format_of_record(record: dict[str, Any]) -> str:
    if "paragraphs" in record:
        return "spacy-json"
    labels = record.get("label", record.get("labels"))
    has_regions = isinstance(labels, list) and any(isinstance(label, dict) for label in labels)
    if "annotations" in record or "completions" in record or has_regions or "annotation_id" in record:
        return "label-studio"
    tokens, entities = record.get("tokens"), record.get("entities")
    if "_task_hash" in record or "answer" in record or _has_objects(tokens):
        return "prodigy"
    is_offset = _has_objects(entities) and isinstance(entities, list) and "start_offset" in entities[0]
    is_offset = is_offset or (isinstance(entities, list) and "relations" in record)  # none in the first line
    if "text" in record and "tokens" not in record and (isinstance(labels, list) or is_offset):
        return "doccano"
    return "jsonl"


def _has_objects(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and isinstance(values[0], dict)


def _first_record(text: str) -> dict[str, Any]:
    """The first object of JSON lines or of a JSON list; an empty one where that is broken, which the reader reports."""
    try:
        record, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
