"""How far the figures could have come out otherwise: bootstrap intervals over sentences.

Axes: B sentences, Y labels, C = 3 counts (true positives, gold, predicted), R resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spansieve.evaluation.scores import Segments, segment_sets

MAX_DRAWS = 4_000_000  # draws held in memory


class Interval(NamedTuple):
    """A figure, and where the middle `confidence` of its resampled values lies."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Intervals:
    """Percentile intervals; micro figures unless named otherwise."""

    precision: Interval
    recall: Interval
    f1: Interval
    macro_f1: Interval
    by_label: Mapping[str, Interval]  # of F1
    confidence: float
    resamples: int

    def to_dict(self) -> dict[str, Any]:
        figures = {name: getattr(self, name)._asdict() for name in ("precision", "recall", "f1", "macro_f1")}
        by_label = {label: interval._asdict() for label, interval in self.by_label.items()}
        return {**figures, "by_label": by_label, "confidence": self.confidence, "resamples": self.resamples}


def bootstrap(
    gold: Sequence[Segments],
    predicted: Sequence[Segments],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Intervals:
    """Draw as many sentences with replacement, score them, do so `resamples` times, and see where the figures fall.

    Every resample is scored as `evaluate` would score it: its macro F1 is over the labels that it has. A label's own
    interval is over the resamples that have the label.

    >>> intervals = bootstrap([[(0, 1, "PER")], [(0, 2, "LOC")]] * 50, [[(0, 1, "PER")], []] * 50)
    >>> intervals.precision.low, intervals.f1.low < intervals.f1.value < intervals.f1.high
    (1.0, True)
    """
    check_resampling(len(gold), resamples, confidence)
    labels, counts = sentence_counts(gold, predicted)
    drawn = resampled_totals(counts.reshape(len(gold), -1), resamples, np.random.default_rng(seed))
    totals = np.concatenate((counts.sum(0)[None], drawn.reshape(resamples, len(labels), 3)))  # (1 + R, Y, C)
    occurs = totals[..., 1:].sum(-1) > 0  # (1 + R, Y)
    figures = ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])  # F1, (1 + R, Y)
    right, truth, guessed = totals.sum(1).T  # (1 + R,) each
    macro = ratio(np.where(occurs, figures, 0.0).sum(-1), occurs.sum(-1))  # over the labels that occur
    return Intervals(
        _interval(ratio(right, guessed), confidence),
        _interval(ratio(right, truth), confidence),
        _interval(ratio(2 * right, truth + guessed), confidence),
        _interval(macro, confidence),
        {label: _interval(figures[occurs[:, y], y], confidence) for y, label in enumerate(labels)},
        confidence,
        resamples,
    )


def _interval(values: np.ndarray, confidence: float) -> Interval:
    """The interval of a figure, given the figure itself and, behind it, its resampled values."""
    return interval_of(values[0], values[1:] if len(values) > 1 else values, confidence)


def interval_of(value: float, resampled: np.ndarray, confidence: float) -> Interval:
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(value), float(low), float(high))


def sentence_counts(gold: Sequence[Segments], predicted: Sequence[Segments]) -> tuple[list[str], np.ndarray]:
    """The labels that occur, in alphabetical order, and the counts of each sentence by label, (B, Y, C)."""
    pairs = list(segment_sets(gold, predicted))
    labels = sorted({segment.label for truth, guess in pairs for segment in truth | guess})
    column = {label: y for y, label in enumerate(labels)}
    counts = np.zeros((len(pairs), len(labels), 3), np.int64)
    for b, (truth, guess) in enumerate(pairs):
        for c, segments in enumerate((truth & guess, truth, guess)):
            for segment in segments:
                counts[b, column[segment.label], c] += 1
    return labels, counts


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


def check_resampling(sentences: int, resamples: int, confidence: float) -> None:
    if sentences < 1:
        raise ValueError("gold must have at least one sentence to resample from, got none")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}; for 95 percent write 0.95")
