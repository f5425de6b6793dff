"""Promises on new text, made on labelled text: no torch here.

Three of them. With the confidence that is asked for, (a) at most a share of the gold entity tokens is left uncovered,
overall and of each label, or (b) the entities that are accepted have at least a precision; and (c), in expectation, a
set of segmentations of a sentence holds the true one. They hold for text that is drawn as the labelled text was, by
documents where it has those; see `evaluation/calibration.py` for the methods, with their references.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from spansieve.data.example import Example, check_known
from spansieve.decoding.coverage import covering_scores, tokens_inside
from spansieve.decoding.prediction import KBest, Prediction, Wanted
from spansieve.evaluation.calibration import (
    Units,
    accepting_threshold,
    covering_threshold,
    fitted_units,
    order_of_tests,
    reachable_level,
    risk_controlling_threshold,
)
from spansieve.prediction.promises import GuaranteeError, Promise
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.segments import NamedSegment

BELOW = 1 - 1e-4  # thresholds are lowered by this, since another device may round otherwise
SET_SIZE = 20  # segmentations of a sentence that are looked at


def calibrate(
    predictor: TextPredictor,
    examples: Sequence[Example],
    *,
    miss: float | None = None,
    precision: float | None = None,
    sets: float | None = None,
    confidence: float = 0.95,
    margin: float = 0.0,
) -> list[Promise]:
    """Make the promises that are asked for. Raises GuaranteeError where the data, or what the filter left out, does not
    allow one, with the level that it would allow.

    `miss` is the share of gold entity tokens that may be left uncovered, `precision` that of accepted entities which
    must be right, `sets` how often a set of segmentations must hold the true one. With a `margin` the filter keeps more
    than it does in prediction, and infinity keeps all spans; predictions under the promise then do the same.
    """
    asked = {"miss": miss, "precision": precision, "sets": sets, "confidence": confidence}
    for name, value in asked.items():
        if value is not None and not 0 < value < 1:
            raise GuaranteeError(f"{name} must lie between 0 and 1, got {value}")
    if miss is precision is sets is None:
        raise GuaranteeError("at least one of miss, precision and sets must be given, got none")
    if predictor.objective != "probability":
        raise GuaranteeError(f"objective must be probability, as a promise decides itself, got {predictor.objective}")
    check_known(examples, "data")
    data = _Labelled.of(predictor, examples)
    promises = []
    if miss is not None:
        promises.append(_miss_promise(predictor, data, miss, confidence, margin))
    if precision is not None:
        promises.append(_precision_promise(predictor, data, precision, confidence))
    if sets is not None:
        promises.append(_set_promise(predictor, data, sets))
    return promises


class _Labelled(NamedTuple):
    """Sentences with the gold that the model has labels for, and the unit that each is of."""

    sentences: list[tuple[str, ...]]
    gold: list[list[NamedSegment]]
    unit: np.ndarray  # (sentences,)
    is_fitted: np.ndarray  # (units,): those that give no promise
    name: Literal["document", "sentence"]

    @classmethod
    def of(cls, predictor: TextPredictor, examples: Sequence[Example]) -> _Labelled:
        has_documents = all(example.document is not None for example in examples)
        names = [example.document if has_documents else i for i, example in enumerate(examples)]
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
        is_fitted = fitted_units(len(number))
        gold = [[s for s in example.segments if s.label in predictor.labels] for example in examples]
        if not any(gold):
            theirs = ", ".join(sorted({s.label for example in examples for s in example.segments})) or "none"
            raise GuaranteeError(f"data must have labels of the model, {', '.join(predictor.labels)}, got {theirs}")
        unit = np.array([number[name] for name in names], np.int64)
        return cls([e.tokens for e in examples], gold, unit, is_fitted, "document" if has_documents else "sentence")

    @property
    def about(self) -> dict[str, Any]:
        return {"unit": self.name, "units": int((~self.is_fitted).sum()), "made": date.today().isoformat()}


# ---- (a) What is left uncovered --------------------------------------------------------------------------------------


def _miss_promise(predictor: TextPredictor, data: _Labelled, level: float, confidence: float, margin: float) -> Promise:
    covered = predictor.cover_tokens(data.sentences, margin)
    num_units = len(data.is_fitted)

    def threshold_of(label: str | None) -> tuple[float | None, Units, int]:
        """The threshold of a label, or of all; what gives the promise; and its cap."""
        score, is_gold, unit = _scored_tokens(covered, data, predictor.labels, label)
        gold = Units(score[is_gold], unit[is_gold], np.ones(is_gold.sum(), bool))
        fitted, given = gold.halves(data.is_fitted)
        cap = fitted.cap()
        return covering_threshold(given, num_units, level, confidence, cap), given, cap

    threshold, given, cap = threshold_of(None)
    if threshold is None:
        raise _missing(predictor, data, given, level, confidence, cap, margin)
    by_label, refused = {}, {}
    for label in predictor.labels:
        found, own, own_cap = threshold_of(label)
        if found is None:
            refused[label] = _reachable(own, num_units, confidence, own_cap)
        else:
            by_label[label] = found * BELOW
    threshold *= BELOW
    score, is_gold, _ = _scored_tokens(covered, data, predictor.labels, None)
    return Promise(
        "miss",
        level,
        confidence,
        threshold,
        by_label,
        refused,
        margin,
        predictor.probability,
        counted=len(given.score),
        cap=cap,
        cost=float((score[~is_gold] >= threshold).mean()) if not is_gold.all() else 0.0,
        **data.about,
    )


def _scored_tokens(
    covered: Sequence[Prediction], data: _Labelled, labels: Sequence[str], label: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The score by which each token is covered as of a label, or of any; whether it is so in gold; its unit."""
    scores, is_gold = [], []
    for prediction, gold in zip(covered, data.gold):
        coverage = cast(np.ndarray, prediction.coverage)
        scores.append(covering_scores(coverage, prediction.segments, labels, label))
        is_gold.append(tokens_inside(gold, len(coverage), label))
    return np.concatenate(scores), np.concatenate(is_gold), np.repeat(data.unit, list(map(len, scores)))


def _reachable(gold: Units, num_units: int, confidence: float, cap: int) -> float:
    missed = np.bincount(gold.unit[gold.score <= 0], minlength=num_units)
    return reachable_level(missed, np.bincount(gold.unit, minlength=num_units), confidence, cap)


def _missing(
    predictor: TextPredictor, data: _Labelled, gold: Units, level: float, confidence: float, cap: int, margin: float
) -> GuaranteeError:
    """What could be promised in place of the level, and how to get to it."""
    without = gold._replace(score=np.ones_like(gold.score))
    by_data, by_both = (_reachable(one, len(data.is_fitted), confidence, cap) for one in (without, gold))
    dropped = float((gold.score <= 0).mean()) if len(gold.score) else 0.0
    settings, ways = predictor.decoder_settings, []
    if settings.filters and dropped > level / 2 and margin < math.inf:
        wider = "--margin 4 keeps more"
        if settings.kind == "filtered":
            wider = "--margin inf keeps all spans" if settings.skip else "train with model.skip=true and a margin"
        ways.append(f"the filter left out {dropped:.2%} of the gold tokens: {wider}")
    if by_data > level:
        times = math.ceil(by_data / level)
        ways.append(f"{len(gold.score):,} gold tokens are too few: about {times} times as many {data.name}s are needed")
    can = f"{_rounded_up(by_both):g} can be promised" if by_both < 1 else "nothing can be promised"
    reached = f"miss must be larger for this data, got {level:g}: with confidence {confidence:g}, {can}"
    return GuaranteeError("; ".join([reached, *(ways or ["more labelled text allows less"])]))


def _rounded_up(level: float) -> float:
    """Two digits, and never less.

    >>> _rounded_up(0.0201), _rounded_up(0.5)
    (0.021, 0.5)
    """
    digits = 1 - math.floor(math.log10(level))
    return math.ceil(round(level * 10**digits, 6)) / 10**digits


# ---- (b) The precision of what is accepted ---------------------------------------------------------------------------


def _precision_promise(predictor: TextPredictor, data: _Labelled, precision: float, confidence: float) -> Promise:
    predictions = predictor.predict_tokens(data.sentences, True)
    right = [[s in gold for s in one.segments] for one, gold in zip(predictions, map(set, data.gold))]
    found = Units(
        np.array([p for one in predictions for p in one.probabilities or ()], np.float64),
        np.repeat(data.unit, list(map(len, right))),
        ~np.array([one for own in right for one in own], bool),
    )
    num_units = len(data.is_fitted)
    fitted, given = found.halves(data.is_fitted)
    level, cap = 1 - precision, fitted.cap()
    order = [BELOW * threshold for threshold in order_of_tests(fitted, num_units, level, cap)]
    threshold = accepting_threshold(given, num_units, level, confidence, cap, order)
    if threshold is None:
        raise _too_wrong(given, num_units, order, precision, confidence, cap)
    is_lost = (found.score < threshold) & ~found.is_wrong
    return Promise(
        "precision",
        precision,
        confidence,
        threshold,
        probability=predictor.probability,
        counted=len(given.score),
        cap=cap,
        cost=float(is_lost.sum() / max(1, (~found.is_wrong).sum())),
        **data.about,
    )


def _too_wrong(
    found: Units, num_units: int, order: Sequence[float], precision: float, confidence: float, cap: int
) -> GuaranteeError:
    start = order[0] if order else 1.0
    is_accepted = found.score >= start
    wrong = np.bincount(found.unit[is_accepted & found.is_wrong], minlength=num_units)
    level = reachable_level(wrong, np.bincount(found.unit[is_accepted], minlength=num_units), confidence, cap)
    reached = f"{1 - _rounded_up(level):g} can be promised" if level < 1 else "no precision can be promised"
    share = float((is_accepted & found.is_wrong).sum() / max(1, is_accepted.sum()))
    why = f"of {int(is_accepted.sum()):,} entities with a probability of at least {start:.3g}, {share:.2%} are wrong"
    return GuaranteeError(
        f"precision must be lower for this data, got {precision:g}: with confidence {confidence:g}, {reached}; {why}; "
        "more labelled text, or a better model, allows more"
    )


# ---- (c) Sets of segmentations ---------------------------------------------------------------------------------------


def _set_promise(predictor: TextPredictor, data: _Labelled, level: float) -> Promise:
    if not predictor.can_explain:
        raise GuaranteeError("sets of segmentations need the model itself, got an export")
    wanted = [Wanted(SET_SIZE)] * len(data.sentences)
    explanations = predictor.explain_tokens(data.sentences, wanted)
    of_gold = [
        max((p for segments, p in explanation.k_best if set(segments) == set(gold)), default=0.0)
        for explanation, gold in zip(explanations, data.gold)
    ]
    probability = np.array(of_gold)
    is_given = ~data.is_fitted[data.unit]
    units = np.unique(data.unit[is_given], return_inverse=True)[1]
    threshold = risk_controlling_threshold(probability[is_given], units, int(units.max()) + 1, 1 - level)
    if threshold is None:
        best = float((probability[is_given] > 0).mean())
        raise GuaranteeError(
            f"sets must be lower for this data, got {level:g}: the {SET_SIZE} best segmentations hold the true one of "
            f"{best:.1%} of the sentences"
        )
    threshold *= BELOW
    sizes = [sum(p >= threshold for _, p in explanation.k_best) for explanation in explanations]
    return Promise("set", level, None, threshold, counted=len(units), cost=float(np.mean(sizes)), **data.about)


def sets_of(predictor: TextPredictor, sentences: Sequence[Sequence[str]], promise: Promise) -> list[list[KBest]]:
    """The smallest set of segmentations of each sentence of tokens that keeps the promise: all that are at least as
    probable as its threshold (Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers", 2019), best first,
    as `KBest`. A set may be empty where the model is sure of nothing."""
    if promise.kind != "set":
        raise GuaranteeError(f"promise must be one of sets, got {promise.name}")
    explained = predictor.explain_tokens(sentences, [Wanted(SET_SIZE)] * len(sentences))
    return [[one for one in explanation.k_best if one.probability >= promise.threshold] for explanation in explained]
