"""A run from start to end: train, choose, test, and leave a folder that tells all of it.

run.json       configuration and fingerprint of the data: what --resume goes on with
checkpoints/   where training stands
model/         the best on dev: what `spansieve predict` takes
results.json   configuration, history, scores
curves.png     loss and dev scores over the epochs
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from spansieve import __version__
from spansieve.config import Config, to_dict
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.models.predicting import predict_segments
from spansieve.models.storage import load_model, with_card, write_durably
from spansieve.training.card import model_card
from spansieve.training.curves import draw_curves
from spansieve.training.loop import CHECKPOINTS, MODEL, Trainer, TrainingError
from spansieve.training.reports import DataCounts, Observer, Silent

RUN, RESULTS, CURVES = "run.json", "results.json", "curves.png"


@dataclass(frozen=True)
class TrainingResult:
    """What a run reached."""

    config: Config
    counts: DataCounts
    history: list[dict[str, Any]]  # one entry per epoch
    best_epoch: int
    dev: dict[str, Any]  # all scores of the best model
    test: dict[str, Any] | None
    seconds: float  # of training
    model: Path
    versions: dict[str, str] = field(default_factory=lambda: {"spansieve": __version__, "torch": torch.__version__})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"model": self.model.name}


def train(
    config: Config,
    train_examples: Sequence[Example],
    dev_examples: Sequence[Example],
    folder: str | Path,
    *,
    test_examples: Sequence[Example] | None = None,
    resume: bool = False,
    observer: Observer | None = None,
    trackers: Sequence[str] = (),
    use_cpu: bool = False,
) -> TrainingResult:
    """The best model on dev, in `folder/model`. With `resume`, a run that was interrupted goes on; where there is none
    in the folder, it starts."""
    folder = Path(folder)
    _check_data(train_examples, dev_examples)
    state = PartialState(cpu=use_cpu)
    about = {"config": to_dict(config), "data": _fingerprint(train_examples, dev_examples), "format": 1}
    _open_folder(folder, about, resume, state)
    trainer = Trainer(config, train_examples, dev_examples, folder, observer or Silent(), trackers, use_cpu)
    if trackers:
        trainer.accelerator.init_trackers("spansieve", config=_flat(to_dict(config)))
    progress = trainer.run(resume)
    tagger = load_model(folder / MODEL, trainer.accelerator.device)
    result = TrainingResult(
        config=config,
        counts=trainer.counts,
        history=progress.history,
        best_epoch=progress.best_epoch,
        dev=_scores(tagger, dev_examples),
        test=None if test_examples is None else _scores(tagger, test_examples),
        seconds=progress.seconds,
        model=folder / MODEL,
    )
    if state.is_main_process:
        write_durably(folder / RESULTS, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
        with_card(folder / MODEL, model_card(result))
        draw_curves(progress.history, folder / CURVES)
    return result


def _check_data(train_examples: Sequence[Example], dev_examples: Sequence[Example]) -> None:
    for name, examples in (("training data", train_examples), ("dev data", dev_examples)):
        if not any(len(example) for example in examples):
            raise ValueError(f"{name} must have at least one sentence with a token, got {len(examples)} sentences")


def _open_folder(folder: Path, about: dict[str, Any], resume: bool, state: PartialState) -> None:
    path = folder / RUN
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if not resume:
            raise TrainingError(f"{folder} already holds a run: go on with --resume, or choose another folder")
        if known["config"] != about["config"]:
            changed = ", ".join(sorted(_differing(_flat(known["config"]), _flat(about["config"]))))
            raise TrainingError(f"{folder} holds a run with other settings ({changed}): resume needs the same ones")
        if known["data"] != about["data"]:
            raise TrainingError(f"{folder} holds a run on other data: resume needs the same")
    elif (folder / CHECKPOINTS).exists() or (folder / MODEL).exists():
        raise TrainingError(f"{folder} is not empty and holds no run of ours: choose another folder")
    state.wait_for_everyone()
    if state.is_main_process:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(path, json.dumps(about, indent=2) + "\n")
    state.wait_for_everyone()


def _fingerprint(*splits: Sequence[Example]) -> list[str]:
    """Equal when the sentences and their gold are."""
    answers = []
    for examples in splits:
        digest = hashlib.sha256()
        for example in examples:
            digest.update(json.dumps([example.tokens, example.segments]).encode())
        answers.append(digest.hexdigest())
    return answers


def _scores(tagger, examples: Sequence[Example]) -> dict[str, Any]:
    found = predict_segments(tagger, [example.tokens for example in examples])
    lengths = [len(example) for example in examples]
    return evaluate([example.segments for example in examples], [one.segments for one in found], lengths).to_dict()


def _flat(settings: dict[str, Any], where: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{where}{name}.") if isinstance(value, dict) else {f"{where}{name}": value}
    return {name: "none" if value is None else value for name, value in found.items()}


def _differing(left: dict[str, Any], right: dict[str, Any]) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}
