"""The options of a plan: which corpus, encoder, seeds and settings a table of the paper is made with."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.cli.options import Set
from spansieve.config import parsed_setting, presets

if TYPE_CHECKING:
    from benchmarks.reproduce.corpora import Corpus
    from benchmarks.reproduce.plan import Plan

SMALL_SPLITS = (400, 100, 100)  # sentences
SMALL_SETTINGS = {"training.epochs": 6, "training.batch_size": 8, "training.ema_decay": 0.99}

Data = Annotated[
    Path | None,
    typer.Option(help="a folder with the files of train, dev and test; the generated sample if none is given"),
]
Train = Annotated[Path | None, typer.Option(help="the training data, with --dev and --test instead of --data")]
Dev = Annotated[Path | None, typer.Option(help="the development data")]
Test = Annotated[Path | None, typer.Option(help="the test data")]
Name = Annotated[str | None, typer.Option(help="what the corpus is called; its folder's name if not given")]
Encoder = Annotated[str | None, typer.Option(help="builtin, or a Hugging Face encoder's name or folder")]
Seeds = Annotated[str, typer.Option(help="how many, such as 3; or which, such as 0,1,2")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help=f"for every head: {', '.join(presets())}; builtin or pretrained if not given"),
]
SetHead = Annotated[
    list[str] | None,
    typer.Option("--set-head", help="a setting for one head, such as fsemicrf:model.beta=0.5; the page will say so"),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one if not given")]
Runs = Annotated[Path, typer.Option(help="the folder for the training runs; finished ones are not trained again")]
Jobs = Annotated[int, typer.Option(help="how many runs are trained side by side", min=1)]
Small = Annotated[
    bool, typer.Option("--small", help="400 training sentences, 6 epochs: to see in minutes that it works")
]


def _plan(
    data: Data = None,
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    name: Name = None,
    encoder: Encoder = None,
    seeds: Seeds = "3",
    preset: Preset = None,
    settings: Set = None,
    settings_of: SetHead = None,
    runs: Runs = Path("runs/reproduce"),
    jobs: Jobs = 1,
    device: Device = None,
    small: Small = False,
) -> Plan:
    from benchmarks.reproduce.plan import Plan

    shared: dict[str, Any] = dict(SMALL_SETTINGS) if small else {}
    return Plan(
        _corpus(data, (train, dev, test), name, small),
        parsed_seeds(seeds),
        encoder,
        preset,
        shared | dict(map(parsed_setting, settings or [])),
        parsed_settings_of(settings_of or []),
        device=device_of(device),
        runs=runs,
        jobs=jobs,
    )


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command the options of a plan beside its own, and call it with that plan."""
    shared, own = _options(_plan), _options(command)

    @functools.wraps(command)
    def run(**options: Any) -> None:
        command(_plan(**{option.name: options.pop(option.name) for option in shared}), **options)

    run.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*shared, *own)}
    return run


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that a user gives."""
    hints = inspect.get_annotations(function, locals={"Plan": object}, eval_str=True)  # a plan is no such type here
    parameters = inspect.signature(function).parameters.values()
    return [one.replace(annotation=hints[one.name]) for one in parameters if one.name != "plan"]


def _corpus(
    data: Path | None, files: tuple[Path | None, Path | None, Path | None], name: str | None, small: bool
) -> Corpus:
    from benchmarks.reproduce import corpora

    given = {split: path for split, path in zip(corpora.SPLITS, files) if path is not None}
    if data is not None and given:
        raise ValueError("either --data or --train, --dev and --test can be given, got both")
    if 0 < len(given) < len(corpora.SPLITS):
        raise ValueError("--train, --dev and --test must be given together, got only some of them")
    if data is None and not given:
        corpus = corpora.sample()
    else:
        found = given if data is None else corpora.files_in(data)
        folder = found["train"].parent if data is None else data
        corpus = corpora.read_corpus(found, name or folder.resolve().name)
    return corpus.first(*SMALL_SPLITS) if small else corpus


def device_of(name: str | None) -> str:
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda needs a GPU that torch can use, got none")
    return name


def parsed_seeds(text: str) -> tuple[int, ...]:
    """
    >>> parsed_seeds("3"), parsed_seeds("4,7"), parsed_seeds("5,")
    ((0, 1, 2), (4, 7), (5,))
    """
    if not re.fullmatch(r"\s*\d+([\s,]+\d+)*[\s,]*", text):
        raise ValueError(f"--seeds must be how many, such as 3, or which, such as 0,1,2, got {text!r}")
    found = tuple(map(int, re.findall(r"\d+", text)))
    return tuple(range(found[0])) if text.strip().isdigit() else found


def parsed_settings_of(texts: list[str]) -> dict[str, dict[str, Any]]:
    """
    >>> parsed_settings_of(["crf:model.dropout=0.1", "crf:model.scheme=BIO"])
    {'crf': {'model.dropout': 0.1, 'model.scheme': 'BIO'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        head, sign, setting = text.partition(":")
        if not sign:
            raise ValueError(f"--set-head must look like fsemicrf:model.beta=0.5, got {text!r}")
        name, value = parsed_setting(setting)
        found.setdefault(head.strip(), {})[name] = value
    return found
