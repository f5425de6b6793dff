"""Runs so small that they take half a second: a few sentences, an encoder of a few numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spansieve.config import Config, with_settings
from spansieve.data.example import Example
from spansieve.training.run import TrainingResult, train

PEOPLE, PLACES = ("Ada", "Bob Stone", "Chen"), ("Paris", "New York", "Rome")
SMALL = {
    "model.features": "endpoints-content",
    "model.hidden_size": 16,
    "model.beta": 1.0,
    "model.dropout": 0.1,
    "model.builtin.rows": 64,
    "model.builtin.feature_size": 8,
    "model.builtin.size": 16,
    "model.builtin.dropout": 0.1,
    "model.builtin.word_dropout": 0.1,
    "training.epochs": 3,
    "training.batch_size": 3,
    "training.learning_rate": 0.05,
    "training.checkpoint_seconds": 1e9,
}
# Without chance in the forward pass: what is left to differ is how a step is divided.
STILL = {"model__dropout": 0.0, "model__builtin__dropout": 0.0, "model__builtin__word_dropout": 0.0}


def example(person: str, verb: str, place: str) -> Example:
    tokens = [*person.split(), verb, "in", *place.split(), "."]
    width, after = len(person.split()), len(person.split()) + 2
    return Example.of(tokens, [(0, width, "PER"), (after, after + len(place.split()), "LOC")])


TRAIN = [example(person, verb, place) for person in PEOPLE for verb in ("lives", "works") for place in PLACES]
DEV = [example(person, "was", place) for person in PEOPLE for place in PLACES]


def config(**settings: Any) -> Config:
    """The small one; `training__seed=3` sets training.seed."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return with_settings(Config(), SMALL | named)


def run(folder: Path, resume: bool = False, **settings: Any) -> TrainingResult:
    return train(config(**settings), TRAIN, DEV, folder, resume=resume, use_cpu=True)


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def newest(folder: Path) -> dict[str, bytes]:
    """The tensors of the newest checkpoint, file by file."""
    place = max((folder / "checkpoints").glob("step-*"))
    return {path.name: path.read_bytes() for path in sorted(place.glob("*.safetensors"))}


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in history]


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that must not depend on whether a run was interrupted."""
    results = json.loads((folder / "results.json").read_text())
    results.pop("seconds")
    return {
        "weights": weights(folder),
        "checkpoint": newest(folder),
        "results": results | {"history": timeless(results["history"])},
        "config": (folder / "model" / "config.json").read_bytes(),
    }
