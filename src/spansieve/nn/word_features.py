"""The form of a word as rows of hashed tables: no vocabulary, so no word is unknown.

The hash is CRC-32, which is the same on every machine and in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from spansieve.nn.subwords import padded
from spansieve.nn.word_vectors import WordVectors

FIELDS = ("word", "norm", "prefix", "suffix", "shape")  # one table each
NORM = FIELDS.index("norm")
IDENTITY = 2  # the first fields identify the word, the others only describe its form
GRAM_WIDTHS = (2, 3, 4, 5)  # characters in a piece of a word
MAX_CHARACTERS = 32  # of a word whose pieces are features, from either end: a word may be a whole encoded file
MAX_CACHED = 200_000  # words, some hundred bytes each


class WordRows(NamedTuple):
    """The features of distinct words: U of them."""

    fields: np.ndarray  # (U, F): the row of each field's table
    grams: np.ndarray  # (G,): rows of the table of pieces, all words in one list
    gram_offsets: np.ndarray  # (U,): where each word's pieces begin


class WordFeatures:
    """Rows of tables for words, with a cache: text repeats itself."""

    def __init__(self, rows: int, vectors: WordVectors | None = None) -> None:
        self.rows, self.vectors = rows, vectors
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, words: Sequence[str]) -> WordRows:
        known = self._known
        if len(known) > MAX_CACHED:
            known.clear()
        rows = []
        for word in words:
            features = known.get(word)
            if features is None:
                features = known[word] = self._features(word)
            rows.append(features)
        counts = np.fromiter((len(grams) for _, grams in rows), np.int64, len(rows))
        none = np.zeros(0, np.int64)
        fields = np.concatenate([none, *(fields for fields, _ in rows)]).reshape(len(rows), len(FIELDS))
        return WordRows(fields, np.concatenate([none, *(grams for _, grams in rows)]), counts.cumsum() - counts)

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The encoder's input: each distinct word of the sentences once, and where they stand."""
        index: dict[str, int] = {}  # of each distinct word
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat = [index.setdefault(word, len(index)) for sentence in sentences for word in sentence]
        return self.of_distinct(list(index), flat, lengths)

    def of_distinct(self, distinct: Sequence[str], flat: ArrayLike, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The encoder's input, where each token is known as one of the distinct words."""
        vectors = {} if self.vectors is None else {"word_vectors": self.vectors(distinct)}
        # words, (B, L): which of the distinct words each token is
        return {"words": padded(flat, lengths), "num_tokens": lengths, **self(distinct)._asdict(), **vectors}

    def _features(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        norm = "".join("0" if character.isdigit() else character for character in word.lower())
        values = (word, norm, norm[:3], norm[-3:], shape_of(word))
        fields = np.array([self._row(f"{i}{value}") for i, value in enumerate(values)], np.int64)
        return fields, np.array([self._row(gram) for gram in grams_of(word)], np.int64)

    def _row(self, text: str) -> int:
        # Row 0 is for what is hidden.
        return 1 + crc32(text.encode("utf-8", "surrogatepass")) % (self.rows - 1)


class WordReader:
    """The half of the built-in encoder that works on the host, for the words of a vocabulary: they are named by number.
    A copy in another process knows no words."""

    def __init__(self, words: WordFeatures) -> None:
        self._features = words
        self.clear()

    def __reduce__(self) -> tuple[type[WordReader], tuple[WordFeatures]]:
        return WordReader, (self._features,)

    def clear(self) -> None:
        self._words: list[str] = []

    def learn(self, words: Sequence[str]) -> None:
        """Take over the next words of the vocabulary."""
        self._words += words

    def sizes(self, word: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The size of each sentence as input, (B,)."""
        return lengths

    def features(self, word: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The features of sentences of these lengths, which the encoder takes; `word`: the tokens of all, (T,)."""
        tokens = np.arange(len(word))
        index = np.zeros(len(self._words), np.int64)
        index[word[::-1]] = tokens[::-1]  # of each word the first token, which is written last
        distinct = word[index[word] == tokens]
        index[distinct] = np.arange(len(distinct))
        return self._features.of_distinct([self._words[i] for i in distinct.tolist()], index[word], lengths)


def shape_of(word: str) -> str:
    """The shape of a word: X, x and d for the kinds of characters, runs cut to four.

    >>> shape_of("McGill"), shape_of("1996-08-30"), shape_of("internationally")
    ('XxXxxx', 'dddd-dd-dd', 'xxxx')
    """
    shape = ""
    for character in word[:MAX_CHARACTERS]:
        kind = "X" if character.isupper() else "x" if character.isalpha() else "d" if character.isdigit() else character
        if shape[-4:] != kind * 4:
            shape += kind
    return shape


def grams_of(word: str) -> list[str]:
    """The pieces of a word with its borders marked.

    >>> grams_of("Ab")
    ['<A', 'Ab', 'b>', '<Ab', 'Ab>', '<Ab>']
    """
    short = word if len(word) <= MAX_CHARACTERS else word[: MAX_CHARACTERS // 2] + word[-MAX_CHARACTERS // 2 :]
    marked = f"<{short}>"
    return [marked[i : i + width] for width in GRAM_WIDTHS for i in range(len(marked) - width + 1)]
