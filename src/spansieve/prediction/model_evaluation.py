"""A model against labelled text: scores, how sure they are, what kinds of errors there are, where gold is lost, and how
far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spansieve.data.example import Example, check_known
from spansieve.decoding.prediction import Prediction
from spansieve.evaluation.calibration import Calibration, Threshold, calibrate, nearest_threshold, outcomes
from spansieve.evaluation.error_types import ErrorAnalysis, analyse_errors
from spansieve.evaluation.scores import Scores, evaluate, evaluate_levels
from spansieve.evaluation.significance import Intervals, bootstrap
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.segments import NamedSegment

if TYPE_CHECKING:
    from spansieve.prediction.predictor import GoldOutcomes


@dataclass(frozen=True)
class Assessment:
    scores: Scores
    intervals: Intervals
    calibration: Calibration
    errors: ErrorAnalysis
    predictions: tuple[Prediction, ...]  # one per sentence
    precision: float | None  # what was asked for
    threshold: Threshold | None  # for that precision, or for the highest that can be reached
    label_thresholds: dict[str, Threshold]  # the same of each label that was predicted, alone
    unknown_labels: tuple[str, ...]  # gold has them, the model does not
    gold_outcomes: GoldOutcomes | None  # under a model that filters, run by torch
    levels: dict[str, Scores] | None  # outer and inner, where something is nested

    def to_dict(self) -> dict[str, Any]:
        """All but the predictions."""
        return {
            **{name: getattr(self, name).to_dict() for name in ("scores", "intervals", "calibration", "errors")},
            "precision": self.precision,
            "threshold": self.threshold and self.threshold.to_dict(),
            "label_thresholds": {label: found.to_dict() for label, found in self.label_thresholds.items()},
            "unknown_labels": list(self.unknown_labels),
            "gold_outcomes": self.gold_outcomes and self.gold_outcomes.to_dict(),
            "levels": self.levels and {name: scores.to_dict() for name, scores in self.levels.items()},
        }


def assess(
    predictor: TextPredictor, examples: Sequence[Example], seed: int = 0, precision: float | None = None
) -> Assessment:
    """Evaluate a model. With `precision`, also find the probability from which on predictions are that precise: of all
    labels together, and of each alone."""
    check_known(examples, "data")
    gold = [example.segments for example in examples]
    predictions, gold_outcomes = predictor.predict_examples(examples)
    predicted = [prediction.segments for prediction in predictions]
    unknown = {segment.label for segments in gold for segment in segments} - set(predictor.labels)
    scores = evaluate(gold, predicted, [len(example) for example in examples])
    levels = evaluate_levels(gold, predicted)
    inner = levels["inner"].micro
    probabilities = [prediction.probabilities or [] for prediction in predictions]
    outcome = outcomes(gold, predicted, probabilities)
    thresholds = {} if precision is None else _thresholds(precision, scores, predicted, *outcome)
    return Assessment(
        scores=scores,
        intervals=bootstrap(gold, predicted, seed=seed),
        calibration=calibrate(*outcome),
        errors=analyse_errors(gold, predicted, probabilities),
        predictions=tuple(predictions),
        precision=precision,
        threshold=thresholds.pop("", None),
        label_thresholds=thresholds,
        unknown_labels=tuple(sorted(unknown)),
        gold_outcomes=gold_outcomes,
        levels=levels if inner.gold + inner.predicted > 0 else None,
    )


def _thresholds(
    precision: float, scores: Scores, predicted: Sequence[Sequence[NamedSegment]], *outcome: np.ndarray
) -> dict[str, Threshold]:
    """The nearest threshold by label, that of all under ""; what was not predicted has none."""
    labels = np.array([segment.label for segments in predicted for segment in segments], object)
    thresholds = {}
    for label, counts in {"": scores.micro, **scores.by_label}.items():
        probabilities, is_correct = (part[(labels == label) | (label == "")] for part in outcome)
        threshold = nearest_threshold(precision, probabilities, is_correct, counts.gold)
        if threshold is not None:
            thresholds[label] = threshold
    return thresholds
