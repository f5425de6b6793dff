"""One sentence per line, each token with its columns behind bars: `Ada|NNP|B-PER Lovelace|NNP|I-PER`.

The token is what stands before the first bar, the tag what stands behind the last.
"""

from __future__ import annotations

from pathlib import Path

from spansieve.data.example import DataError, Example
from spansieve.data.formats.files import read_lines
from spansieve.data.reader_warnings import Notes
from spansieve.data.tag_schemes import scheme_of_tags, segments_of_tags


def read_iob_lines(path: str | Path, *, scheme: str = "auto", notes: Notes | None = None) -> list[Example]:
    """The sentences of a file with one on each line."""
    sentences = []
    for number, line in read_lines(path):
        pairs = [_pair(f"{path} line {number}", word) for word in line.split()]
        if pairs:
            sentences.append(([token for token, _ in pairs], [tag for _, tag in pairs]))
    found = scheme_of_tags(tags for _, tags in sentences) if scheme == "auto" else scheme
    return [Example(tuple(tokens), tuple(segments_of_tags(tags, found))) for tokens, tags in sentences]


def _pair(place: str, word: str) -> tuple[str, str]:
    # A bar may itself be the token: "|||O".
    token, _, rest = (word[0], "", word[1:]) if word.startswith("|") else word.partition("|")
    if not rest:
        raise DataError(f"{place}: every token must have its tag behind a bar, like Ada|B-PER, got {word!r}")
    return token, rest.rpartition("|")[2]
