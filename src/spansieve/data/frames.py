"""Which spans of a document stand between the same neighbours.

What counts of a neighbour is its word or, where that is capitalised, only that; numbers are alike if their digits are
all that differs. The rows of a table and the members of a list have one frame.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

import numpy as np

_DIGITS = re.compile(r"\d+")
EDGE = 0  # the neighbour beyond the first or last token


class Frames:
    """Of sentences, to be asked for those of spans."""

    def __init__(self, first: np.ndarray, neighbour: np.ndarray, document: np.ndarray) -> None:
        """The place before each sentence's first token among the `neighbour` of all, -1 where it has no document; and
        the number of its document."""
        self._first, self._neighbour, self._document = first, neighbour, document

    def of(self, sentence: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """A number for the frame of each span, the same for no two documents; -1 where there is no document."""
        if not len(self._neighbour):
            return np.full(len(sentence), -1, np.int64)
        first = self._first[sentence]
        before, after = (self._neighbour[np.where(first < 0, 0, first + place)] for place in (start, end + 1))
        size = int(self._neighbour.max(initial=0)) + 1
        return np.where(first < 0, -1, (self._document[sentence] * size + before) * size + after)


def frames_of(
    sentences: Sequence[Sequence[str]], documents: Sequence[Hashable | None], among: Iterable[int] | None = None
) -> Frames:
    """Of some of the sentences.

    >>> frames = frames_of([["1.", "Ada", "12"], ["2.", "New", "York", "7"]], ["a", "a"])
    >>> one, other = frames.of(np.array([0, 1]), np.array([1, 1]), np.array([2, 3]))
    >>> bool(one == other)
    True
    """
    among = range(len(sentences)) if among is None else among
    inside = [i for i in among if documents[i] is not None]
    lengths = np.fromiter((len(sentences[i]) for i in inside), np.int64, len(inside)) + 2  # with the edges
    first = np.full(len(sentences), -1, np.int64)
    first[inside] = lengths.cumsum() - lengths
    tokens = list(chain.from_iterable(sentences[i] for i in inside))
    kinds: dict[str, int] = {}
    number = {token: kinds.setdefault(kind_of(token), len(kinds) + 1) for token in dict.fromkeys(tokens)}
    neighbour = np.full(lengths.sum(), EDGE, np.int64)
    is_token = np.ones(len(neighbour), bool)
    is_token[first[inside]] = is_token[first[inside] + lengths - 1] = False
    neighbour[is_token] = np.fromiter(map(number.__getitem__, tokens), np.int64, len(tokens))
    numbers = {document: number for number, document in enumerate(dict.fromkeys(documents[i] for i in inside))}
    document = np.zeros(len(sentences), np.int64)
    document[inside] = np.fromiter((numbers[documents[i]] for i in inside), np.int64, len(inside))
    return Frames(first, neighbour, document)


def kind_of(token: str) -> str:
    """
    >>> [kind_of(token) for token in ("1996-12-06", "The", "REUTER", "A", "of", "(", "x2")]
    ['9-9-9', 'Xx', 'XX', 'Xx', 'of', '(', 'x9']
    """
    plain = _DIGITS.sub("9", token)
    if plain != token or not token[:1].isalpha():
        return plain
    if token.isupper() and len(token) > 1:
        return "XX"
    return "Xx" if token[0].isupper() else token.casefold()
