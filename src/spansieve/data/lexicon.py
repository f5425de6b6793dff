"""The names of the training data: how often which words are a segment of each label there.

Axes: M spans that are in the lexicon, N entries, Y labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from spansieve.data.token_places import token_places

Words = tuple[str, ...]


class Remembered(NamedTuple):
    """Spans whose words are in the lexicon, (M,) each."""

    sentence: np.ndarray
    start: np.ndarray
    width: np.ndarray
    evidence: np.ndarray  # (M, Y): what the words say for each label, none for null


class Lexicon:
    """Words, whatever their case, with how often they are of each label. Label 0 is null, and never counted.

    >>> lexicon = Lexicon.of([(["New", "York"], 1), (["York"], 1), (["york"], 2)], num_labels=3)
    >>> lexicon.counts[("york",)].tolist()
    [0, 1, 1]
    >>> found = lexicon.find([["in", "NEW", "YORK"]])
    >>> list(zip(found.start.tolist(), found.width.tolist()))
    [(2, 1), (1, 2)]
    """

    def __init__(self, counts: dict[Words, np.ndarray], num_labels: int) -> None:
        self.counts, self.num_labels = counts, num_labels

    @classmethod
    def of(cls, segments: Iterable[tuple[Sequence[str], int]], num_labels: int) -> Lexicon:
        counts: dict[Words, np.ndarray] = {}
        for words, label in segments:
            key = tuple(map(str.casefold, words))
            if key not in counts:
                counts[key] = np.zeros(num_labels, np.int64)
            counts[key][label] += 1
        return cls(counts, num_labels)

    def find(self, sentences: Sequence[Sequence[str]], among: Iterable[int] | None = None) -> Remembered:
        """In some of the sentences, by default in all."""
        inside = list(range(len(sentences)) if among is None else among)
        sentence, start, room = token_places(sentences, inside)
        words = map(str.casefold, chain.from_iterable(sentences[i] for i in inside))
        number = self._numbers
        word = np.fromiter((number.get(one, -1) for one in words), np.int64, len(start))
        at, state = np.arange(len(word)), np.zeros(len(word), np.int64)
        found: list[tuple[np.ndarray, np.ndarray, int]] = []  # first tokens, entries, their width
        width = 0
        while len(at):
            goes_on = room[at] > width
            at, state = self._next(at[goes_on], state[goes_on], word, width)
            width += 1
            entry = self._trie.entry[state]
            found.append((at[entry >= 0], entry[entry >= 0], width))
        token = np.concatenate([np.zeros(0, np.int64), *(token for token, *_ in found)])
        entries = np.concatenate([np.zeros(0, np.int64), *(entry for _, entry, _ in found)])
        widths = np.repeat([width for *_, width in found], [len(token) for token, *_ in found]).astype(np.int64)
        return Remembered(sentence[token], start[token], widths, self._evidence[entries])

    def _next(self, at: np.ndarray, state: np.ndarray, word: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """One word further, where an entry goes on so."""
        wanted = np.where(word[at + width] < 0, -1, state * len(self._numbers) + word[at + width])
        place = np.minimum(np.searchsorted(self._trie.edge, wanted), max(0, len(self._trie.edge) - 1))
        is_there = self._trie.edge[place] == wanted if len(self._trie.edge) else np.zeros(len(at), bool)
        return at[is_there], self._trie.target[place[is_there]]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Of each word."""
        return {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(self.counts)))}

    @cached_property
    def _trie(self) -> _Trie:
        """The entries word by word: state 0 is that before the first."""
        edges: dict[int, int] = {}
        entry = [-1]
        for number, words in enumerate(self.counts):
            state = 0
            for word in words:
                edge = state * len(self._numbers) + self._numbers[word]
                if edge not in edges:
                    edges[edge] = len(entry)
                    entry.append(-1)
                state = edges[edge]
            entry[state] = number
        edge_of, target = (np.fromiter(some, np.int64, len(edges)) for some in (edges, edges.values()))
        order = edge_of.argsort()
        return _Trie(edge_of[order], target[order], np.array(entry))

    @cached_property
    def _evidence(self) -> np.ndarray:
        """(N, Y): log P(label | words) / P(label) among names, with one more name that is as all are."""
        counts = np.array(list(self.counts.values()), np.float64).reshape(-1, self.num_labels)[:, 1:]
        total = counts.sum(0) + 1
        share = total / total.sum()
        evidence = np.log((counts + share) / (counts.sum(1, keepdims=True) + 1) / share)
        return np.pad(evidence, ((0, 0), (1, 0))).astype(np.float32)

    # ---- As text -----------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        entries = [
            [list(words), [[int(label), int(counts[label])] for label in counts.nonzero()[0]]]
            for words, counts in sorted(self.counts.items())
        ]
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        return f'{{"labels": {self.num_labels}, "entries": [\n{lines}\n]}}\n'

    @classmethod
    def from_json(cls, text: str, num_labels: int) -> Lexicon:
        """Raises ValueError where the text is none of so many labels."""
        try:
            read: dict[str, Any] = json.loads(text)
            if read["labels"] != num_labels:
                raise ValueError(f"it must have {num_labels} labels, got {read['labels']}")
            counts = {}
            for words, pairs in read["entries"]:
                counts[tuple(map(str, words))] = numbers = np.zeros(num_labels, np.int64)
                for label, count in pairs:
                    if not 0 < label < num_labels or count < 1:
                        raise ValueError(f"labels must lie in [1, {num_labels}), counts above 0, got {label}: {count}")
                    numbers[label] = count
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"a lexicon must have entries, each words with labels and counts: {error}") from error
        return cls(counts, num_labels)


class _Trie(NamedTuple):
    edge: np.ndarray  # from a state by a word, state · number of words + word, in order
    target: np.ndarray  # the state that each leads to
    entry: np.ndarray  # of each state: the entry that ends there, or -1
