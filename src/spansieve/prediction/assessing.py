"""A model against labelled text: scores, how sure they are, and how far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spansieve.data.example import Example, check_known
from spansieve.evaluation.calibration import Calibration, Threshold, calibrate, outcomes, threshold_for
from spansieve.evaluation.intervals import Intervals, bootstrap
from spansieve.evaluation.scores import Scores, evaluate
from spansieve.prediction.predictor import Predictor


@dataclass(frozen=True)
class Assessment:
    scores: Scores
    intervals: Intervals
    calibration: Calibration
    threshold: Threshold | None  # for the precision that was asked for, where one will do
    unknown_labels: tuple[str, ...]  # gold has them, the model does not

    def to_dict(self) -> dict[str, Any]:
        return {
            "scores": self.scores.to_dict(),
            "intervals": self.intervals.to_dict(),
            "calibration": self.calibration.to_dict(),
            "threshold": None if self.threshold is None else self.threshold.to_dict(),
            "unknown_labels": list(self.unknown_labels),
        }


def assess(
    predictor: Predictor, examples: Sequence[Example], seed: int = 0, precision: float | None = None
) -> Assessment:
    """With `precision`, also the probability from which on predictions are that precise."""
    check_known(examples, "data")
    gold = [example.segments for example in examples]
    found = predictor.predict_tokens([example.tokens for example in examples], probabilities=True)
    predicted = [one.segments for one in found]
    unknown = {segment.label for segments in gold for segment in segments} - set(predictor.labels)
    scores = evaluate(gold, predicted, [len(example) for example in examples])
    outcome = outcomes(gold, predicted, [one.probabilities or [] for one in found])
    return Assessment(
        scores=scores,
        intervals=bootstrap(gold, predicted, seed=seed),
        calibration=calibrate(*outcome),
        threshold=None if precision is None else threshold_for(precision, *outcome, num_gold=scores.micro.gold),
        unknown_labels=tuple(sorted(unknown)),
    )
