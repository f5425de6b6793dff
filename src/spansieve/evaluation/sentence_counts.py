"""Counts per sentence as arrays: what resampling works on.

Axes: B sentences, Y labels, and C = 3 counts (true positives, gold, predicted); R resamples where there are some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.evaluation.scores import Segments, segment_sets

MAX_DRAWS = 4_000_000  # draws held in memory


class SentenceCounts(NamedTuple):
    """Counts per sentence: `counts[b, y]` are true positives, gold and predicted segments of label y in sentence b."""

    labels: tuple[str, ...]
    counts: np.ndarray  # (B, Y, C)


def sentence_counts(
    gold: Sequence[Segments], predicted: Sequence[Segments], labels: Sequence[str] | None = None
) -> SentenceCounts:
    """Count each sentence by itself, for the labels given or all that occur, in alphabetical order."""
    pairs = list(segment_sets(gold, predicted))
    if labels is None:
        labels = sorted({segment.label for truth, guess in pairs for segment in truth | guess})
    column = {label: y for y, label in enumerate(labels)}
    counts = np.zeros((len(pairs), len(labels), 3), np.int64)
    for b, (truth, guess) in enumerate(pairs):
        for c, segments in enumerate((truth & guess, truth, guess)):
            for segment in segments:
                counts[b, column[segment.label], c] += 1
    return SentenceCounts(tuple(labels), counts)


def resampled_totals(rows: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    """Sums over B rows drawn with replacement, `resamples` times: (B, M) → (R, M).

    Equal rows are drawn together, how many of each by one multinomial. That is the same distribution, and a corpus has
    few kinds of rows: O(R · kinds), however many sentences there are.
    """
    kinds, sizes = np.unique(rows, axis=0, return_counts=True)
    shares = sizes / sizes.sum()
    return np.concatenate(
        [generator.multinomial(len(rows), shares, size=part) @ kinds for part in parts_of(resamples, len(kinds))]
    )


def parts_of(resamples: int, draws: int) -> Iterator[int]:
    """The resamples in parts that fit into memory."""
    part = max(1, MAX_DRAWS // max(1, draws))
    for begin in range(0, resamples, part):
        yield min(part, resamples - begin)


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The quotient, 0 where there is nothing to divide by."""
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


def precision_of(totals: np.ndarray) -> np.ndarray:
    """Precision, (…, C) → (…)"""
    return ratio(totals[..., 0], totals[..., 2])


def recall_of(totals: np.ndarray) -> np.ndarray:
    """Recall, (…, C) → (…)"""
    return ratio(totals[..., 0], totals[..., 1])


def f1_of(totals: np.ndarray) -> np.ndarray:
    """The F1 score, (…, C) → (…)"""
    return ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])


def macro_of(figures: np.ndarray, occurs: np.ndarray) -> np.ndarray:
    """The mean over those labels that occur: (…, Y) → (…)"""
    return ratio(np.where(occurs, figures, 0.0).sum(-1), occurs.sum(-1))


def check_resampling(sentences: int, resamples: int) -> None:
    if sentences < 1:
        raise ValueError("gold must have at least one sentence to resample from, got none")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")


def check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}; for 95 percent write 0.95")
