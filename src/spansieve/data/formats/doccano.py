"""doccano JSON lines: `text` with `label` or `labels` as `[start, end, label]`, or with `entities` that have
`start_offset` and `end_offset`; characters, end exclusive. Relations and comments are not read.

Where a line has both, `label` is what was annotated: the other came with the text as its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spansieve.data.alignment import documents_of_examples, examples_of_text
from spansieve.data.example import DataError, Example
from spansieve.data.formats.files import list_in, read_records, write_records
from spansieve.data.formats.jsonl import DOCUMENT_KEYS, document_name, entity_span
from spansieve.data.reader_warnings import IGNORED, ReaderWarnings


def read_doccano(
    path: str | Path, *, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of an exported file."""
    examples: list[Example] = []
    for location, record in read_records(path):
        text = record.get("text", record.get("data"))
        if not isinstance(text, str):
            raise DataError(f"{location}: must have a text, got {', '.join(record)}")
        examples += examples_of_text(
            text,
            [entity_span(location, _renamed(entity)) for entity in _entities(location, record)],
            document=document_name(record, *DOCUMENT_KEYS, "id"),
            split_sentences=split_sentences,
            location=location,
            warnings=warnings,
        )
    return examples


def write_doccano(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write one document per line."""
    records = []
    for number, document in enumerate(documents_of_examples(examples, warnings), start=1):
        labels = [list(annotation) for annotation in document.annotations]
        records.append({"id": document.name or number, "text": document.text, "label": labels})
    write_records(records, path)


def _entities(location: str, record: dict[str, Any]) -> list[Any]:
    key = next((key for key in ("label", "labels", "entities") if isinstance(record.get(key), list)), "label")
    return list_in(record, key, location)


def _renamed(entity: Any) -> Any:
    if not isinstance(entity, dict):
        return entity
    return {"start": entity.get("start_offset"), "end": entity.get("end_offset"), "label": entity.get("label")}
