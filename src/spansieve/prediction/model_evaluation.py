"""A model against labelled text: scores, how sure they are, what kinds of errors there are, where gold is lost, and how
far its probabilities can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import inf
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
class ExpectedCounts:
    """What there is in a text by the model's own distribution: sums of marginals."""

    predicted: int
    right: float  # of those, expected: the sum of their probabilities
    entities: float  # in the text, expected: the sum of the marginals of all segments

    @property
    def precision(self) -> float:
        return self.right / max(1, self.predicted)

    @property
    def recall(self) -> float:
        return min(1.0, self.right / self.entities) if self.entities else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.predicted + self.entities) if self.predicted + self.entities else 0.0

    def to_dict(self) -> dict[str, float]:
        return {**asdict(self), "precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True)
class ExpectedScores:
    """The precision, recall and F1 that a model expects of itself on text without gold: ratios of expected counts,
    which are as good as its probabilities are calibrated."""

    micro: ExpectedCounts
    by_label: dict[str, ExpectedCounts]

    def to_dict(self) -> dict[str, Any]:
        return {"micro": self.micro.to_dict(), "by_label": {name: own.to_dict() for name, own in self.by_label.items()}}


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
    expected: ExpectedScores  # by the model's own probabilities, without gold

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
            "expected": self.expected.to_dict(),
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
        expected=expected_scores(predictor, [[example.tokens for example in examples]]),
    )


def expected_scores(predictor: TextPredictor, batches: Iterable[Sequence[Sequence[str]]]) -> ExpectedScores:
    """Compute the expected scores on batches of sentences that are tokens already. A filter that can is left out: what
    it dropped would count as impossible."""
    settings, labels = predictor.decoder_settings, predictor.labels
    margin = inf if settings.kind == "filtered" and settings.skip else 0.0
    predicted, right, entities = np.zeros(len(labels), np.int64), np.zeros(len(labels)), np.zeros(len(labels))
    for sentences in batches:
        for prediction in predictor.cover_tokens(sentences, margin):
            for segment, probability in zip(prediction.segments, prediction.probabilities or ()):
                index = labels.index(segment.label)
                predicted[index] += 1
                right[index] += probability
            entities += 0.0 if prediction.expected is None else prediction.expected
    by_label = {
        label: ExpectedCounts(int(predicted[i]), float(right[i]), float(entities[i])) for i, label in enumerate(labels)
    }
    return ExpectedScores(ExpectedCounts(int(predicted.sum()), float(right.sum()), float(entities.sum())), by_label)


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
