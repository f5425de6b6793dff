"""How far the figures could have come out otherwise, by bootstrap intervals over sentences; and whether one system is
better than another or was lucky, by paired tests on the same sentences.

Axes: B sentences, Y labels, C = 3 counts (true positives, gold, predicted), R resamples. For two systems a row is a
unit of resampling, a sentence or a document: true positives and predictions of system a, true positives and predictions
of system b, gold. The tests take the rows of one corpus, or of several, of which they test the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spansieve.evaluation.scores import Counts, Scores, Segments, evaluate, segment_sets
from spansieve.segments import NamedSegment

MAX_DRAWS = 4_000_000  # draws held in memory
ROUNDING = 1e-12  # two differences of F1 that are this close are equal


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
    low, high = np.quantile(values[1:] if len(values) > 1 else values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(values[0]), float(low), float(high))


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


# ---- Two systems -----------------------------------------------------------------------------------------------------


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
    return (count + 1) / (resamples + 1), _interval(np.append(observed, resampled), confidence)


def _mean_difference(corpora: Sequence[np.ndarray]) -> float:
    return float(np.mean([_difference(rows.sum(0)) for rows in corpora]))
