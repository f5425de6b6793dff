"""Is one system better than another, or was it luck? Paired tests on the same sentences.

Axes: B sentences, R resamples. A row of the arrays below is a unit of resampling, a sentence or a document: true
positives and predictions of system a, true positives and predictions of system b, gold. The tests take the rows of one
corpus, or of several, of which they test the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spansieve.evaluation.bootstrap_intervals import (
    Interval,
    check_resampling,
    interval_of,
    parts_of,
    ratio,
    resampled_totals,
    sentence_counts,
)
from spansieve.evaluation.scores import Counts, Scores, Segments, evaluate
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
        """Plain values for JSON. Of the sentences only their index is there."""
        systems = {"a": self.a.to_dict(), "b": self.b.to_dict(), "difference": self.difference._asdict()}
        return {**vars(self), **systems, "differences": [difference.index for difference in self.differences]}


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
    rows = [paired_counts(gold, a, b)]
    p_value, interval = paired_bootstrap(rows, confidence, resamples, seed)
    return Comparison(
        evaluate(gold, a, lengths),
        evaluate(gold, b, lengths),
        interval,
        randomisation(rows, resamples, seed),
        p_value,
        differences_of(gold, a, b),
        resamples,
    )


def differences_of(gold: Sequence[Segments], a: Sequence[Segments], b: Sequence[Segments]) -> tuple[Difference, ...]:
    """The sentences on which the systems do not predict the same set of segments, in order."""
    differences = []
    for index, (truth, first, second) in enumerate(zip(gold, a, b)):
        sets = [tuple(sorted({NamedSegment(*segment) for segment in given})) for given in (truth, first, second)]
        if sets[1] != sets[2]:
            differences.append(Difference(index, *sets))
    return tuple(differences)


def paired_counts(gold: Sequence[Segments], a: Sequence[Segments], b: Sequence[Segments]) -> np.ndarray:
    """Count the two systems' segments by sentence: (B, 5)."""
    for name, given in (("a", a), ("b", b)):
        if len(given) != len(gold):
            raise ValueError(f"{name} must have one entry per sentence of gold, {len(gold)}, got {len(given)}")
    first, second = (sentence_counts(gold, system)[1].sum(1) for system in (a, b))  # (B, C)
    return np.column_stack((first[:, 0], first[:, 2], second[:, 0], second[:, 2], first[:, 1]))


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """The rows of a table: F1 of both systems per label and over all, and what b gains."""
    a, b = comparison.a, comparison.b
    labels = sorted({*a.by_label, *b.by_label})
    none = Counts()
    figures = [(label, a.by_label.get(label, none).f1, b.by_label.get(label, none).f1) for label in labels]
    figures += [("micro", a.f1, b.f1), ("macro", a.macro_f1, b.macro_f1)]
    return [{"label": name, "a": first, "b": second, "difference": second - first} for name, first, second in figures]


def _difference(totals: np.ndarray) -> np.ndarray:
    """Micro F1 of b less that of a: (…, 5) → (…)"""
    right_a, predicted_a, right_b, predicted_b, gold = np.moveaxis(totals, -1, 0)
    return ratio(2 * right_b, gold + predicted_b) - ratio(2 * right_a, gold + predicted_a)


def randomisation(corpora: Sequence[np.ndarray], resamples: int, seed: int) -> float:
    """Approximate randomisation: if the systems were alike, swapping their outputs on any units would not matter.

    Each resample swaps the outputs of every unit with probability 1/2. The p-value is (n + 1) / (R + 1), where n of the
    R resamples differ in micro F1 at least as much as the systems do, in whichever direction.
    """
    generator = np.random.default_rng(seed)
    swapped = np.mean([_swapped_differences(rows, resamples, generator) for rows in corpora], axis=0)  # (R,)
    count = int((abs(swapped) >= abs(_mean_difference(corpora)) - ROUNDING).sum())
    return (count + 1) / (resamples + 1)


def _swapped_differences(rows: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    """(R,). Units that would change the totals alike are swapped together, how many by one binomial: O(R · kinds)."""
    totals = rows.sum(0)
    moves, sizes = np.unique(rows[:, 2:4] - rows[:, :2], axis=0, return_counts=True)  # what a gains by a swap, b loses
    differences = []
    for part in parts_of(resamples, len(moves)):
        moved = generator.binomial(sizes, 0.5, size=(part, len(sizes))) @ moves  # (R, 2)
        differences.append(_difference(totals + np.column_stack((moved, -moved, np.zeros(part, np.int64)))))
    return np.concatenate(differences)


def paired_bootstrap(
    corpora: Sequence[np.ndarray], confidence: float, resamples: int, seed: int
) -> tuple[float, Interval]:
    """How often the difference of a resample is as far from the observed one as that is from 0, and the interval.

    Again (n + 1) / (R + 1), two-sided. The resampled differences scatter around the observed one; moved to 0, they show
    what chance can do.
    """
    for rows in corpora:
        check_resampling(len(rows), resamples, confidence)
    generator, observed = np.random.default_rng(seed), _mean_difference(corpora)
    resampled = np.mean([_difference(resampled_totals(rows, resamples, generator)) for rows in corpora], axis=0)  # (R,)
    count = int((abs(resampled - observed) >= abs(observed) - ROUNDING).sum())
    return (count + 1) / (resamples + 1), interval_of(observed, resampled, confidence)


def _mean_difference(corpora: Sequence[np.ndarray]) -> float:
    return float(np.mean([_difference(rows.sum(0)) for rows in corpora]))
