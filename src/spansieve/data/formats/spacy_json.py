"""spaCy's JSON training format of version 2: documents, paragraphs, sentences, tokens with BILOU tags.

Tokens whose tag is `-` (not annotated) are read as null with a warning; tokens of nothing but blanks are left out.
Where a paragraph has its `raw` text, the tokens' characters in it are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import errors_at, list_in, read_records
from spansieve.data.tag_schemes import segments_of_tags


def read_spacy_json(path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> list[Example]:
    """The sentences of a file that `spacy convert` of version 2 wrote."""
    examples: list[Example] = []
    for location, document in read_records(path):
        name = str(document["id"]) if "id" in document else None
        for paragraph in list_in(document, "paragraphs", location, dict):
            raw = paragraph.get("raw") if isinstance(paragraph.get("raw"), str) else None
            position: int | None = 0
            for sentence in list_in(paragraph, "sentences", location, dict):
                example, position = _example(location, sentence, name, raw, position, warnings)
                examples += [example] if example.tokens else []
    return examples


def _example(
    location: str,
    sentence: dict[str, Any],
    name: str | None,
    raw: str | None,
    position: int | None,
    warnings: ReaderWarnings,
) -> tuple[Example, int | None]:
    """The sentence, and where in the raw text the next one may begin: None once a token was not found there."""
    pairs = [(token.get("orth"), token.get("ner", "-")) for token in list_in(sentence, "tokens", location, dict)]
    if not all(isinstance(token, str) and isinstance(tag, str) for token, tag in pairs):
        raise DataError(f"{location}: each token must have its orth and ner as strings, got {sentence!r:.80}")
    pairs = [(token, tag) for token, tag in pairs if token.strip()]
    warnings.add("tokens that were not annotated read as null", location, sum(tag == "-" for _, tag in pairs))
    tokens = tuple(token for token, _ in pairs)
    with errors_at(location):
        segments = tuple(segments_of_tags([tag for _, tag in pairs], "BILOU"))
    offsets = None if raw is None or position is None else _offsets(raw, tokens, position)
    if offsets is None:
        return Example(tokens, segments, document=name), None
    example = Example(tokens, segments, text=raw, offsets=offsets, document=name)
    return example, offsets[-1][1] if offsets else position


def _offsets(raw: str, tokens: tuple[str, ...], position: int) -> tuple[tuple[int, int], ...] | None:
    offsets = []
    for token in tokens:
        start = raw.find(token, position)
        if start < 0:
            return None
        position = start + len(token)
        offsets.append((start, position))
    return tuple(offsets)
