"""`spansieve train` and `spansieve distil`: labelled text in, or a large model's distributions, a saved model out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from spansieve.cli import bound_threads
from spansieve.cli.inputs import read_with_warnings, records_of_files
from spansieve.cli.options import DataFormat, Model, TextColumn
from spansieve.cli.outputs import Console
from spansieve.cli.terminal import TerminalObserver, duration, score_table
from spansieve.config import (
    BUILTIN,
    Config,
    ModelConfig,
    from_dict,
    parsed_setting,
    preset,
    presets,
    read_config,
    with_settings,
)
from spansieve.models.heads import HEADS, head_class

if TYPE_CHECKING:
    from spansieve.data.example import Example
    from spansieve.training.run import TrainingResult

TrainingData = Annotated[Path, typer.Argument(help="training data: a file or folder of any format that `data` reads")]
RunFolder = Annotated[Path, typer.Option("--output", "-o", help="the run's folder; the model will be in its model/")]
ConfigSource = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml|NAME",
        help=rf"a TOML file with \[model] and \[training], or a shipped configuration: {', '.join(presets())}; "
        "builtin or pretrained if none is given; docs/reproduce.md has what in paper-… differs from the paper",
    ),
]
Encoder = Annotated[str | None, typer.Option(help="builtin, or a Hugging Face encoder's name or folder")]
Epochs = Annotated[int | None, typer.Option(help="how often the data is gone through")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="any other setting, such as training.seed=1; run.cpu=true leaves GPUs alone, run.tracker=tensorboard or "
        "wandb shows the run there, run.test=FILE scores the best model at the end",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the run in the folder, if there is one")]


@dataclass(frozen=True)
class RunSettings:
    """What `--set run.…` sets: how a run is done, which is in no configuration, since the model does not follow from
    it."""

    cpu: bool = False
    tracker: Literal["tensorboard", "wandb"] | None = None
    test: str | None = None


def train(
    train: TrainingData,
    output: RunFolder,
    dev: Annotated[
        Path | None, typer.Argument(help="development data: the best model on it is kept; or --dev-fraction")
    ] = None,
    dev_fraction: Annotated[
        float | None, typer.Option(help="take so much of the training data for development, by documents; such as 0.1")
    ] = None,
    format: DataFormat = None,
    config: ConfigSource = None,
    head: Annotated[str | None, typer.Option(help=f"one of {', '.join(HEADS)}")] = None,
    encoder: Encoder = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            help="word vectors for the built-in encoder: a GloVe, fastText or word2vec file, a spaCy pipeline or a "
            "model2vec folder"
        ),
    ] = None,
    max_vectors: Annotated[int | None, typer.Option(help="keep so many of them, the most frequent words'")] = None,
    epochs: Epochs = None,
    settings: Settings = None,
    start_from: Annotated[
        Path | None,
        typer.Option(help="a model's folder whose weights are the first; its settings too, if no others are given"),
    ] = None,
    resume: Resume = False,
) -> None:
    """Train a model and keep the best one on the development data.

    Example: spansieve train train.conll dev.conll --output runs/mine

    Example: spansieve train data.jsonl --dev-fraction 0.1 --output runs/mine

    On several GPUs or machines: accelerate launch -m spansieve train …
    """
    if (dev is None) == (dev_fraction is None):
        got = "neither" if dev is None else "both"
        raise ValueError(f"either DEV or --dev-fraction must be given, such as --dev-fraction 0.1, got {got}")
    if dev_fraction is not None and not 0 < dev_fraction < 1:
        raise ValueError(f"--dev-fraction must be above 0 and below 1, got {dev_fraction}")
    flags: dict[str, Any] = {"model.head": head, "model.encoder.name": encoder, "model.builtin.vectors": vectors}
    flags |= {"model.builtin.max_vectors": max_vectors, "training.epochs": epochs}
    chosen, run = configuration(config, flags, settings, start_from)
    head_class(chosen.model.head)  # which must be known, before any data is read
    use_threads_that_pay(chosen)  # before anything with threads is loaded

    from accelerate import PartialState

    from spansieve.data.batching import described_part, split_examples

    console = Console(quiet=not PartialState(cpu=run.cpu).is_main_process)  # of several processes one prints
    splits = [read_with_warnings(path, format, console) for path in (train, dev) if path is not None]
    if dev_fraction is not None:
        seed = chosen.training.seed
        splits = split_examples(splits[0], [1 - dev_fraction, dev_fraction], seed)
        described = "; ".join(map(described_part, ("train", "dev"), splits))
        console.print(f"{described}; drawn with seed {seed}")
    run_and_show(console, chosen, run, splits, format, folder=output, resume=resume, start_from=start_from)


def distil(
    teacher: Model,
    train: TrainingData,
    dev: Annotated[Path, typer.Argument(help="development data: the best model on it is kept")],
    output: RunFolder,
    texts: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH...", help="unlabelled text, in files and folders as `predict --file` reads them"),
    ] = None,
    text_column: TextColumn = None,
    format: DataFormat = None,
    temperature: Annotated[float, typer.Option(help="divides the teacher's scores: above 1, it is less sure")] = 1.0,
    mixture: Annotated[
        float, typer.Option(help="the teacher's part beside gold: 0 is gold alone, 1 the teacher alone")
    ] = 0.5,
    config: ConfigSource = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    settings: Settings = None,
    resume: Resume = False,
) -> None:
    """Train a small, fast model on the distributions that a large one has over the data, and over texts without labels.

    The student has the built-in encoder, unless another is named, and the teacher's labels.

    Example: spansieve distil runs/large/model train.conll dev.conll --texts letters.txt --output runs/small
    """
    from accelerate import PartialState

    from spansieve.integrations.hub import load
    from spansieve.persistence.manifest import name_of
    from spansieve.prediction.text_predictor import words_of
    from spansieve.training.teacher import Teacher, unlabelled

    records = records_of_files(texts, False, text_column) if texts else iter(())
    predictor = load(teacher, "cpu")
    learned = Teacher(predictor.tagger, name_of(teacher), temperature, mixture)
    flags: dict[str, Any] = {"model.encoder.name": encoder, "training.epochs": epochs}
    if config is None and predictor.tagger.head.kind != "filtered":  # a filtered student learns from any filtered one
        flags |= {"model.head": predictor.head, "model.scheme": predictor.tagger.config.scheme}
    chosen, run = configuration(config, flags, settings)
    console = Console(quiet=not PartialState(cpu=run.cpu).is_main_process)
    examples, dev_examples = (read_with_warnings(path, format, console) for path in (train, dev))
    pieces = predictor.pieces([record["text"] for record in records], sentences=True)
    splits = ([*examples, *map(unlabelled, words_of(pieces))], dev_examples)
    run_and_show(console, chosen, run, splits, format, folder=output, resume=resume, teacher=learned)


def run_and_show(
    console: Console,
    config: Config,
    run: RunSettings,
    splits: Sequence[Sequence[Example]],
    format: str | None,
    **options: Any,
) -> None:
    """Train on the first split, with `options` of `training.run.train`, and print the progress and the scores."""
    from spansieve.training.run import train as train_model

    use_threads_that_pay(config)
    options |= {"use_cpu": run.cpu, "trackers": [run.tracker] if run.tracker else []}
    options["test_examples"] = None if run.test is None else read_with_warnings(Path(run.test), format, console)
    try:
        with TerminalObserver(console) as observer:
            result = train_model(config, splits[0], splits[1], observer=observer, **options)
    except KeyboardInterrupt:
        console.print("stopped; the same command with --resume goes on from the last checkpoint")
        raise
    _show(console, result)


def use_threads_that_pay(config: Config) -> None:
    """Train the built-in encoder with one thread, unless the user says how many. Its tensors are small: a second thread
    saves nothing, and beside other work it makes the first one wait."""
    if config.model.encoder.name == BUILTIN and "OMP_NUM_THREADS" not in os.environ:
        bound_threads(1)


def _show(console: Console, result: TrainingResult) -> None:
    from spansieve.evaluation.plots import EXTRA, can_draw
    from spansieve.evaluation.scores import Scores
    from spansieve.training.run_folder import RESULTS

    console.print(f"trained for {duration(result.seconds)}; epoch {result.best_epoch} was the best on dev")
    for name, scores in (("dev", result.dev), ("test", result.test)):
        if scores is not None:
            console.print(score_table(Scores.from_dict(scores), name))
    figures = result.model.parent / RESULTS
    where = f"the model is in [bold]{escape(str(result.model))}[/], all figures in {escape(str(figures))}"
    console.print(where)
    if not can_draw():
        console.print(f"no curves were drawn, which needs matplotlib: {escape(EXTRA)}")


def configuration(
    source: str | None, flags: Mapping[str, Any], settings: Sequence[str] | None, start_from: Path | None = None
) -> tuple[Config, RunSettings]:
    """The configuration of a file or a preset, or a preset's training of the model to start from, changed by the flags,
    and then by the settings; and what these say of the run."""
    changes = {name: value for name, value in flags.items() if value is not None}
    changes |= map(parsed_setting, settings or ())
    own = {name: changes.pop(name) for name in list(changes) if name.startswith("run.")}
    if source is not None:
        config = read_config(source) if Path(source).suffix else preset(source)
    elif start_from is not None and "model.encoder.name" not in changes:
        from spansieve.models.storage import checked_description

        model = from_dict(ModelConfig, checked_description(start_from)["model"] | {"max_width": None})
        config = Config(model, _default_preset(model.encoder.name).training)
    else:
        config = _default_preset(changes.get("model.encoder.name", BUILTIN))
    run = from_dict(RunSettings, {name.removeprefix("run."): value for name, value in own.items()}, "run.")
    return with_settings(config, changes), run


def _default_preset(encoder: str) -> Config:
    return preset("builtin" if encoder == BUILTIN else "pretrained")
