"""What the probabilities of predicted entities are worth: of those with probability 0.8, are four in five right?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spansieve.evaluation.scores import Segments, segment_sets
from spansieve.segments import NamedSegment

ROUNDING = 1e-4  # a marginal in single precision may come out this far beyond 0 or 1; it is taken as that


@dataclass(frozen=True)
class Bin:
    """The predictions with a probability in [low, high); the last bin has its upper end too. Means of none are 0."""

    low: float
    high: float
    count: int
    probability: float  # mean
    accuracy: float  # share that is right

    @property
    def gap(self) -> float:
        """How much too sure the probabilities are; below 0, how much too unsure."""
        return self.probability - self.accuracy


@dataclass(frozen=True)
class Calibration:
    """The calibration of probabilities: how far they are from the share of predictions that are right. Without
    predictions every figure is 0."""

    expected_error: float  # the mean over predictions of their bin's |gap|: the expected calibration error
    largest_error: float  # the largest |gap| of a bin that is not empty
    brier: float  # the mean squared distance of a probability from 1 where right, from 0 where wrong
    count: int
    bins: tuple[Bin, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def calibrate(probabilities: ArrayLike, is_correct: ArrayLike, bins: int = 10) -> Calibration:
    """Compare the probability of each prediction with whether it was right, in bins of equal width.

    >>> calibration = calibrate([0.95, 0.85, 0.75, 0.35], [True, True, False, False])
    >>> round(calibration.expected_error, 3), round(calibration.brier, 4)
    (0.325, 0.1775)
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    probability, right = _checked(probabilities, is_correct)
    probability = probability.clip(0, 1)
    edges = np.arange(bins) / bins
    bin_index = np.searchsorted(edges, probability, side="right") - 1
    count = np.bincount(bin_index, minlength=bins)
    mean = np.bincount(bin_index, probability, minlength=bins) / np.maximum(count, 1)
    accuracy = np.bincount(bin_index, right, minlength=bins) / np.maximum(count, 1)
    gap = abs(mean - accuracy)
    number = max(1, probability.size)
    return Calibration(
        float((count * gap).sum() / number),
        float(gap.max()),
        float(((probability - right) ** 2).sum() / number),
        int(probability.size),
        tuple(Bin(k / bins, (k + 1) / bins, int(count[k]), float(mean[k]), float(accuracy[k])) for k in range(bins)),
    )


@dataclass(frozen=True)
class Threshold:
    """A threshold: only what has at least this probability is accepted."""

    probability: float
    precision: float  # of what is accepted
    recall: float  # of gold
    count: int  # what is accepted

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def threshold_for(precision: float, probabilities: ArrayLike, is_correct: ArrayLike, num_gold: int) -> Threshold | None:
    """The lowest probability above which predictions have this precision here, so that recall is the highest; None
    where no probability will do. On other data of the kind the precision will be near to it, not above it.

    >>> threshold_for(0.75, [0.9, 0.8, 0.7, 0.6, 0.5], [True, True, False, True, False], num_gold=4)
    Threshold(probability=0.6, precision=0.75, recall=0.75, count=4)
    """
    threshold = nearest_threshold(precision, probabilities, is_correct, num_gold)
    return threshold if threshold is not None and threshold.precision >= precision else None


def nearest_threshold(
    precision: float, probabilities: ArrayLike, is_correct: ArrayLike, num_gold: int
) -> Threshold | None:
    """The threshold for this precision or, where none will do, for the highest precision that can be reached; of equals
    the lowest, so that recall is the highest. None where nothing is predicted.

    >>> nearest_threshold(0.75, [0.9, 0.9, 0.8, 0.7], [True, False, True, False], num_gold=2)
    Threshold(probability=0.8, precision=0.6666666666666666, recall=1.0, count=3)
    """
    if not 0 < precision <= 1:
        raise ValueError(f"precision must lie in (0, 1], got {precision}")
    probability, right = _checked(probabilities, is_correct)
    if num_gold < right.sum():
        raise ValueError(f"num_gold must be at least the {right.sum()} that are right, got {num_gold}")
    if not probability.size:
        return None
    order = np.argsort(-probability, kind="stable")
    probability, right = probability[order], right[order].cumsum()
    # Equals are accepted together: only the last of them ends what is.
    ends = np.flatnonzero(np.append(probability[1:] != probability[:-1], True))
    reached = right[ends] / (ends + 1)
    last = int(ends[reached >= min(precision, reached.max())][-1])
    accepted, found = last + 1, int(right[last])
    return Threshold(float(probability[last]), found / accepted, found / max(1, num_gold), accepted)


def outcomes(
    gold: Sequence[Segments], predicted: Sequence[Segments], probabilities: Sequence[Sequence[float]]
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of each predicted segment and whether gold has it, in order, as `calibrate` takes them.

    `probabilities[b][i]` is that of `predicted[b][i]`.
    """
    if [len(segments) for segments in predicted] != [len(given) for given in probabilities]:
        raise ValueError("probabilities must have one number per predicted segment of each sentence, got other numbers")
    is_correct = [
        NamedSegment(*segment) in truth
        for (truth, _), segments in zip(segment_sets(gold, predicted), predicted)
        for segment in segments
    ]
    flat = [probability for given in probabilities for probability in given]
    return np.array(flat, np.float64), np.array(is_correct, bool)


def _checked(probabilities: ArrayLike, is_correct: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    probability, right = np.asarray(probabilities, np.float64), np.asarray(is_correct, bool)
    if probability.ndim != 1 or probability.shape != right.shape:
        shapes = f"{probability.shape} and {right.shape}"
        raise ValueError(f"probabilities and is_correct must be two lists of one length, got shapes {shapes}")
    outside = ~((probability >= -ROUNDING) & (probability <= 1 + ROUNDING))
    if outside.any():
        got = probability[outside][0]
        raise ValueError(f"probabilities must lie between 0 and 1, got {got}; a score is not a probability")
    return probability, right
