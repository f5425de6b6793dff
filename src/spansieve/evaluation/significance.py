"""Is one system better than another, or was it luck? Paired tests on the same sentences.

Axes: B sentences, R resamples. A row of the arrays below is one sentence: true positives and predictions of system a,
true positives and predictions of system b, gold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spansieve.evaluation.counting import (
    check_confidence,
    check_resampling,
    parts_of,
    resampled_totals,
    sentence_counts,
    share,
)
from spansieve.evaluation.intervals import Interval
from spansieve.evaluation.scores import Scores, Segments, evaluate
from spansieve.segments import NamedSegment

ROUNDING = 1e-12  # two differences of F1 that are this close are equal


@dataclass(frozen=True)
class Difference:
    """A sentence on which the systems differ."""

    index: int
    gold: tuple[NamedSegment, ...]
    a: tuple[NamedSegment, ...]
    b: tuple[NamedSegment, ...]


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences. `difference` is the micro F1 of b less that of a: above 0, b is better.

    Both p-values are two-sided: how often chance alone would bring a difference at least as large.
    """

    a: Scores
    b: Scores
    difference: Interval
    randomisation_p_value: float
    bootstrap_p_value: float
    differences: tuple[Difference, ...]
    resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. The sentences are told by their index only."""
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "difference": self.difference._asdict(),
            "randomisation_p_value": self.randomisation_p_value,
            "bootstrap_p_value": self.bootstrap_p_value,
            "differences": [difference.index for difference in self.differences],
            "resamples": self.resamples,
        }


def compare(
    gold: Sequence[Segments],
    a: Sequence[Segments],
    b: Sequence[Segments],
    lengths: Sequence[int] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Score both systems, test the difference of their micro F1 in two ways, and list where they differ.

    >>> gold = [[(0, 1, "PER")]] * 40
    >>> comparison = compare(gold, [[]] * 20 + gold[20:], gold)
    >>> comparison.randomisation_p_value < 0.001, len(comparison.differences)
    (True, 20)
    """
    check_confidence(confidence)
    rows = _rows(gold, a, b)
    p_value, interval = _paired_bootstrap(rows, confidence, resamples, seed)
    return Comparison(
        evaluate(gold, a, lengths),
        evaluate(gold, b, lengths),
        interval,
        _randomisation(rows, resamples, seed),
        p_value,
        differences_of(gold, a, b),
        resamples,
    )


def differences_of(gold: Sequence[Segments], a: Sequence[Segments], b: Sequence[Segments]) -> tuple[Difference, ...]:
    """The sentences on which the systems do not predict the same set of segments, in order."""
    found = []
    for index, (truth, first, second) in enumerate(zip(gold, a, b)):
        sets = [tuple(sorted({NamedSegment(*segment) for segment in given})) for given in (truth, first, second)]
        if sets[1] != sets[2]:
            found.append(Difference(index, *sets))
    return tuple(found)


def _rows(gold: Sequence[Segments], a: Sequence[Segments], b: Sequence[Segments]) -> np.ndarray:
    """(B, 5)"""
    for name, given in (("a", a), ("b", b)):
        if len(given) != len(gold):
            raise ValueError(f"{name} must have one entry per sentence of gold, {len(gold)}, got {len(given)}")
    first = sentence_counts(gold, a).counts.sum(1)  # (B, C)
    second = sentence_counts(gold, b).counts.sum(1)
    return np.column_stack((first[:, 0], first[:, 2], second[:, 0], second[:, 2], first[:, 1]))


def _difference(totals: np.ndarray) -> np.ndarray:
    """Micro F1 of b less that of a: (…, 5) → (…)"""
    right_a, predicted_a, right_b, predicted_b, gold = np.moveaxis(totals, -1, 0)
    return share(2 * right_b, gold + predicted_b) - share(2 * right_a, gold + predicted_a)


def _randomisation(rows: np.ndarray, resamples: int, seed: int) -> float:
    """Approximate randomisation: if the systems were alike, swapping their outputs on any sentences would not matter.

    Each resample swaps the outputs of every sentence with probability 1/2. The p-value is (n + 1) / (R + 1), where n of
    the R resamples differ in micro F1 at least as much as the systems do, in whichever direction. Sentences that would
    change the totals alike are swapped together, how many by one binomial: O(R · kinds).
    """
    check_resampling(len(rows), resamples)
    generator = np.random.default_rng(seed)
    totals = rows.sum(0)
    moves, sizes = np.unique(rows[:, 2:4] - rows[:, :2], axis=0, return_counts=True)  # what a gains by a swap, b loses
    observed = abs(_difference(totals))
    count = 0
    for part in parts_of(resamples, len(moves)):
        moved = generator.binomial(sizes, 0.5, size=(part, len(sizes))) @ moves  # (R, 2)
        swapped = totals + np.column_stack((moved, -moved, np.zeros(part, np.int64)))
        count += int((abs(_difference(swapped)) >= observed - ROUNDING).sum())
    return (count + 1) / (resamples + 1)


def _paired_bootstrap(rows: np.ndarray, confidence: float, resamples: int, seed: int) -> tuple[float, Interval]:
    """How often the difference of a resample is as far from the observed one as that is from 0, and the interval.

    Again (n + 1) / (R + 1), two-sided. The resampled differences scatter around the observed one; moved to 0, they show
    what chance can do.
    """
    check_resampling(len(rows), resamples)
    observed = float(_difference(rows.sum(0)))
    resampled = _difference(resampled_totals(rows, resamples, np.random.default_rng(seed)))  # (R,)
    count = int((abs(resampled - observed) >= abs(observed) - ROUNDING).sum())
    low, high = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
    return (count + 1) / (resamples + 1), Interval(observed, float(low), float(high))
