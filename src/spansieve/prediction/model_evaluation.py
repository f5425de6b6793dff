"""A model against labelled text: scores, how sure they are, where gold is lost, and how far its probabilities can be
trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spansieve.data.example import Example, check_known
from spansieve.evaluation.bootstrap_intervals import Intervals, bootstrap
from spansieve.evaluation.calibration import Calibration, Threshold, calibrate, outcomes, threshold_for
from spansieve.evaluation.scores import Scores, evaluate, evaluate_levels
from spansieve.prediction.text_predictor import TextPredictor

if TYPE_CHECKING:
    from spansieve.prediction.error_analysis import GoldOutcomes


@dataclass(frozen=True)
class Assessment:
    scores: Scores
    intervals: Intervals
    calibration: Calibration
    threshold: Threshold | None  # for the precision that was wanted, where one will do
    unknown_labels: tuple[str, ...]  # gold has them, the model does not
    gold_outcomes: GoldOutcomes | None  # under a model that filters, run by torch
    levels: dict[str, Scores] | None  # outer and inner, where something is nested

    def to_dict(self) -> dict[str, Any]:
        return {
            "scores": self.scores.to_dict(),
            "intervals": self.intervals.to_dict(),
            "calibration": self.calibration.to_dict(),
            "threshold": None if self.threshold is None else self.threshold.to_dict(),
            "unknown_labels": list(self.unknown_labels),
            "gold_outcomes": None if self.gold_outcomes is None else self.gold_outcomes.to_dict(),
            "levels": None if self.levels is None else {name: one.to_dict() for name, one in self.levels.items()},
        }


def assess(
    predictor: TextPredictor, examples: Sequence[Example], seed: int = 0, precision: float | None = None
) -> Assessment:
    """Evaluate a model. With `precision`, also find the probability from which on predictions are that precise."""
    check_known(examples, "data")
    gold = [example.segments for example in examples]
    predictions, gold_outcomes = predictor.predict_examples(examples)
    predicted = [prediction.segments for prediction in predictions]
    unknown = {segment.label for segments in gold for segment in segments} - set(predictor.labels)
    scores = evaluate(gold, predicted, [len(example) for example in examples])
    levels = evaluate_levels(gold, predicted)
    outcome = outcomes(gold, predicted, [prediction.probabilities or [] for prediction in predictions])
    return Assessment(
        scores=scores,
        intervals=bootstrap(gold, predicted, seed=seed),
        calibration=calibrate(*outcome),
        threshold=None if precision is None else threshold_for(precision, *outcome, num_gold=scores.micro.gold),
        unknown_labels=tuple(sorted(unknown)),
        gold_outcomes=gold_outcomes,
        levels=levels if _is_any(levels["inner"]) else None,
    )


def _is_any(scores: Scores) -> bool:
    return scores.micro.gold + scores.micro.predicted > 0
