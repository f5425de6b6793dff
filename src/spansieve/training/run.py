"""A run from start to end: train, choose, test, and write a folder with all of it, the model card too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from spansieve import __version__
from spansieve.config import Config, to_dict
from spansieve.data.example import Example, check_known
from spansieve.evaluation.plots import can_draw, draw_curves
from spansieve.evaluation.scores import evaluate
from spansieve.models.heads import head_class
from spansieve.models.storage import CARD, encoder_name, load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.atomic import write_durably
from spansieve.training.callbacks import DataCounts, Observer
from spansieve.training.run_folder import CURVES, MODEL, RESULTS, RUN, about_run, check_folder, dotted, locked, on_disk
from spansieve.training.teacher import Teacher
from spansieve.training.trainer import Progress, Trainer
from spansieve.training.warm_start import Start

TRACKERS = ("tensorboard", "wandb")


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run."""

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
    before_step: Callable[[int, Tagger], None] | None = None,
    start_from: str | Path | None = None,
    teacher: Teacher | None = None,
) -> TrainingResult:
    """Train, and keep the best model on dev in `folder/model`. With `resume`, a run that was interrupted goes on; where
    there is none in the folder, it starts.

    `before_step` is given the number of steps so far and the model as it then is; it may use torch's random
    numbers, but it must leave the weights alone. `start_from` is the folder of a model whose weights are the first:
    those of its encoder, and of its head for the labels that both have; a run is resumed with the same one. With a
    `teacher`, the model learns from its distributions beside gold, and from them alone where nothing is known.
    """
    folder = Path(folder)
    head_class(config.model.head)  # which raises before anything is read or written
    _check_data(train_examples, dev_examples)
    if teacher is not None:
        config = teacher.student_config(config)
        teacher.check_data(train_examples)
    check_known(test_examples or (), "test data")
    check_trackers(trackers)
    state = PartialState(cpu=use_cpu)
    start = None if start_from is None else Start.read(start_from)
    taught = None if teacher is None else teacher.about()
    about = about_run(config, train_examples, dev_examples, state.num_processes, start and start.name, taught)
    with locked(folder) if state.is_main_process else nullcontext():
        check_folder(folder, about, resume)
        # Whatever is wrong with the settings shows here, before there is a run to resume.
        own = (observer or Observer(), trackers, use_cpu, before_step, start, teacher)
        trainer = Trainer(config, train_examples, dev_examples, folder, *own)
        state.wait_for_everyone()
        if state.is_main_process:
            with on_disk(folder):
                write_durably(folder / RUN, json.dumps(about, indent=2) + "\n")
        state.wait_for_everyone()
        if trackers:
            trainer.accelerator.init_trackers("spansieve", config=dotted(to_dict(config)))
        result = _result(config, trainer, trainer.run(resume), test_examples)
        if state.is_main_process:
            with on_disk(folder):
                _write(result, folder)
    return result


def _result(
    config: Config, trainer: Trainer, progress: Progress, test_examples: Sequence[Example] | None
) -> TrainingResult:
    """Score the best model, which training has left in its folder."""
    tagger = load_model(trainer.folder / MODEL, trainer.accelerator.device)
    return TrainingResult(
        config=config,
        counts=trainer.counts,
        history=progress.history,
        best_epoch=progress.best_epoch,
        dev=_scores(tagger, trainer.dev_examples),
        test=None if test_examples is None else _scores(tagger, test_examples),
        seconds=progress.seconds,
        model=trainer.folder / MODEL,
    )


def check_trackers(trackers: Sequence[str]) -> None:
    for name in trackers:
        if name not in TRACKERS:
            raise ValueError(f"tracker must be one of {', '.join(TRACKERS)}, got {name!r}")
        if find_spec(name) is None:
            raise ValueError(f"tracker {name} needs its package: pip install {name}")


def _check_data(train_examples: Sequence[Example], dev_examples: Sequence[Example]) -> None:
    for name, examples in (("training data", train_examples), ("dev data", dev_examples)):
        if not any(len(example) for example in examples):
            raise ValueError(f"{name} must have at least one sentence with a token, got {len(examples)} sentences")
        if not any(example.segments for example in examples):
            raise ValueError(f"{name} must have at least one entity, got {len(examples)} sentences with none")
    check_known(dev_examples, "dev data")


def _write(result: TrainingResult, folder: Path) -> None:
    write_durably(folder / RESULTS, json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n")
    write_durably(folder / MODEL / CARD, model_card(result))
    if can_draw():
        draw_curves(result.history, folder / CURVES)


def _scores(tagger: Tagger, examples: Sequence[Example]) -> dict[str, Any]:
    predictions = predict_segments(tagger, [example.tokens for example in examples])
    gold, lengths = [example.segments for example in examples], [len(example) for example in examples]
    return evaluate(gold, [prediction.segments for prediction in predictions], lengths).to_dict()


def model_card(result: TrainingResult) -> str:
    model, counts = result.config.model, result.counts
    took = f"{result.seconds / 60:.0f} minutes" if result.seconds > 100 else f"{result.seconds:.0f} seconds"
    limit = "" if counts.max_width is None else f", in segments of at most {counts.max_width} tokens"
    lines = [
        "---",
        "library_name: spansieve",
        "pipeline_tag: token-classification",
        "---",
        f"# Entities by {model.head} on the {encoder_name(model)} encoder",
        "",
        f"Finds {', '.join(counts.labels)} in text{limit}.",
        f"Trained on {counts.sentences:,} sentences with {counts.entities:,} entities in {took}; "
        f"epoch {result.best_epoch} of {len(result.history)} was the best on dev.",
        "",
        "```python",
        "import spansieve",
        "",
        'tagger = spansieve.load("path/to/this/folder")',
        'print(tagger.predict("…"))',
        "```",
        "",
        "## Scores",
        "",
        "Exact match: a segment counts when its borders and its label are right.",
        "",
        *_table(result.dev, "dev"),
    ]
    if result.test is not None:
        lines += ["", *_table(result.test, "test")]
    return "\n".join(lines) + "\n"


def _table(scores: dict[str, Any], split: str) -> list[str]:
    def row(name: str, values: dict[str, Any]) -> str:
        numbers = " | ".join(f"{100 * values[key]:.2f}" for key in ("precision", "recall", "f1"))
        name = name.replace("|", "\\|")
        return f"| {name} | {numbers} | {values['gold']} |"

    rows = [row(label, values) for label, values in scores["by_label"].items()]
    return [
        f"| {split} | precision | recall | F1 | gold |",
        "|---|---|---|---|---|",
        *rows,
        row("**all**", scores["micro"]),
    ]
