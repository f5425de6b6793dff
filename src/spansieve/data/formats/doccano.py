"""doccano JSON lines: `text` with `label` or `labels` as `[start, end, label]`, or with `entities` that have
`start_offset` and `end_offset`; characters, end exclusive. Relations and comments are not read.

Where a line has both, `label` is what was annotated: the other came with the text as its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from spansieve.data.alignment import Document, documents_of_examples, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import list_in, read_records, write_records
from spansieve.data.formats.jsonl import DOCUMENT_KEYS, document_name, entity_span


def read_doccano(
    path: str | Path, *, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of an exported file."""
    return examples_of_documents(_documents(path), split_sentences, warnings)


def write_doccano(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write one document per line."""
    records = []
    for number, document in enumerate(documents_of_examples(examples, warnings), start=1):
        labels = [list(annotation) for annotation in document.annotations]
        records.append({"id": document.name or number, "text": document.text, "label": labels})
    write_records(records, path)


def _documents(path: str | Path) -> Iterator[Document]:
    for location, record in read_records(path):
        text = record.get("text", record.get("data"))
        if not isinstance(text, str):
            raise DataError(f"{location}: must have a text, got {', '.join(record)}")
        key = next((key for key in ("label", "labels", "entities") if isinstance(record.get(key), list)), "label")
        spans = [entity_span(location, entity) for entity in list_in(record, key, location)]
        yield Document(document_name(record, *DOCUMENT_KEYS, "id"), text, spans, location)
