"""Annotations of characters ↔ examples of tokens.

A token that an entity begins or ends in is cut there, so that no annotation is lost or moved. Blanks at an entity's
borders belong to no token; an entity of nothing but blanks is left out with a warning. Sentences never end inside an
entity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from spansieve.data.example import IGNORED, Example, ReaderWarnings, check_length, check_span
from spansieve.data.tokenizer import Token, sentence_spans, split_at, tokens_of_text
from spansieve.segments import NamedSegment


class Document(NamedTuple):
    """A text and its annotations: what the formats with character offsets hold.

    `tokens`: where the file brings its own; `breaks`: characters before which a sentence ends, such as a headline's
    end; with `only_breaks` none ends elsewhere; `location` names the file and line in errors and warnings.
    """

    name: str | None
    text: str
    annotations: Iterable[tuple[int, int, str]]  # `text[start:end]` is a label
    location: str = ""
    tokens: Sequence[Token] | None = None
    breaks: Iterable[int] = ()
    only_breaks: bool = False


def examples_of_documents(
    documents: Iterable[Document], split_sentences: bool = True, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of annotated texts; `text` and `offsets` of each are those of the whole document."""
    examples: list[Example] = []
    for document in documents:
        text, location = document.text, document.location
        kept = _checked(document, warnings)
        whole = tokens_of_text(text) if document.tokens is None else document.tokens
        cut = split_at(whole, (border for start, end, _ in kept for border in (start, end)))
        warnings.add("tokens cut where an entity begins or ends within them", location, len(cut) - len(whole))
        segments = sorted(_segments(cut, kept, location, warnings))
        spans = [(0, len(cut))] if cut else []
        if split_sentences:
            inside = [(start, end) for start, end, _ in kept]
            spans = sentence_spans(text, cut, inside, document.breaks, document.only_breaks)
        examples += [_sentence(document, cut, span, segments) for span in spans]
    return examples


def documents_of_examples(
    examples: Iterable[Example], warnings: ReaderWarnings = IGNORED, join_unnamed: bool = False
) -> Iterator[Document]:
    """Join consecutive examples of one document again.

    Where no text is known, tokens are joined by blanks and sentences by blank lines; sentences that name no document
    are one each, or with `join_unnamed` one in all.
    """
    for (name, text), group in groupby(examples, key=lambda example: (example.document, example.text)):
        if text is not None:
            annotations = {(*_characters(e, segment), segment.label) for e in group for segment in e.segments}
            yield Document(name, text, sorted(annotations))
            continue
        sentences = list(group)
        warnings.add("texts made by joining tokens with blanks", str(name or ""), len(sentences))
        together = name is not None or join_unnamed
        yield from (_joined(name, part) for part in ([sentences] if together else ([s] for s in sentences)))


def distinct_names(documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
    """Give each document a name that no other has, fit for a file."""
    seen: set[str] = set()
    for number, document in enumerate(documents, start=1):
        name = (document.name or f"document-{number}").replace("/", "_").replace("\\", "_")
        while name in seen:
            name = f"{name}-{number}"
        seen.add(name)
        yield name, document


def sentence_text(example: Example) -> tuple[str, list[tuple[int, int]]]:
    """The example's part of its text, or its tokens joined by blanks, and the characters of each token in it."""
    if example.text is not None and example.offsets:
        first, last = example.offsets[0][0], example.offsets[-1][1]
        return example.text[first:last], [(start - first, end - first) for start, end in example.offsets]
    offsets, position = [], 0
    for token in example.tokens:
        offsets.append((position, position + len(token)))
        position += len(token) + 1
    return " ".join(example.tokens), offsets


def _checked(document: Document, warnings: ReaderWarnings) -> list[tuple[int, int, str]]:
    location, kept = document.location, []
    check_length(document.text, location)
    for start, end, label in document.annotations:
        check_span(start, end, document.text, location)
        if start == end:
            warnings.add("entities without characters left out", location)
        else:
            kept.append((start, end, label))
    warnings.add("entities given twice read once", location, len(kept) - len(set(kept)))
    return sorted(set(kept))


def _segments(
    tokens: Sequence[Token], annotations: Iterable[tuple[int, int, str]], location: str, warnings: ReaderWarnings
) -> Iterator[NamedSegment]:
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]
    for start, end, label in annotations:
        first, after = bisect_left(starts, start), bisect_right(ends, end)
        if first < after:
            yield NamedSegment(first, after, label)
        else:
            warnings.add("entities of nothing but blanks left out", location)


def _sentence(
    document: Document, tokens: Sequence[Token], span: tuple[int, int], segments: list[NamedSegment]
) -> Example:
    start, end = span
    first, after = (bisect_left(segments, (border, 0, "")) for border in span)
    return Example(
        tuple(token.text for token in tokens[start:end]),
        tuple(NamedSegment(s.start - start, s.end - start, s.label) for s in segments[first:after]),
        text=document.text,
        offsets=tuple((token.start, token.end) for token in tokens[start:end]),
        document=document.name,
    )


def _characters(example: Example, segment: NamedSegment) -> tuple[int, int]:
    assert example.offsets is not None
    return example.offsets[segment.start][0], example.offsets[segment.end - 1][1]


def _joined(name: str | None, examples: Iterable[Example]) -> Document:
    texts, annotations, position = [], [], 0
    for example in examples:
        text, offsets = sentence_text(example)
        for start, end, label in example.segments:
            annotations.append((position + offsets[start][0], position + offsets[end - 1][1], label))
        texts.append(text)
        position += len(text) + 2  # the blank line
    return Document(name, "\n\n".join(texts), annotations)
