"""What probabilities are worth: of entities with probability 0.8, are four in five right? And thresholds of them that
keep a promise on new text, with the confidence that is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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


# ---- Thresholds that keep a promise ----------------------------------------------------------------------------------

# The promises are of a ratio over new text, E[missed tokens] / E[gold tokens] <= level, which is E[loss] <= 0 of
#     loss of a unit = missed tokens - level * gold tokens,
# for units that are exchangeable: documents, or sentences. Learn then Test (Angelopoulos, Bates, Candès, Jordan and
# Lei, 2021) turns that into tests of the hypothesis E[loss] > 0, one of each threshold, in an order that is fixed in
# advance; the last threshold that is rejected before the first that is not has the promise, with no correction for
# their number. A valid test needs bounded losses: a unit with more than `cap` gold tokens counts as one with `cap`.

FITTED = 0.2  # the share of units that give no promise
CAP_QUANTILE = 0.9
BETS = np.array([0.99, 0.5, 0.2])  # parts of the largest bet that cannot lose more than there is
MAX_STEPS = 60  # of a search for a level


class Units(NamedTuple):
    """What is counted, such as gold tokens or predicted entities, with the unit that each is of."""

    score: np.ndarray  # (M,)
    unit: np.ndarray  # (M,): numbered from 0
    is_wrong: np.ndarray  # (M,): counts as an error where it is accepted; of gold tokens all are, where they are missed

    def halves(self, is_fitted: np.ndarray) -> tuple[Units, Units]:
        """Take apart what the choices are made by, by a mask of units (units,), and what gives the promise."""
        is_own = is_fitted[self.unit]
        return Units(*(part[is_own] for part in self)), Units(*(part[~is_own] for part in self))

    def cap(self) -> int:
        """How many of a unit count: as many as nine in ten of those that have any have at most."""
        counts = np.bincount(self.unit)
        return int(np.quantile(counts[counts > 0], CAP_QUANTILE, method="higher")) if counts.any() else 1


def fitted_units(num_units: int, seed: int = 0) -> np.ndarray:
    """Draw the units that choose the cap and the order of tests, and give no promise: a mask, (units,)."""
    is_fitted = np.zeros(num_units, bool)
    is_fitted[np.random.default_rng(seed).permutation(num_units)[: -int(-FITTED * num_units // 1)]] = True
    return is_fitted


def log_evidence(losses: np.ndarray, largest: float) -> float:
    """Return the logarithm of the evidence that the mean of losses is below 0, where each is at most `largest`.

    A bet on each loss to be below 0 multiplies the capital by 1 - λ·loss. Were the mean not below 0, no λ would let it
    grow on average, so that by Markov's inequality it reaches 1/δ with probability δ at most: 1/evidence is a valid
    p-value for any number of units (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
    2023). The capital is shared by a few λ; the order of the units does not matter.
    """
    growth = np.log1p(-(BETS / largest)[:, None] * losses).sum(1)
    return float(np.logaddexp.reduce(growth) - np.log(len(BETS)))


def covering_threshold(gold: Units, num_units: int, level: float, confidence: float, cap: int) -> float | None:
    """Find the largest score such that, with this confidence, at most `level` of the gold tokens of new text score
    less; None where no score above 0 will do.

    What is missed can only grow with the threshold, so that the tests go from the smallest score upward, and every
    score that occurs may be one (Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free, risk-controlling
    prediction sets", 2021).
    """
    scores = np.unique(gold.score[gold.score > 0])
    size = np.bincount(gold.unit, minlength=num_units)

    def fails(threshold: float) -> bool:
        missed = np.bincount(gold.unit[gold.score < threshold], minlength=num_units)
        return not _is_rejected(missed, size, level, confidence, cap)

    num_kept = bisect_left(scores, True, key=fails)
    return float(scores[num_kept - 1]) if num_kept else None


def accepting_threshold(
    found: Units, num_units: int, level: float, confidence: float, cap: int, order: Sequence[float]
) -> float | None:
    """Find a score such that, with this confidence, at most `level` of what scores at least as much in new text is
    wrong; None where the first will not do.

    This is no monotone function of the score, so that Learn then Test goes through the scores of `order`, which must
    not be made from the same data, and ends with the first that fails.
    """
    last = None
    for threshold in order:
        if not _is_rejected(*_accepted(found, num_units, threshold), level, confidence, cap):
            break
        last = threshold
    return last


def order_of_tests(found: Units, num_units: int, level: float, cap: int, most: int = 50) -> list[float]:
    """Choose the scores to test on other data, from the most promising downward."""
    if not len(found.score):
        return []
    scores = np.unique(np.quantile(found.score, np.linspace(0, 1, most), method="nearest"))
    counts = [_accepted(found, num_units, score) for score in scores]
    growth = [log_evidence(_losses(*each, level, cap), cap * (1 - level)) for each in counts]
    return scores[int(np.argmax(growth)) :: -1].tolist()


def reachable_level(missed: np.ndarray, size: np.ndarray, confidence: float, cap: int) -> float:
    """Find the lowest level that these errors of units, of so many each, (U,), allow to promise; 1 where none does."""
    low, high = 0.0, 1.0
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_rejected(missed, size, middle, confidence, cap) else (middle, high)
    return high


def risk_controlling_threshold(probability: np.ndarray, unit: np.ndarray, num_units: int, level: float) -> float | None:
    """Find the largest probability such that at most `level` of what is true has less, in expectation; None where the
    smallest above 0 will not do.

    Conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, ICLR 2024): with R the mean loss of the n
    units, a monotone loss of at most 1 is at most `level` in a new unit where n/(n+1)·R + 1/(n+1) is. With one true
    thing in each unit this is split conformal prediction (Vovk, Gammerman and Shafer, 2005; Angelopoulos and Bates,
    "A gentle introduction to conformal prediction", 2021).
    """
    size = np.maximum(np.bincount(unit, minlength=num_units), 1)
    last = None
    for threshold in np.unique(probability[probability > 0]):
        lost = np.bincount(unit[probability < threshold], minlength=num_units) / size
        if (lost.sum() + 1) / (num_units + 1) > level:
            break
        last = float(threshold)
    return last


def _accepted(found: Units, num_units: int, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Count the errors and all of what is accepted, by unit."""
    is_accepted = found.score >= threshold
    wrong = np.bincount(found.unit[is_accepted & found.is_wrong], minlength=num_units)
    return wrong, np.bincount(found.unit[is_accepted], minlength=num_units)


def _losses(wrong: np.ndarray, size: np.ndarray, level: float, cap: int) -> np.ndarray:
    return (wrong - level * size) * np.minimum(1.0, cap / np.maximum(size, 1))


def _is_rejected(wrong: np.ndarray, size: np.ndarray, level: float, confidence: float, cap: int) -> bool:
    """Whether the hypothesis that more than `level` is wrong can be given up."""
    if not 0 < level < 1:
        return level >= 1
    return log_evidence(_losses(wrong, size, level, cap), cap * (1 - level)) >= -np.log1p(-confidence)
