"""Which spans of a document have the same words, whatever their case.

Axes: M mentions, T tokens of all sentences.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from spansieve.data.token_places import token_places


class Mentions:
    """Spans whose words stand elsewhere in their document, too, each in the group of its words. In order of groups."""

    def __init__(
        self, sentence: np.ndarray, start: np.ndarray, width: np.ndarray, group: np.ndarray, num_tokens: int
    ) -> None:
        """(M,) each; sentences have at most `num_tokens` tokens."""
        self.sentence, self.start, self.width, self.group = sentence, start, width, group
        self._num_tokens = num_tokens

    def __len__(self) -> int:
        return len(self.group)

    def only(self, is_wanted: np.ndarray) -> Mentions:
        """Whole groups of them, by a mask (M,)."""
        sentence, start, width, group = (x[is_wanted] for x in (self.sentence, self.start, self.width, self.group))
        return Mentions(sentence, start, width, group, self._num_tokens)

    @cached_property
    def first(self) -> np.ndarray:
        """The first mention of each group."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    def find(self, sentence: np.ndarray, start: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Which mention each of these spans is; -1 where its words stand nowhere else."""
        keys, order = self._sorted_keys
        wanted = self._keys(sentence, start, width)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, order[at], -1) if len(keys) else np.full(len(wanted), -1)

    @cached_property
    def _sorted_keys(self) -> tuple[np.ndarray, np.ndarray]:
        keys = self._keys(self.sentence, self.start, self.width)
        order = keys.argsort()
        return keys[order], order

    def _keys(self, sentence: np.ndarray, start: np.ndarray, width: np.ndarray) -> np.ndarray:
        size = self._num_tokens + 1
        return (sentence * size + start) * size + width


def mentions_of(
    sentences: Sequence[Sequence[str]],
    documents: Sequence[Hashable | None],
    max_width: int,
    among: Iterable[int] | None = None,
) -> Mentions:
    """Of spans of up to `max_width` tokens, in some of the sentences. One whose document is None has no mentions.

    >>> found = mentions_of([["New", "York", "won"], ["in", "NEW", "YORK"]], ["a", "a"], 2)
    >>> list(zip(found.sentence.tolist(), found.start.tolist(), found.width.tolist(), found.group.tolist()))
    [(0, 0, 1, 0), (1, 1, 1, 0), (0, 1, 1, 1), (1, 2, 1, 1), (0, 0, 2, 2), (1, 1, 2, 2)]
    """
    among = range(len(sentences)) if among is None else among
    inside = [i for i in among if documents[i] is not None]
    sentence, start, room = token_places(sentences, inside)
    word = _numbered_words(sentences, documents, inside)  # (T,)
    found: list[tuple[np.ndarray, np.ndarray, int]] = []  # tokens with which mentions start, their groups, their width
    at, code, num_groups = np.arange(len(word)), word, 0
    for width in range(1, max_width + 1):
        code, counts = _renumbered(code)
        is_repeated = counts[code] > 1
        at = at[is_repeated]
        code, counts = _renumbered(code[is_repeated])
        if not len(at):
            break
        found.append((at, code + num_groups, width))
        num_groups += len(counts)
        goes_on = room[at] > width  # a wider span is a mention only where this one is
        at, code = at[goes_on], code[goes_on]
        code = code * len(word) + word[at + width]
    group = np.concatenate([np.zeros(0, np.int64), *(group for _, group, _ in found)])
    order = group.argsort(kind="stable")
    token = np.concatenate([np.zeros(0, np.int64), *(at for at, _, _ in found)])[order]
    widths = np.repeat([width for *_, width in found], [len(at) for at, *_ in found]).astype(np.int64)[order]
    return Mentions(sentence[token], start[token], widths, group[order], int(room.max(initial=0)))


def _numbered_words(
    sentences: Sequence[Sequence[str]],
    documents: Sequence[Hashable | None],
    inside: Sequence[int],
) -> np.ndarray:
    """Of each token: its word, told apart by document."""
    lengths = [len(sentences[i]) for i in inside]
    words = list(map(str.casefold, chain.from_iterable(sentences[i] for i in inside)))
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    numbers = {document: number for number, document in enumerate(dict.fromkeys(documents[i] for i in inside))}
    word = np.fromiter(map(vocabulary.__getitem__, words), np.int64, len(words))
    document = np.repeat(np.fromiter((numbers[documents[i]] for i in inside), np.int64, len(inside)), lengths)
    return _renumbered(document * max(1, len(vocabulary)) + word)[0]


def _renumbered(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 on for whatever numbers there are, and how often each occurs."""
    _, number, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return number.reshape(-1), counts
