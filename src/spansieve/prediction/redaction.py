"""Redaction: texts in, the same texts out with every span that may be of an entity replaced."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from queue import Empty, Queue
from typing import IO, Literal, NamedTuple

from spansieve.data.text_fields import Form, Record, read_fields
from spansieve.decoding.coverage import thresholds_of
from spansieve.decoding.prediction import check_choice
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.segments import Entity

Style = Literal["label", "mask", "pseudonym"]
MASK = "*"
RECORDS_AT_ONCE = 512  # that are redacted as one batch, where so many have come
CHARACTERS_AT_ONCE = 200_000
PSEUDONYM_DIGITS = 8


class Replacement(NamedTuple):
    """A span that was replaced, in characters of the text and of the redacted text. What stood there is not in it."""

    start: int
    end: int
    redacted_start: int
    redacted_end: int
    label: str
    probability: float  # that its surest token is part of an entity

    def moved(self, by: int, redacted_by: int) -> Replacement:
        return self._replace(
            start=self.start + by,
            end=self.end + by,
            redacted_start=self.redacted_start + redacted_by,
            redacted_end=self.redacted_end + redacted_by,
        )


class Redacted(NamedTuple):
    text: str
    replacements: list[Replacement]


class Redactor:
    """Redact texts: replace what is predicted, and every token that is part of an entity with at least a probability.

    `threshold` is of any label, or of each one that is to be replaced; other labels are left alone then. With the style
    `label` a span becomes `[PER]`, with `mask` as many asterisks as it had characters, with `pseudonym`
    `[PER-5d41402a]`, the same for the same words and label wherever the same `key` is used: without one a key is drawn,
    and they are the same for this redactor. A line break within a span stays under a mask.
    """

    def __init__(
        self,
        predictor: TextPredictor,
        threshold: float | Mapping[str, float] = 0.5,
        style: Style = "label",
        key: bytes | None = None,
        margin: float = 0.0,
    ) -> None:
        check_choice("style", style, Style)
        if key is not None and len(key) < 16:
            raise ValueError(f"key must have at least 16 bytes, got {len(key)}: draw one with secrets.token_bytes(32)")
        for label in threshold if isinstance(threshold, Mapping) else ():
            if label not in predictor.labels:
                raise ValueError(f"unknown label {label!r}; known are {', '.join(predictor.labels)}")
        thresholds_of(threshold, predictor.labels)
        self.predictor, self.threshold, self.style, self.margin = predictor, threshold, style, margin
        self._key = secrets.token_bytes(32) if key is None else key

    def __call__(self, texts: Sequence[str]) -> list[Redacted]:
        """Redact texts that are read as one batch."""
        covered = self.predictor.coverage(texts, margin=self.margin)
        return [self._redacted(text, coverage.spans(self.threshold)) for text, coverage in zip(texts, covered)]

    def _redacted(self, text: str, spans: Iterable[Entity]) -> Redacted:
        parts: list[str] = []
        replacements = []
        reached = length = 0
        for span in spans:
            kept, instead = text[reached : span.start], self._instead(span)
            parts += [kept, instead]
            start = length + len(kept)
            length, reached = start + len(instead), span.end
            replacements.append(
                Replacement(span.start, span.end, start, length, span.label, float(span.probability or 0.0))
            )
        return Redacted("".join((*parts, text[reached:])), replacements)

    def _instead(self, span: Entity) -> str:
        if self.style == "mask":
            return "".join(sign if sign in "\r\n" else MASK for sign in span.text)
        if self.style == "label":
            return f"[{span.label}]"
        words = " ".join(span.text.split())
        digest = hmac.new(
            self._key, f"{span.label}\0{words}".encode("utf-8", "surrogatepass"), hashlib.sha256
        ).hexdigest()
        return f"[{span.label}-{digest[:PSEUDONYM_DIGITS]}]"


class Line(NamedTuple):
    """A record of a stream after redaction."""

    raw: bytes
    number: int  # of its first line
    replacements: list[tuple[int, Replacement]]  # each with the number of its field in the record, counted from 0


def redact_stream(
    redactor: Redactor, stream: IO[bytes], form: Form = "lines", names: Sequence[str] = (), source: str = "the input"
) -> Iterator[list[Line]]:
    """Redact a stream, without waiting for its end: the lines that have come are redacted together, and no more than a
    batch is held. Joined, what comes out is the stream with its texts redacted and every other byte as it was.

    `names` are of the JSON fields or CSV columns that hold text; `source` is what errors call the stream. Of a line
    that is too long for one text the offsets go on from piece to piece.
    """
    before = after = 0  # characters of the line that came in earlier pieces
    for records in _as_they_come(read_fields(stream, form, names, source)):
        redacted = iter(redactor([field.text for record in records for field in record.fields]))
        lines = []
        for record in records:
            if not record.continues:
                before = after = 0
            results = [next(redacted) for _ in record.fields]
            raw = _replaced(record, results)
            found = [
                (number, replacement.moved(before, after))
                for number, result in enumerate(results)
                for replacement in result.replacements
            ]
            lines.append(Line(raw.encode(), record.line, found))
            before, after = before + len(record.raw), after + len(raw)
        yield lines


def _replaced(record: Record, results: Sequence[Redacted]) -> str:
    """Write the replacements into the record."""
    parts, reached = [], 0
    for field, (text, replacements) in zip(record.fields, results):
        spans = [(r.start, r.end, text[r.redacted_start : r.redacted_end]) for r in replacements]
        if spans:
            parts += [record.raw[reached : field.start], field.replaced(record.raw[field.start : field.end], spans)]
            reached = field.end
    return "".join((*parts, record.raw[reached:]))


def _as_they_come(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Batches of what has been read so far, at least one record each: a thread reads ahead, a batch and no more."""
    queue: Queue[Record | Exception | None] = Queue(RECORDS_AT_ONCE)
    is_given_up = threading.Event()

    def read() -> None:
        try:
            for record in chain(records, [None]):
                queue.put(record)
                if is_given_up.is_set():
                    return
        except Exception as error:  # raised where the records are used
            queue.put(error)

    threading.Thread(target=read, name="spansieve-reading", daemon=True).start()
    item: Record | Exception | None
    try:
        while True:
            batch: list[Record] = []
            size = 0
            while isinstance(item := queue.get(), Record):
                batch.append(item)
                size += len(item.raw)
                if queue.empty() or len(batch) >= RECORDS_AT_ONCE or size >= CHARACTERS_AT_ONCE:
                    break
            if batch:
                yield batch
            if isinstance(item, Exception):
                raise item
            if item is None:
                return
    finally:
        is_given_up.set()
        with suppress(Empty):  # the thread may wait to put one more, and ends after it
            queue.get_nowait()
