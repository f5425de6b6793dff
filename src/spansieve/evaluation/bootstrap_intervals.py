"""How far the figures could have come out otherwise: bootstrap intervals over sentences.

Axes: B sentences, Y labels, C counts, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spansieve.evaluation.scores import Segments
from spansieve.evaluation.sentence_counts import (
    check_confidence,
    check_resampling,
    f1_of,
    macro_of,
    precision_of,
    recall_of,
    resampled_totals,
    sentence_counts,
)


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
    check_resampling(len(gold), resamples)
    check_confidence(confidence)
    labels, counts = sentence_counts(gold, predicted)
    drawn = resampled_totals(counts.reshape(len(gold), -1), resamples, np.random.default_rng(seed))
    totals = np.concatenate((counts.sum(0)[None], drawn.reshape(resamples, len(labels), 3)))  # (1 + R, Y, C)
    micro = totals.sum(1)  # (1 + R, C)
    occurs = totals[..., 1:].sum(-1) > 0  # (1 + R, Y)
    figures = f1_of(totals)  # (1 + R, Y)
    return Intervals(
        _interval(precision_of(micro), confidence),
        _interval(recall_of(micro), confidence),
        _interval(f1_of(micro), confidence),
        _interval(macro_of(figures, occurs), confidence),
        {label: _interval(figures[occurs[:, y], y], confidence) for y, label in enumerate(labels)},
        confidence,
        resamples,
    )


def _interval(values: np.ndarray, confidence: float) -> Interval:
    """The interval of a figure, given the figure itself and, behind it, its resampled values."""
    resampled = values[1:] if len(values) > 1 else values
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(values[0]), float(low), float(high))
