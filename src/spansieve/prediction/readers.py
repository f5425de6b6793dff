"""What encoders read of sentences, made by processes that have no torch: they start at once and take little memory.

Axes: B sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple, Protocol

import numpy as np
from tokenizers import Tokenizer

from spansieve.nn.subwords import SubwordLayout
from spansieve.nn.word_features import WordFeatures

MOST_KNOWN = 500_000  # tokens, some two hundred bytes each


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


class Cut(NamedTuple):
    """A sentence in subwords: what the layout needs of what a tokenizer returns."""

    ids: list[int]
    word_ids: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class SubwordReader:
    """The reader of a Hugging Face encoder. Subwords are cached: text repeats itself, and to look a token up takes a
    fifth of the time of cutting it. A tokenizer cuts tokens that it is given as such one by one, so they are the same
    in any company."""

    def __init__(self, layout: SubwordLayout, tokenizer: Tokenizer) -> None:
        self._layout, self._tokenizer = layout, tokenizer
        self._known: dict[str, list[int]] = {}

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        self._learn(sentences)
        known, around = self._known, len(self._layout.before) + len(self._layout.after)
        return [around + sum(len(known[token]) or 1 for token in sentence) for sentence in sentences]

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self._layout.features(sentences, self._cuts)  # type: ignore[arg-type]  # of an Encoding it needs no more

    def _cuts(self, sentences: Sequence[Sequence[str]]) -> list[Cut]:
        self._learn(sentences)
        return [self._cut(sentence) for sentence in sentences]

    def _cut(self, sentence: Sequence[str]) -> Cut:
        cuts = [self._known[token] for token in sentence]
        places = chain.from_iterable(map(repeat, range(len(cuts)), map(len, cuts)))
        return Cut(list(chain.from_iterable(cuts)), list(places))

    def _learn(self, sentences: Sequence[Sequence[str]]) -> None:
        tokens = set(chain.from_iterable(sentences))
        if len(self._known) + len(tokens) > MOST_KNOWN:
            self._known = {}
        unknown = list(tokens - self._known.keys())
        if unknown:
            cut = self._tokenizer.encode_batch_fast
            found = cut([[token] for token in unknown], is_pretokenized=True, add_special_tokens=False)
            self._known.update(zip(unknown, (one.ids for one in found)))
