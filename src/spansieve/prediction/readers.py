"""What encoders read of sentences, made by processes that have no torch: they start at once and take little memory.

Axes: B sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spansieve.nn.subwords import SubwordCache, SubwordLayout
from spansieve.nn.word_features import WordFeatures


class Reader(Protocol):
    """The half of an encoder that works on the host. It can be sent to other processes."""

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """The size of each sentence as input, special subwords included."""

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The features of B sentences, which the encoder takes."""


@dataclass(frozen=True)
class WordReader:
    """The reader of the built-in encoder."""

    words: WordFeatures

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        return [len(sentence) for sentence in sentences]

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self.words.of_sentences(sentences)


@dataclass(frozen=True)
class SubwordReader:
    """The reader of a Hugging Face encoder."""

    layout: SubwordLayout
    subwords_of: SubwordCache

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        num_special = len(self.layout.before) + len(self.layout.after)
        return [num_special + count for count in self.subwords_of.counts(sentences)]

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self.layout.features(sentences, self.subwords_of)
