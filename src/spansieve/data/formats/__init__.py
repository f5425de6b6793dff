"""Files of many formats in and out: `read_examples` and `write_examples`; and which format a file or folder is in, by
its name and its first lines."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import read_bytes, read_text


@dataclass(frozen=True)
class Format:
    """A way that examples are stored. Its module loads when it is first used."""

    name: str
    about: str
    module: str
    reader: str
    writer: str | None = None
    suffixes: tuple[str, ...] = ()  # what a file to be written in it is called
    has_unknown: bool = False  # whether it can mark tokens of which nothing is known

    def read(self, path: Any, warnings: ReaderWarnings = IGNORED, **options: Any) -> list[Example]:
        return self._call(self.reader, path, warnings=warnings, **options)

    def write(
        self, examples: Iterable[Example], path: str | Path, warnings: ReaderWarnings = IGNORED, **options: Any
    ) -> None:
        if self.writer is None:
            writable = ", ".join(name for name, format in FORMATS.items() if format.writer)
            raise ValueError(f"format {self.name} can only be read; these can be written: {writable}")
        if not self.has_unknown:
            examples = list(examples)
            lost = sum(example.num_unknown for example in examples)
            warnings.add("unknown tokens written as known, since the format cannot say it", str(path), lost)
        self._call(self.writer, examples, path, warnings=warnings, **options)

    def _call(self, name: str, *arguments: Any, warnings: ReaderWarnings, **options: Any) -> Any:
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{self.module}"), name)
        known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        known.remove("warnings")
        for option in options:
            if option not in known:
                raise ValueError(f"format {self.name} takes {', '.join(known) or 'no options'}, got {option!r}")
        return function(*arguments, warnings=warnings, **options)


_TABLE = (
    Format(
        "conll",
        "tokens and tags in columns, also CoNLL-U Plus",
        "conll",
        "read_conll",
        "write_conll",
        (".conll", ".txt", ".iob", ".bio", ".conllup"),
    ),
    Format(
        "jsonl",
        "JSON lines with tokens, or with text",
        "jsonl",
        "read_jsonl",
        "write_jsonl",
        (".jsonl", ".ndjson", ".json"),
        has_unknown=True,
    ),
    Format("jsonl-text", "JSON lines with text and characters", "jsonl", "read_jsonl", "write_jsonl_text"),
    Format("ontonotes", "OntoNotes 5 *gold_conll, a file or folder", "ontonotes", "read_ontonotes"),
    Format("ace", "ACE 2005 .sgm and .apf.xml, a pair or folder", "ace", "read_ace"),
    Format("brat", "brat .txt and .ann, a pair or folder", "brat", "read_brat", "write_brat"),
    Format("prodigy", "Prodigy JSON lines", "prodigy", "read_prodigy", "write_prodigy"),
    Format("doccano", "doccano JSON lines", "doccano", "read_doccano", "write_doccano"),
    Format("label-studio", "Label Studio JSON", "label_studio", "read_label_studio", "write_label_studio"),
    Format("csv", "CSV with a row per token or entity", "tables", "read_table", "write_csv", (".csv",)),
    Format("tsv", "the same with tabs", "tables", "read_table", "write_tsv", (".tsv",)),
    Format("pubtator", "PubTator", "pubtator", "read_pubtator"),
    Format("webanno", "WebAnno or INCEpTION TSV 3", "webanno", "read_webanno"),
    Format("iob-lines", "one sentence per line, tags behind bars", "conll", "read_iob_lines"),
    Format("spacy", "spaCy DocBin", "docbin", "read_docbin", "write_docbin", (".spacy",)),
    Format("spacy-json", "spaCy 2 training JSON", "spacy_json", "read_spacy_json"),
    Format(
        "hugging-face", "datasets folder or parquet", "hugging_face", "read_dataset", "write_dataset", (".parquet",)
    ),
)
FORMATS = {format.name: format for format in _TABLE}


def read_examples(
    path: Any, format: str | None = None, warnings: ReaderWarnings = IGNORED, **options: Any
) -> list[Example]:
    """The examples of a file or folder, in the format given or in the one that it looks like; also those of a
    `datasets.Dataset`.

    `options` are those of the format's reader; `warnings` counts what could not be represented as it stood.
    """
    if not isinstance(path, (str, Path)):
        return FORMATS["hugging-face"].read(path, warnings, **options)
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    return format_named(format or format_of(path)).read(path, warnings, **options)


def write_examples(
    examples: Iterable[Example],
    path: str | Path,
    format: str | None = None,
    warnings: ReaderWarnings = IGNORED,
    **options: Any,
) -> None:
    """Write examples in the format given, or in the one that the name's suffix stands for."""
    format_named(format or format_to_write(path)).write(examples, path, warnings, **options)


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def format_to_write(path: str | Path) -> str:
    """The format that a name's suffix stands for."""
    name = Path(path).name.removesuffix(".gz")
    for format in FORMATS.values():
        if format.suffixes and name.endswith(format.suffixes):
            return format.name
    known = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise ValueError(f"the name of a file to write must end in {known}, or its format be given, got {path}")


# ---- What a file looks like ------------------------------------------------------------------------------------------


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
