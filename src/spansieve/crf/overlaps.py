"""Exact overlap resolution for scored spans of any origin, on NumPy arrays and without torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spansieve.crf.kernels.cpu.filtered_sweeps import filtered_best


def best_disjoint(
    starts: ArrayLike, ends: ArrayLike, scores: ArrayLike, sentences: ArrayLike | None = None
) -> np.ndarray:
    """Choose the spans to keep so that no two overlap and their scores add up to the most: a mask in the order given.

    A span is [start, end): touching ones do not overlap. One with a score of 0 or less adds nothing and is left out. Of
    equally good sets the one whose last span comes first in (end, start) order is taken, then likewise the last but
    one. `sentences` gives each span's sentence, any integers, to resolve many at once. O(N log N), whatever the size of
    the positions: what counts is their order.

    >>> best_disjoint([0, 1, 3], [2, 4, 5], [2.0, 3.0, 2.0])
    array([ True, False,  True])
    """
    starts, ends, scores = np.asarray(starts), np.asarray(ends), np.asarray(scores)
    sentences = np.zeros(starts.shape, np.int64) if sentences is None else np.asarray(sentences)
    _check(starts, ends, scores, sentences)
    scores = scores.astype(np.float64)
    _, sentence = np.unique(sentences, return_inverse=True)
    # Positions become ranks: the sweep goes by position, and a span may start at character 10,000,000.
    _, rank = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    start, end = rank[: len(starts)], rank[len(starts) :]
    order = np.lexsort((start, end, sentence))
    counts = np.bincount(sentence, minlength=1)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lengths = np.full(len(counts), rank.max(initial=0))
    first, last = (np.ascontiguousarray(x[order], dtype=np.int64) for x in (start, end))
    label, transition = np.zeros(len(starts), np.int64), np.zeros((1, 1))
    _, is_chosen = filtered_best(offsets, first, last, label, scores[order], transition, lengths, skip=True)
    result = np.empty_like(is_chosen)
    result[order] = is_chosen
    return result


def _check(starts: np.ndarray, ends: np.ndarray, scores: np.ndarray, sentences: np.ndarray) -> None:
    for name, array in (("starts", starts), ("ends", ends), ("scores", scores), ("sentences", sentences)):
        if array.ndim != 1 or array.size != starts.size:
            raise ValueError(f"{name} must have shape ({starts.size},), one entry per span, got {array.shape}")
    for name, array in (("starts", starts), ("ends", ends), ("sentences", sentences)):
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"{name} must be integers, got {array.dtype}")
    if (starts >= ends).any():
        at = int((starts >= ends).argmax())
        raise ValueError(f"span {at} must end after it starts, got [{starts[at]}, {ends[at]})")
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise ValueError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")
