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
            raw, position = paragraph.get("raw"), 0
            for sentence in list_in(paragraph, "sentences", location, dict):
                tokens, tags = _columns(location, sentence)
                warnings.add("tokens that were not annotated read as null", location, tags.count("-"))
                with errors_at(location):
                    segments = segments_of_tags(tags, "BILOU")
                offsets = _offsets(raw, tokens, position) if isinstance(raw, str) else None
                raw = None if offsets is None else raw  # once a token was not found, none behind it is looked for
                position = offsets[-1][1] if offsets else position
                if tokens:
                    examples.append(Example.of(tokens, segments, text=raw, offsets=offsets, document=name))
    return examples


def _columns(location: str, sentence: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The tokens of a sentence and their tags."""
    pairs = [(token.get("orth"), token.get("ner", "-")) for token in list_in(sentence, "tokens", location, dict)]
    if not all(isinstance(token, str) and isinstance(tag, str) for token, tag in pairs):
        raise DataError(f"{location}: each token must have its orth and ner as strings, got {sentence!r:.80}")
    pairs = [(token, tag) for token, tag in pairs if token.strip()]
    return [token for token, _ in pairs], [tag for _, tag in pairs]


def _offsets(raw: str, tokens: list[str], position: int) -> list[tuple[int, int]] | None:
    offsets = []
    for token in tokens:
        start = raw.find(token, position)
        if start < 0:
            return None
        position = start + len(token)
        offsets.append((start, position))
    return offsets
