"""Label Studio JSON, as its exports JSON and JSON-MIN have it; characters, end exclusive.

Of several annotations of one task the first that was not cancelled is read, or that of the wanted annotator, with a
warning; a task without any is left out with a warning: predictions are not read. A region with several labels gives one
entity for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spansieve.data.alignment import Document, documents_of_examples, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import first_wanted, list_in, read_records, write_text
from spansieve.data.formats.jsonl import document_name, entity_span


def read_label_studio(
    path: str | Path, *, split_sentences: bool = True, annotator: Any = None, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of an export. `annotator`: whose annotations are read, or several, the first who made any first."""
    documents = documents_of_tasks(read_records(path), warnings, annotator)
    return examples_of_documents(documents, split_sentences, warnings)


def write_label_studio(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write tasks that Label Studio imports, for a labelling interface with `label` and `text` as its names."""
    tasks = []
    for number, document in enumerate(documents_of_examples(examples, warnings), start=1):
        data = {"text": document.text} if document.name is None else {"text": document.text, "doc": document.name}
        regions = [_region(document.text, *annotation) for annotation in document.annotations]
        tasks.append({"id": number, "data": data, "annotations": [{"result": regions}]})
    write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", path)


def documents_of_tasks(
    tasks: Iterable[tuple[str, dict[str, Any]]], warnings: ReaderWarnings, annotator: Any = None
) -> Iterator[Document]:
    """The annotated texts of tasks, each with its location in a file."""
    for location, task in tasks:
        results = _results(location, task, annotator, warnings)
        if results is not None:
            spans = list(_spans(location, results))
            text = _text(location, task)
            yield Document(document_name(task.get("data", {})) or document_name(task, "id"), text, spans, location)


def _results(
    location: str, task: dict[str, Any], annotator: Any, warnings: ReaderWarnings
) -> list[dict[str, Any]] | None:
    """The regions of a task; None where it was not annotated."""
    key = next((key for key in ("annotations", "completions") if key in task), None)
    if key is None and "predictions" in task:
        key = "annotations"
    if key is None:
        return [{"value": value} for value in list_in(task, "label", location, dict)]
    kept = [annotation for annotation in list_in(task, key, location, dict) if not annotation.get("was_cancelled")]
    kept = first_wanted(kept, annotator)
    if not kept:
        warnings.add("tasks without annotations left out", location)
        return None
    warnings.add("further annotations of a task left out", location, len(kept) - 1)
    return list_in(kept[0], "result", location, dict)


def _text(location: str, task: dict[str, Any]) -> str:
    data = task.get("data", task)
    if not isinstance(data, dict):
        raise DataError(f"{location}: data must be an object, got {data!r:.80}")
    if isinstance(data.get("text"), str):
        return data["text"]
    strings = [value for value in data.values() if isinstance(value, str)]
    if len(strings) != 1 or "data" not in task:
        raise DataError(f"{location}: must have one text in its data, got the keys {', '.join(data)}")
    return strings[0]


def _spans(location: str, results: list[dict[str, Any]]) -> Iterator[tuple[int, int, str]]:
    for result in results:
        value = result.get("value") or {}
        if not isinstance(value, dict):
            raise DataError(f"{location}: value must be an object, got {value!r:.80}")
        for label in list_in(value, "labels", location, str):
            yield entity_span(location, [value.get("start"), value.get("end"), label])


def _region(text: str, start: int, end: int, label: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": text[start:end], "labels": [label]}
    return {"from_name": "label", "to_name": "text", "type": "labels", "value": value}
