"""`spansieve reproduce`: the paper's tables and figures, made again."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from spansieve.config import parsed_setting, presets

if TYPE_CHECKING:
    from spansieve.experiments.reproduce.corpora import Corpus
    from spansieve.experiments.reproduce.plan import Plan
    from spansieve.experiments.reproduce.runs import Outcome

app = typer.Typer(help="Make the paper's tables and figures again.", no_args_is_help=True)
SMALL_SPLITS = (400, 100, 100)  # sentences
SMALL_SETTINGS = {"training.epochs": 6, "training.batch_size": 8, "training.averaging": 0.99}

Data = Annotated[
    Path | None,
    typer.Option(help="A folder with the files of train, dev and test; the generated sample if none is given."),
]
Train = Annotated[Path | None, typer.Option(help="The training data, with --dev and --test instead of --data.")]
Dev = Annotated[Path | None, typer.Option(help="The development data.")]
Test = Annotated[Path | None, typer.Option(help="The test data.")]
Name = Annotated[str | None, typer.Option(help="What the corpus is called; its folder's name if not given.")]
Encoder = Annotated[str | None, typer.Option(help="builtin, or a Hugging Face encoder's name or folder.")]
Seeds = Annotated[str, typer.Option(help="How many, such as 3; or which, such as 0,1,2.")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help=f"For every head: {', '.join(presets())}; builtin or pretrained if not given."),
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A setting for every head, such as training.epochs=5.")]
SetHead = Annotated[
    list[str] | None,
    typer.Option("--set-head", help="A setting for one head, such as fsemicrf:model.beta=0.5; the page will say so."),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one if not given.")]
Out = Annotated[Path, typer.Option(help="The folder for the page, the CSV and the plot.")]
Runs = Annotated[Path, typer.Option(help="The folder for the training runs; finished ones are not trained again.")]
Jobs = Annotated[int, typer.Option(help="How many runs are trained side by side.", min=1)]
Small = Annotated[
    bool, typer.Option("--small", help="400 training sentences, 6 epochs: to see in minutes that it works.")
]
OUT, RUNS = Path("results"), Path("runs/reproduce")


@app.callback()
def _root() -> None:
    """Make the paper's tables and figures again: a page, a CSV and a plot each."""


@app.command()
def table1(
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
    heads: Annotated[str | None, typer.Option(help="Only these rows, such as crf,fsemicrf.")] = None,
    paper: Annotated[
        str | None,
        typer.Option(
            help="The paper's corpus to stand beside: conll2003, ontonotes5, arabic-ace, none; by name if not given."
        ),
    ] = None,
    out: Out = OUT,
    runs: Runs = RUNS,
    jobs: Jobs = 1,
    device: Device = None,
    small: Small = False,
) -> None:
    """Precision, recall and F1 of every head, over seeds.

    Example: spansieve reproduce table1 --data conll2003 --encoder bert-base-cased --jobs 5
    """
    from spansieve.experiments.reproduce.pages import command_line
    from spansieve.experiments.reproduce.paper import paper_corpus
    from spansieve.experiments.reproduce.table1 import write_table1

    console = Console()
    corpus = _corpus(data, (train, dev, test), name, small)
    beside = paper_corpus(corpus.name, paper)
    plan = _plan(corpus, encoder, seeds, preset, settings, settings_of, heads, device, runs, jobs, small)
    page = write_table1(plan, _outcomes(plan, console), beside, out, command_line(sys.argv[1:]))
    _told(page, console)


# ---- What the commands share -----------------------------------------------------------------------------------------


def _corpus(
    data: Path | None, files: tuple[Path | None, Path | None, Path | None], name: str | None, small: bool
) -> Corpus:
    from spansieve.experiments.reproduce import corpora

    given = dict(zip(corpora.SPLITS, files))
    if data is not None and any(files):
        raise ValueError("either --data or --train, --dev and --test can be given, got both")
    if any(files) and not all(files):
        raise ValueError("--train, --dev and --test must be given together, got only some of them")
    if data is None and not any(files):
        corpus = corpora.sample()
    else:
        found = corpora.files_in(data) if data is not None else {k: path for k, path in given.items() if path}
        folder = data if data is not None else found["train"].parent
        corpus = corpora.read_corpus(found, name or folder.resolve().name)
    return corpus.first(*SMALL_SPLITS) if small else corpus


def _plan(
    corpus: Corpus,
    encoder: str | None,
    seeds: str,
    preset: str | None,
    settings: list[str] | None,
    settings_of: list[str] | None,
    heads: str | None,
    device: str | None,
    runs: Path,
    jobs: int,
    small: bool,
) -> Plan:
    import torch

    from spansieve.experiments.reproduce.plan import NAMES, Plan

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda needs a GPU that torch can use, got none")
    shared: dict[str, Any] = dict(SMALL_SETTINGS) if small else {}
    return Plan(
        corpus,
        parsed_seeds(seeds),
        encoder,
        preset,
        shared | dict(map(parsed_setting, settings or [])),
        parsed_settings_of(settings_of or []),
        tuple(re.findall(r"[\w-]+", heads)) if heads else tuple(NAMES),
        device,
        runs,
        jobs,
    )


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


def _outcomes(plan: Plan, console: Console) -> list[Outcome]:
    from spansieve.cli.watching import duration
    from spansieve.experiments.reproduce.runs import is_finished, outcomes, runs_of

    console.print(escape(plan.corpus.describe()), highlight=False, soft_wrap=True)
    runs = runs_of(plan)
    finished = sum(is_finished(run, plan.corpus) for run in runs)
    console.print(f"{len(runs)} runs, {finished} of them finished before", highlight=False)

    def told(outcome: Outcome) -> None:
        dev, test = (f"{100 * scores.f1:.2f}" for scores in (outcome.dev, outcome.test))
        console.print(f"{outcome.run}: dev {dev}, test {test} F1 ({duration(outcome.seconds)})", highlight=False)

    return outcomes(plan, told)


def _told(page: Path, console: Console) -> None:
    console.print(f"written to [bold]{escape(str(page))}[/], with a CSV and a plot beside it", soft_wrap=True)
