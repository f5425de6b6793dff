"""The guarantee of a model, in a file beside it: no torch here.

guarantee.json   the promises, each with the data it was made on, and which model they are of
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from spansieve.decoding.coverage import Decision, thresholds_of
from spansieve.decoding.prediction import Probability
from spansieve.persistence.atomic import SEAL, is_sealed, sealed, write_durably
from spansieve.persistence.manifest import Manifest, ModelError, read_object

GUARANTEE = "guarantee.json"
MANIFEST = Manifest("spansieve guarantee", 1, GUARANTEE, "spansieve calibrate")
Kind = Literal["miss", "precision", "set"]


class GuaranteeError(ValueError):
    """A promise cannot be made, or there is none of this kind; the message says what could be promised, and how."""


@dataclass(frozen=True)
class Promise:
    """A promise: what is taken of a text so that it holds, and the data it was made on."""

    kind: Kind
    level: float  # the share that is missed at most; of the others the precision, or the probability of the set
    confidence: float | None  # over the draw of the labelled data; None: in expectation over it
    threshold: float
    label_thresholds: dict[str, float] = field(default_factory=dict)  # of labels alone, each with its own promise
    label_levels: dict[str, float] = field(default_factory=dict)  # of labels without one: what could be promised
    margin: float = 0.0  # by which the filter keeps more than it does in prediction
    probability: Probability = "given-candidates"  # which is compared with the threshold
    unit: Literal["document", "sentence"] = "sentence"
    units: int = 0  # that gave the promise
    counted: int = 0  # gold tokens in them, or entities that were predicted, or sentences
    cap: int = 1  # a unit in which more of them are counts as one with so many
    cost: float = 0.0  # of other tokens the share that is covered; of right entities that is lost; the mean set's size
    made: str = ""  # the date

    @property
    def name(self) -> str:
        """The name by which `--guarantee` asks for it, such as miss=0.01."""
        return f"{self.kind}={self.level:g}"

    def describe(self) -> str:
        """Say what is promised, and on which data."""
        sure = "in expectation" if self.confidence is None else f"with confidence {self.confidence:g}"
        what = {
            "miss": f"at most {100 * self.level:g} % of the entity tokens are left uncovered",
            "precision": f"at least {100 * self.level:g} % of the entities are right",
            "set": f"sets of segmentations hold the true one of {100 * self.level:g} % of the sentences",
        }[self.kind]
        return f"{self.name}: {what}, {sure}, on text like that of {self.units:,} {self.unit}s ({self.made})"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "margin": "inf" if self.margin == math.inf else self.margin}

    def shown(self) -> dict[str, Any]:
        """The part of it that goes with an output."""
        return {"promise": self.kind, "level": self.level, "confidence": self.confidence, "made": self.made}

    def decision(self, labels: Sequence[str]) -> Decision:
        """What is decoded under it: the tokens that are covered, or the entities that are accepted."""
        if self.kind == "precision":
            return Decision(accept=self.threshold)
        return Decision(cover=thresholds_of(self.threshold, labels), margin=self.margin)

    def check(self, probability: Probability) -> None:
        """Check that a predictor with these probabilities computes what the promise was made on."""
        if self.kind == "set":
            raise GuaranteeError(
                "a guarantee must be miss or precision here, got set, for which there is `guarantees.sets_of`"
            )
        if self.kind == "precision" and probability != self.probability:
            raise GuaranteeError(
                f"probability must be {self.probability}, by which the promise was made, got {probability}"
            )


# ---- Beside the model ------------------------------------------------------------------------------------------------


def write_promises(folder: Path, promises: Sequence[Promise]) -> None:
    """Write promises beside a model, or an export of one; those of the same names that were there are replaced, and
    all of them where they are damaged or of another model."""
    names = {promise.name for promise in promises}
    try:
        kept = [one for one in read_promises(folder) if one.name not in names]
    except ModelError:
        kept = []
    about = {"format": MANIFEST.format, "version": MANIFEST.version, "model": model_print(folder)}
    values = sealed({**about, "promises": [promise.to_dict() for promise in (*kept, *promises)]})
    write_durably(folder / GUARANTEE, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_promises(folder: Path) -> list[Promise]:
    """Read the promises beside a model. Raises ModelError where they are damaged, or those of another model."""
    path = folder / GUARANTEE
    about = MANIFEST.read(folder)
    if about.get("model") != model_print(folder):
        raise ModelError(f"{path} is the guarantee of another model: make one with `spansieve calibrate {folder}`")
    try:
        return [_promise(values) for values in about["promises"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path} says what this version of spansieve does not know: {error}") from error


def _promise(values: Mapping[str, Any]) -> Promise:
    known = {one.name for one in fields(Promise)}
    if unknown := values.keys() - known:
        raise ValueError(f"unknown {sorted(unknown)[0]!r}")
    promise = Promise(**{**values, "margin": float(values["margin"])})
    numbers = [promise.threshold, *promise.label_thresholds.values(), *promise.label_levels.values()]
    shares = [promise.level, 0.5 if promise.confidence is None else promise.confidence]
    is_right = promise.kind in get_args(Kind) and promise.margin >= 0 and isinstance(promise.made, str)
    if not is_right or not all(0 < one <= 1 for one in numbers) or not all(0 < one < 1 for one in shares):
        raise ValueError(f"kind, level, confidence or thresholds of {promise.kind!r:.20}={promise.level!r:.20}")
    return promise


def model_print(folder: Path) -> str:
    """The seal of a model's manifest, or an export's, which changes with any of its files."""
    for name in ("config.json", "manifest.json"):
        if (folder / name).is_file():
            about = read_object(folder / name)
            if is_sealed(about):
                return str(about[SEAL])
    raise ModelError(f"a model must be a folder with a config.json, as `spansieve train` writes it, got {folder}")


def promise_for(folder: Path, name: str) -> Promise:
    """Look up a promise by what `--guarantee` names, such as miss=0.01; the level can be left out where there is one of
    the kind."""
    kind, sign, level = name.partition("=")
    try:
        is_right = kind in get_args(Kind) and (not sign or 0 < float(level) < 1)
    except ValueError:
        is_right = False
    if not is_right:
        raise GuaranteeError(f"a guarantee must look like miss=0.01 or precision=0.95, got {name!r}")
    if not (folder / GUARANTEE).is_file():
        how = f"spansieve calibrate {folder} labelled.conll --{kind} {level or 0.01}"
        raise GuaranteeError(f"{folder} has no {GUARANTEE}: make one with `{how}`")
    promises = read_promises(folder)
    found = [one for one in promises if one.kind == kind and (not sign or math.isclose(one.level, float(level)))]
    if len(found) != 1:
        there = ", ".join(one.name for one in promises)
        raise GuaranteeError(f"a guarantee must be one of {there}, got {name!r}")
    return found[0]
