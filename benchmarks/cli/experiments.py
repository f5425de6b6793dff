"""The commands that show what single ideas are worth: `active-learning`, `partial`, `audit`, `chunking`, `nested`,
`vectors`, `distil`, `guarantees` and `decode`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.cli.options import RESULTS, Device, Out, Set, chosen, write
from benchmarks.cli.plan_options import Jobs, Seeds, parsed_seeds
from spansieve.cli.outputs import Console
from spansieve.config import parsed_setting

if TYPE_CHECKING:
    from benchmarks.experiment import Splits

Train = Annotated[Path, typer.Argument(help="training data")]
Dev = Annotated[Path, typer.Argument(help="development data")]
Test = Annotated[Path, typer.Argument(help="test data")]
Runs = Annotated[Path, typer.Option("--folder", help="where the runs go, one folder for each model")]
NotKept = Annotated[Path, typer.Option("--folder", help="where a run trains; nothing is left there")]
Note = Annotated[str, typer.Option(help="a sentence for the page: what else there is to know")]
MostDev = Annotated[int, typer.Option(help="sentences of dev, drawn likewise")]


def active_learning(
    pool: Annotated[Path, typer.Argument(help="labelled data to choose from")],
    dev: Dev,
    test: Test,
    folder: NotKept,
    most: Annotated[int, typer.Option(help="sentences of the pool, drawn once by chance")] = 5_000,
    most_dev: MostDev = 300,
    size: Annotated[list[int] | None, typer.Option(help="labelled sentences; 100, 200 … 1600 if not given")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="0 and 1 if not given")] = None,
    settings: Set = None,
    out: Out = RESULTS,
) -> None:
    """F1 against labelled sentences, by chance and by what the model is unsure of; on the CPU."""
    from benchmarks import active_learning as module
    from benchmarks.experiment import drawn

    splits = read_splits(pool, dev, test)
    splits = splits._replace(train=drawn(splits.train, most), dev=drawn(splits.dev, most_dev))
    wanted = dict(map(parsed_setting, settings or []))
    rounds = module.run_active_learning(
        splits, folder, size or module.SIZES, seeds=seed or (0, 1), settings=wanted, seen=Console().print
    )
    write(module.active_learning_page(rounds, splits, test.parent.name), out)


def partial(
    train: Annotated[Path | None, typer.Argument(help="training data; the sample corpus if not given")] = None,
    dev: Annotated[Path | None, typer.Argument(help="development data")] = None,
    test: Annotated[Path | None, typer.Argument(help="test data")] = None,
    folder: NotKept = Path("runs"),
    most: Annotated[int, typer.Option(help="sentences of the training data, drawn once by chance")] = 1_000,
    most_dev: MostDev = 300,
    head: Annotated[list[str] | None, typer.Option(help="a head; fsemicrf, crf and semicrf if none")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="0 if none")] = None,
    settings: Set = None,
    out: Out = RESULTS,
) -> None:
    """Half of the annotation hidden: trained as if nothing were there, on what is known, and on all; on the CPU."""
    from benchmarks import hidden_annotation as module
    from benchmarks.experiment import drawn
    from spansieve.data.sample import sample_corpus

    if train is not None and dev is not None and test is not None:
        splits, corpus = read_splits(train, dev, test), test.parent.name
    elif train is dev is test is None:
        splits, corpus = sample_corpus(), "the sample corpus"
    else:
        raise typer.BadParameter("TRAIN, DEV and TEST must be given together, or none of them")
    heads, wanted = chosen(head, module.HEADS), dict(map(parsed_setting, settings or []))
    splits = splits._replace(train=drawn(splits.train, most), dev=drawn(splits.dev, most_dev))
    console = Console()
    runs = module.run_partial(
        splits, folder, heads, seed or (0,), wanted, lambda run: console.print(module.partial_row(run))
    )
    write(module.partial_page(runs, splits, corpus), out)


def audit(
    data: Annotated[list[Path], typer.Argument(help="labelled data as it was published")],
    folder: Runs,
    corrected: Annotated[list[Path] | None, typer.Option(help="the same, corrected; of any part of the data")] = None,
    folds: Annotated[int, typer.Option(help="how many models there are")] = 5,
    encoder: Annotated[str, typer.Option(help="builtin, or an encoder's folder")] = "builtin",
    settings: Set = None,
    device: Device = "cpu",
    out: Out = RESULTS,
) -> None:
    """Annotation errors found by `spansieve audit`, and by the confidence of tokens from the same models."""
    from dataclasses import replace

    from benchmarks import annotation_audit as module
    from spansieve.cli.inputs import read_with_warnings
    from spansieve.cli.terminal import TerminalObserver
    from spansieve.config import preset, with_settings

    console = Console()
    read = [[(path, e) for e in read_with_warnings(path, None, console)] for path in (*data, *(corrected or ()))]
    files = [[replace(e, document=e.document and f"{path.name}/{e.document}") for path, e in file] for file in read]
    examples = [example for file in files[: len(data)] for example in file]
    pairs = module.paired(examples, [example for file in files[len(data) :] for example in file])
    wanted = dict(map(parsed_setting, settings or [])) | {"model.encoder.name": encoder}
    config = with_settings(preset("builtin" if encoder == "builtin" else "pretrained"), wanted)
    with TerminalObserver(console) as observer:
        result = module.run_audit(config, examples, pairs, folder, folds, observer)
    write(module.audit_page(result, config, data[0].parent.name, len(examples), folds, device), out)


def chunking(
    train: Train,
    dev: Dev,
    test: Test,
    folder: Runs,
    head: Annotated[list[str] | None, typer.Option(help="a head to train; four of them if none")] = None,
    settings: Set = None,
    out: Out = RESULTS,
) -> None:
    """FSemiCRF, CRF and Semi-CRF on a corpus of chunks, with the built-in encoder, on the CPU."""
    from benchmarks import chunks as module

    heads, wanted, console = chosen(head, module.HEADS), dict(map(parsed_setting, settings or [])), Console()
    splits = read_splits(train, dev, test)
    runs = module.run_chunking(splits, folder, heads, wanted, lambda run: console.print(module.chunking_row(run)))
    write(module.chunking_page(runs, splits, test.parent.name), out)


def nested(
    train: Train,
    dev: Dev,
    test: Test,
    folder: Runs,
    sentences: Annotated[int | None, typer.Option(help="so many of the first training sentences; all if not")] = None,
    head: Annotated[list[str] | None, typer.Option(help="a head to train; the two nested and two flat if none")] = None,
    settings: Set = None,
    device: Device = "cpu",
    out: Out = RESULTS,
) -> None:
    """Nested models beside flat ones on one corpus: F1 of all, outer and inner entities."""
    from benchmarks import nested_entities as module

    heads, wanted, console = chosen(head, module.HEADS), dict(map(parsed_setting, settings or [])), Console()
    splits = read_splits(train, dev, test)
    splits = splits._replace(train=splits.train[:sentences])
    runs = module.run_nested(
        splits, folder, heads, wanted, device == "cpu", lambda run: console.print(module.nested_row(run))
    )
    write(module.nested_page(runs, splits, test.parent.name, device), out)


def vectors(
    data: Annotated[Path, typer.Argument(help="the folder with a folder for each corpus")],
    path: Annotated[
        list[str], typer.Option("--vectors", help="a file or folder of word vectors; CORPUS=FILE for one corpus alone")
    ],
    folder: Runs,
    corpus: Annotated[list[str] | None, typer.Option(help="a corpus by name; all English ones if none")] = None,
    seeds: Seeds = "3",
    settings: Set = None,
    device: Device = "cpu",
    jobs: Jobs = 1,
    note: Note = "",
    out: Out = RESULTS,
) -> None:
    """The built-in encoder with and without pretrained word vectors."""
    from benchmarks import word_vectors as module
    from benchmarks.reproduce.runs import outcomes

    console, names = Console(), chosen(corpus, module.ENGLISH)
    shared: dict[str, Any] = {"seeds": parsed_seeds(seeds), "device": device, "runs": folder, "jobs": jobs}
    plans = module.vectors_plans(data, path, names, dict(map(parsed_setting, settings or [])), **shared)
    found = outcomes(plans, lambda run, dev: console.print(f"{run}: dev {100 * dev.f1:.2f} F1", highlight=False))
    write(module.vectors_page(plans, found, note), out)


def distil(
    data: Annotated[Path, typer.Argument(help="a folder with the files of train, dev and test")],
    encoder: Annotated[str, typer.Option(help="the teacher's: a Hugging Face encoder's name or folder")],
    path: Annotated[Path, typer.Option("--vectors", help="the students' word vectors")],
    folder: Runs,
    way: Annotated[
        list[str], typer.Option(help="mixture, temperature and sentences of the texts, such as 0.5,1,10000")
    ],
    texts: Annotated[Path | None, typer.Option(help="sentences without labels, one a line, spaces between")] = None,
    seeds: Seeds = "3",
    settings: Set = None,
    settings_of_teacher: Annotated[list[str] | None, typer.Option("--set-teacher", help="one of the teacher's")] = None,
    device: Device = "cpu",
    jobs: Jobs = 1,
    note: Note = "",
    out: Out = RESULTS,
) -> None:
    """Students with the built-in encoder and word vectors, taught in several ways by a pretrained encoder."""
    from benchmarks import distilled as module
    from benchmarks.reproduce.corpora import files_in, read_corpus
    from spansieve.training.teacher import unlabelled

    lines = [] if texts is None else texts.read_text(encoding="utf-8").splitlines()
    teacher = module.teacher_run(encoder, dict(map(parsed_setting, settings_of_teacher or [])), folder)
    student = {"model.builtin.vectors": str(path)} | dict(map(parsed_setting, settings or []))
    console = Console()
    plan = module.Distillation(
        read_corpus(files_in(data), data.resolve().name),
        [unlabelled(line.split()) for line in lines],
        list(map(module.parsed_way, way)),
        teacher,
        student,
        folder,
        parsed_seeds(seeds),
        device,
        jobs,
    )
    found = module.run_distillation(plan, lambda line: console.print(line, highlight=False))
    write(module.distilled_page(plan, *found, note), out)


def guarantees(
    data: Annotated[Path, typer.Argument(help="the folder with a folder for each corpus")],
    scores: Annotated[Path, typer.Option("--folder", help="where the scores of the models are, or go")],
    encoder: Annotated[list[str] | None, typer.Option(help="builtin, or a folder; builtin alone if none")] = None,
    corpus: Annotated[list[str] | None, typer.Option(help="a corpus by name; six of them if none")] = None,
    draws: Annotated[int, typer.Option(help="of calibration data, of each corpus and model")] = 200,
    device: Device = "cpu",
    jobs: Annotated[int, typer.Option(help="models that are trained side by side")] = 1,
    out: Out = RESULTS,
) -> None:
    """How often promises hold, and what they cost, beside independent sigmoids and a naive threshold.

    Models whose scores are not in the folder are trained first.
    """
    from itertools import product

    from benchmarks import guarantee_scores
    from benchmarks import guarantees as module

    console, encoders = Console(), encoder or ["builtin"]
    names = chosen(corpus, guarantee_scores.CORPORA)
    missing = guarantee_scores.missing_models(scores, names, encoders)
    for line in guarantee_scores.train_and_score(missing, data, scores, device, jobs):
        console.print(line)
    heads = (guarantee_scores.OURS, guarantee_scores.SIGMOIDS)
    models = [guarantee_scores.Model(*one) for one in product(names, encoders, heads)]
    cells = []
    for model, own in zip(models, module.run_guarantees(scores, models, draws)):
        console.print(f"{model.file}: {draws} draws")
        cells += own
    machine, sizes = guarantee_scores.machines_of(scores, models), guarantee_scores.SIZES
    write(module.guarantees_page(cells, module.exact_rows(scores, models), draws, sizes, machine), out)


def decode(
    train: Train,
    test: Test,
    encoder: Annotated[str, typer.Option(help="a Hugging Face encoder's name or folder; it is not trained")],
    folder: Annotated[Path, typer.Option(help="where logits are kept; those that are there are read")],
    seed: Annotated[list[int] | None, typer.Option(help="0, 1 and 2 if none")] = None,
    epochs: Annotated[int, typer.Option(help="of the classifier on the encoder's vectors")] = 10,
    seconds: Annotated[float, typer.Option(help="how long each decoder is measured")] = 2.0,
    out: Out = RESULTS,
) -> None:
    """`spansieve.decode` on a token softmax: F1 beside greedy decoding, time beside pytorch-crf's; on the CPU."""
    from benchmarks import foreign_decoding as module
    from spansieve.cli.inputs import read_with_warnings

    console = Console()
    examples, tested = (read_with_warnings(path, None, console) for path in (train, test))
    softmaxes = module.run_softmaxes(examples, tested, encoder, folder, seed or (0, 1, 2), epochs, console.print)
    scores = module.score_rows(softmaxes, tested)
    speed = module.speed_rows(softmaxes[0], seconds)
    write(module.decode_page(scores, speed, test.parent.name, epochs), out)


def read_splits(train: Path, dev: Path, test: Path) -> Splits:
    from benchmarks.experiment import Splits
    from spansieve.cli.inputs import read_with_warnings

    console = Console()
    return Splits(*(tuple(read_with_warnings(path, None, console)) for path in (train, dev, test)))
