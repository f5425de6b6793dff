"""The tokens of some sentences in a row.

Axes: T tokens of all sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class TokenPlaces(NamedTuple):
    """(T,) each."""

    sentence: np.ndarray
    start: np.ndarray  # in its sentence
    room: np.ndarray  # tokens from there to the end of the sentence


def token_places(sentences: Sequence[Sequence[str]], inside: Sequence[int]) -> TokenPlaces:
    """
    >>> [column.tolist() for column in token_places([["a", "b"], [], ["c"]], [0, 2])]
    [[0, 0, 2], [0, 1, 0], [2, 1, 1]]
    """
    lengths = np.fromiter((len(sentences[i]) for i in inside), np.int64, len(inside))
    start = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    return TokenPlaces(np.repeat(np.array(inside, np.int64), lengths), start, np.repeat(lengths, lengths) - start)
