"""`spansieve distil`: a large model's distributions in, a small model out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spansieve.cli.inputs import read_with_warnings, records_of_files
from spansieve.cli.options import DataFormat, Model, TextColumn
from spansieve.cli.outputs import Console
from spansieve.cli.train import (
    ConfigSource,
    Encoder,
    Epochs,
    OnlyCpu,
    Resume,
    RunFolder,
    Settings,
    TrainingData,
    configuration,
    run_and_show,
)


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
    cpu: OnlyCpu = False,
) -> None:
    """Train a small, fast model on what a large one thinks of the data, and of texts without labels.

    The student has the built-in encoder, unless another is named, and the teacher's labels.

    Example: spansieve distil runs/large/model train.conll dev.conll --texts letters.txt --output runs/small
    """
    records = records_of_files(texts, False, text_column) if texts else iter(())
    from spansieve.integrations.hub import load
    from spansieve.persistence.manifest import name_of
    from spansieve.prediction.text_predictor import words_of
    from spansieve.training.run import is_main_process
    from spansieve.training.teacher import Teacher, unlabelled

    predictor = load(teacher, "cpu")
    learned = Teacher(predictor.tagger, name_of(teacher), temperature, mixture)
    flags: dict[str, Any] = {"model.encoder.name": encoder, "training.epochs": epochs}
    if config is None and predictor.tagger.head.kind != "filtered":  # a filtered student learns from any filtered one
        flags |= {"model.head": predictor.head, "model.scheme": predictor.tagger.config.scheme}
    chosen = configuration(config, flags, settings or ())
    console = Console(quiet=not is_main_process(cpu))
    examples, dev_examples = (read_with_warnings(path, format, console) for path in (train, dev))
    pieces = predictor.pieces([record["text"] for record in records], sentences=True)
    everything = [*examples, *map(unlabelled, words_of(pieces))]
    run_and_show(console, chosen, everything, dev_examples, output, resume=resume, use_cpu=cpu, teacher=learned)
