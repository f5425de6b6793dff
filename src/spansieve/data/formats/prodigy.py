"""Prodigy JSON lines: `text`, its `tokens`, and `spans` in characters; one task is one example.

Tasks that were rejected or ignored are left out with a warning. The file's own tokens are kept, but for those of
nothing but blanks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spansieve.data.alignment import Document, examples_of_documents, sentence_text
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import first_wanted, list_in, read_records, write_records
from spansieve.data.formats.jsonl import document_name, entity_span, is_count
from spansieve.data.tokenizer import Token


def read_prodigy(
    path: str | Path, *, split_sentences: bool = False, annotator: Any = None, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The accepted tasks of a file that `prodigy db-out` wrote. `annotator`: whose tasks are read, or several, of each
    text those of the first who has any."""
    return examples_of_documents(_documents(path, annotator, warnings), split_sentences, warnings)


def write_prodigy(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write one accepted task per example."""
    write_records(map(_task, examples), path)


def _documents(path: str | Path, annotator: Any, warnings: ReaderWarnings) -> Iterator[Document]:
    by_text: dict[str, list[dict[str, Any]]] = {}
    records = list(read_records(path))
    for _, record in records:
        by_text.setdefault(str(record.get("text")), []).append(record)
    wanted = {id(record) for group in by_text.values() for record in first_wanted(group, annotator)}
    for location, record in records:
        if id(record) not in wanted:
            warnings.add("tasks of other annotators left out", location)
            continue
        if record.get("answer", "accept") != "accept":
            warnings.add(f"tasks with the answer {record['answer']} left out", location)
            continue
        text, meta = record.get("text"), record.get("meta")
        if not isinstance(text, str):
            raise DataError(f"{location}: must have a text, got {', '.join(record)}")
        name = document_name(meta) if isinstance(meta, dict) else None
        spans = [entity_span(location, span) for span in list_in(record, "spans", location)]
        yield Document(name, text, spans, location, _tokens(location, text, record))


def _tokens(location: str, text: str, record: dict[str, Any]) -> list[Token] | None:
    if record.get("tokens") is None:
        return None
    result: list[Token] = []
    for values in list_in(record, "tokens", location, dict):
        token = Token(values.get("text", ""), values.get("start", -1), values.get("end", -1))
        if not (isinstance(token.text, str) and is_count(token.start) and is_count(token.end)) or token.start < 0:
            raise DataError(f"{location}: a token must have text, start and end, got {values!r:.200}")
        if result and token.start < result[-1].end:
            raise DataError(f"{location}: tokens must be in order, got {token.text!r:.80} at {token.start}")
        if text[token.start : token.end] != token.text:
            raise DataError(f"{location}: token {token.text!r:.80} must stand at {token.start} to {token.end}")
        if token.text.strip():
            result.append(token)
    return result


def _task(example: Example) -> dict[str, Any]:
    text, offsets = sentence_text(example)
    tokens = [Token(token, *place) for token, place in zip(example.tokens, offsets)]
    spans = [span_entry(tokens, segment.start, segment.end - 1, segment.label) for segment in example.segments]
    task = {"text": text, "tokens": token_entries(tokens, len(text)), "spans": spans, "answer": "accept"}
    return {**task, "meta": {"doc": example.document}} if example.document is not None else task


def token_entries(tokens: Sequence[Token], end: int) -> list[dict[str, Any]]:
    """The tokens of a text, which ends at this character, as a task has them."""
    following = [*(token.start for token in tokens[1:]), end]
    return [
        {"text": token.text, "start": token.start, "end": token.end, "id": i, "ws": after > token.end}
        for i, (token, after) in enumerate(zip(tokens, following))
    ]


def span_entry(tokens: Sequence[Token], first: int, last: int, label: str) -> dict[str, Any]:
    """A span by its first token and its last, which is inclusive in this format."""
    place = {"start": tokens[first].start, "end": tokens[last].end}
    return {**place, "token_start": first, "token_end": last, "label": label}
