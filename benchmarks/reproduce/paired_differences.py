"""Paired tests over several corpora, by documents, and corrected for their number."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.evaluation.significance import Interval, paired_bootstrap, randomisation


class PairedDifference(NamedTuple):
    """A difference of F1 (b less a) with its bootstrap interval and the p-value of approximate randomisation."""

    difference: Interval
    p_value: float


def paired_difference(
    rows: Sequence[np.ndarray], confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> PairedDifference:
    """Test the difference of micro F1 on one corpus, or the mean of the differences on several.

    `rows` has one array of counts per corpus; a resample draws from each of them.
    """
    _, interval = paired_bootstrap(rows, confidence, resamples, seed)
    return PairedDifference(interval, randomisation(rows, resamples, seed))


def by_document(rows: np.ndarray, documents: Sequence[Hashable | None]) -> np.ndarray:
    """Add up counts of sentences by document. A sentence whose document is None is a unit of its own."""
    if len(documents) != len(rows):
        raise ValueError(f"documents must have one entry per sentence of gold, {len(rows)}, got {len(documents)}")
    units: dict[Hashable, int] = {}
    unit = [units.setdefault(i if name is None else (name,), len(units)) for i, name in enumerate(documents)]
    totals = np.zeros((len(units), rows.shape[1]), rows.dtype)
    np.add.at(totals, unit, rows)
    return totals


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm 1979): the chance of any false alarm among all of them is held.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected
