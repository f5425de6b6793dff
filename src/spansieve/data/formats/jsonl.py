"""JSON lines, with tokens or with text.

With tokens, one sentence per line, spans counted in tokens and end exclusive:

    {"tokens": ["Ada", "Lovelace"], "entities": [{"start": 0, "end": 2, "label": "PER"}], "doc": "a"}

`words` or `tokenized_text` may stand for `tokens`, `spans` for `entities`, `[0, 2, "PER"]` for an object, and `tags` or
`ner_tags` (strings) for spans. Under the key `ner` the end is inclusive, as the tools that write that key have it.
`text` and `offsets` beside them, characters of each token, are kept.

`"unknown": [[2, 5]]` are tokens of which nothing is known but the entities given (see `Example`), and with text they
are characters.

With text, one document per line, spans counted in characters and end exclusive, cut into tokens and sentences here:

    {"text": "Ada Lovelace wrote it.", "entities": [{"start": 0, "end": 12, "label": "PER"}], "doc": "a"}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from spansieve.data.alignment import Document, documents_of_examples, examples_of_documents, sentence_text
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, joined_ranges
from spansieve.data.formats.files import errors_at, list_in, read_records, write_records
from spansieve.data.tag_schemes import segments_of_tags
from spansieve.segments import NamedSegment

TOKEN_KEYS = ("tokens", "words", "tokenized_text")
SPAN_KEYS = ("entities", "spans", "ner")
TAG_KEYS = ("tags", "ner_tags")
DOCUMENT_KEYS = ("doc", "document", "doc_id")
# What a record may hold of an earlier annotation, in any of the formats that are JSON.
_ANNOTATION_KEYS = {*TOKEN_KEYS, *SPAN_KEYS, *TAG_KEYS, "offsets", "unknown", "label", "labels", "relations"}
_ANNOTATION_KEYS |= {"annotations", "completions", "predictions"}
_REVIEW_KEYS = {"answer", "_task_hash"}


def read_jsonl(path: str | Path, *, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED) -> list[Example]:
    """The sentences of a JSON lines file (or a JSON list of the same objects), with tokens or with text.

    `split_sentences=False` keeps each text whole.
    """
    examples: list[Example] = []
    for location, record in read_records(path):
        if any(key in record for key in TOKEN_KEYS):
            examples.append(_tokens_example(location, record))
        elif isinstance(record.get("text"), str):
            spans = [entity_span(location, entity) for entity in _spans(location, record)[1]]
            document = Document(document_name(record, *DOCUMENT_KEYS, "id"), record["text"], spans, location)
            sentences = examples_of_documents([document], split_sentences, warnings)
            unknown = _unknown(location, record, len(record["text"]))
            examples += [_with_unknown_characters(example, unknown) for example in sentences] if unknown else sentences
        else:
            raise DataError(f"{location}: must have the key tokens or text, got {', '.join(record) or 'no keys'}")
    return examples


def write_jsonl(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write tokens and entities; where the text is known, the sentence's part of it with offsets from its start."""
    write_records(map(_tokens_record, examples), path)


def write_jsonl_text(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write one document per line, entities in characters."""
    records = []
    for document in documents_of_examples(examples, warnings):
        entities = [NamedSegment(*annotation)._asdict() for annotation in document.annotations]
        record: dict[str, Any] = {"text": document.text, "entities": entities}
        records.append(record if document.name is None else {**record, "doc": document.name})
    write_records(records, path)


def entity_span(location: str, entity: Any) -> tuple[int, int, str]:
    """Start, end and label of `{"start": …, "end": …, "label": …}` or `[start, end, label]`; doccano has
    `start_offset` and `end_offset`."""
    values: Any = entity if isinstance(entity, (list, tuple)) and len(entity) >= 3 else (None, None, None)
    if isinstance(entity, dict):
        keys = (("start", "start_offset"), ("end", "end_offset"), ("label", "type"))
        values = [entity.get(key, entity.get(other)) for key, other in keys]
    start, end, label = values[:3]
    if not (is_count(start) and is_count(end) and isinstance(label, str) and label):
        raise DataError(f"{location}: an entity must have start, end and label, got {entity!r:.200}")
    return start, end, label


def without_annotation(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a record holds beside annotation, to which a new one can be added without the old being read for it.

    >>> without_annotation({"text": "Ada", "label": [[0, 3, "LOC"]], "answer": "accept", "id": 7})
    {'text': 'Ada', 'id': 7}
    """
    return {
        key: value
        for key, value in record.items()
        if key not in _REVIEW_KEYS and not (key in _ANNOTATION_KEYS and isinstance(value, (list, dict)))
    }


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def document_name(record: dict[str, Any], *keys: str) -> str | None:
    """The document that a record names. A sentence's `id` is not its document's; a text's is."""
    return next((str(record[key]) for key in keys or DOCUMENT_KEYS if record.get(key) is not None), None)


def _spans(location: str, record: dict[str, Any]) -> tuple[str, list[Any]]:
    key = next((key for key in SPAN_KEYS if record.get(key) is not None), SPAN_KEYS[0])
    return key, list_in(record, key, location)


def _tokens_example(location: str, record: dict[str, Any]) -> Example:
    key = next(key for key in TOKEN_KEYS if key in record)
    tokens = record[key]
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"{location}: {key} must be a list of strings, got {str(tokens)[:60]!r}")
    where = _text_and_offsets(location, record, tokens)
    where |= {"unknown": _unknown(location, record, len(tokens)), "document": document_name(record)}
    segments = sorted(_token_spans(location, record, len(tokens)))
    with errors_at(location):
        return Example.of(tokens, segments, **where)


def _text_and_offsets(location: str, record: dict[str, Any], tokens: list[str]) -> dict[str, Any]:
    text, offsets = record.get("text"), record.get("offsets")
    if text is None or offsets is None:
        return {}
    if not (isinstance(text, str) and isinstance(offsets, list) and len(offsets) == len(tokens)):
        raise DataError(f"{location}: offsets must be one per token of a text, {len(tokens)}, got {offsets!r:.80}")
    for token, span in zip(tokens, offsets):
        is_span = isinstance(span, list) and len(span) == 2 and all(map(is_count, span)) and span[0] >= 0
        if not is_span or text[span[0] : span[1]] != token:
            raise DataError(f"{location}: offsets must be [start, end] of {token!r:.40} in the text, got {span!r:.80}")
    return {"text": text, "offsets": offsets}


def _token_spans(location: str, record: dict[str, Any], length: int) -> set[tuple[int, int, str]]:
    tag_key = next((key for key in TAG_KEYS if key in record), None)
    if tag_key and not any(key in record for key in SPAN_KEYS):
        tags = record[tag_key]
        if not isinstance(tags, list) or len(tags) != length or not all(isinstance(tag, str) for tag in tags):
            raise DataError(f"{location}: {tag_key} must be one string per token, {length}, got {str(tags)[:60]!r}")
        with errors_at(location):
            return set(segments_of_tags(tags))
    key, spans = _spans(location, record)
    last = 1 if key == "ner" else 0
    return {(start, end + last, label) for start, end, label in (entity_span(location, span) for span in spans)}


def _unknown(location: str, record: dict[str, Any], length: int) -> tuple[tuple[int, int], ...]:
    ranges = list_in(record, "unknown", location)
    for span in ranges:
        if not (isinstance(span, list) and len(span) == 2 and all(map(is_count, span))):
            raise DataError(f"{location}: unknown must be a list of [start, end], got {span!r:.80}")
    with errors_at(location):
        return joined_ranges(ranges, length)


def _with_unknown_characters(example: Example, ranges: Iterable[tuple[int, int]]) -> Example:
    """Mark tokens that have an unknown character as unknown."""
    tokens = [
        (i, i + 1)
        for i, (start, end) in enumerate(example.offsets or ())
        if any(start < high and low < end for low, high in ranges)
    ]
    return replace(example, unknown=tuple(tokens))


def _tokens_record(example: Example) -> dict[str, Any]:
    record: dict[str, Any] = {
        "tokens": list(example.tokens),
        "entities": [segment._asdict() for segment in example.segments],
    }
    if example.unknown:
        record["unknown"] = [list(span) for span in example.unknown]
    if example.document is not None:
        record["doc"] = example.document
    if example.text is not None and example.offsets:
        record["text"], offsets = sentence_text(example)
        record["offsets"] = [list(span) for span in offsets]
    return record
