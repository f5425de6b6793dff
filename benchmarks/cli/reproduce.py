"""The commands that make the paper's tables and figures again."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape

from spansieve.config import parsed_setting, presets

if TYPE_CHECKING:
    from benchmarks.reproduce.corpora import Corpus
    from benchmarks.reproduce.plan import Plan
    from benchmarks.reproduce.runs import Outcome, Run
    from spansieve.evaluation.scores import Scores
    from spansieve.models.tagger import Tagger

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
Set = Annotated[list[str] | None, typer.Option("--set", help="a setting for every head, such as training.epochs=5")]
SetHead = Annotated[
    list[str] | None,
    typer.Option("--set-head", help="a setting for one head, such as fsemicrf:model.beta=0.5; the page will say so"),
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one if not given")]
Out = Annotated[Path, typer.Option(help="the folder for the page, the CSV and the plot")]
Runs = Annotated[Path, typer.Option(help="the folder for the training runs; finished ones are not trained again")]
Jobs = Annotated[int, typer.Option(help="how many runs are trained side by side", min=1)]
Small = Annotated[
    bool, typer.Option("--small", help="400 training sentences, 6 epochs: to see in minutes that it works")
]
Paper = Annotated[
    str | None,
    typer.Option(help="whose figures stand beside: conll2003, ontonotes5, arabic-ace or none; by name if not given"),
]
Seconds = Annotated[float, typer.Option(help="how long each contender is measured")]
RESULTS = Path("results")


# ---- What the commands share -----------------------------------------------------------------------------------------


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
        device=_device(device),
        runs=runs,
        jobs=jobs,
    )


def _planned(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a plan, which it is given, beside its own."""
    shared, own = _options(_plan), _options(command)

    @functools.wraps(command)
    def run(**options: Any) -> None:
        command(_plan(**{option.name: options.pop(option.name) for option in shared}), **options)

    run.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*shared, *own)}
    return run


def _options(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that a user gives."""
    hints = get_type_hints(function, localns={"Plan": object}, include_extras=True)  # a plan is no such type here
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


def _device(name: str | None) -> str:
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


def _outcomes(plan: Plan, console: Console) -> list[Outcome]:
    from benchmarks.reproduce.runs import is_finished, outcomes

    console.print(escape(plan.corpus.describe()), highlight=False, soft_wrap=True)
    _show_missing([plan], console, is_finished)
    (found,) = outcomes([plan], _shown(console))
    return found


def _show_missing(plans: Sequence[Plan], console: Console, is_done: Callable[[Run, Corpus], bool]) -> None:
    from benchmarks.reproduce.runs import runs_of

    done = [is_done(run, plan.corpus) for plan in plans for run in runs_of(plan)]
    console.print(f"{len(done)} runs, {sum(done)} of them finished before", highlight=False)


def _shown(console: Console) -> Callable[[Run, Scores], None]:
    """As a run ends: its dev score only. Test scores are for when every run is finished."""

    def show(run: Run, dev: Scores) -> None:
        console.print(f"{run}: dev {100 * dev.f1:.2f} F1", highlight=False)

    return show


def _first_seed(plan: Plan) -> Plan:
    return replace(plan, seeds=plan.seeds[:1])


def _told(page: Path, console: Console) -> None:
    console.print(f"written to [bold]{escape(str(page))}[/], with a CSV and a plot beside it", soft_wrap=True)


def _taggers(plan: Plan, heads: tuple[str, ...], device: str, console: Console) -> dict[str, Tagger]:
    """Trained models of the first seed, on the device to measure on; they are trained on a GPU where there is one."""
    from spansieve.models.storage import load_model
    from spansieve.training.run_folder import MODEL

    found = _outcomes(replace(plan, heads=heads, seeds=plan.seeds[:1], device=_device(None)), console)
    return {outcome.run.head: load_model(outcome.run.folder / MODEL, device) for outcome in found}


# ---- The commands ----------------------------------------------------------------------------------------------------


@_planned
def table1(
    plan: Plan,
    heads: Annotated[str | None, typer.Option(help="only these rows, such as crf,fsemicrf")] = None,
    paper: Paper = None,
    out: Out = RESULTS,
) -> None:
    """Precision, recall and F1 of every head, over seeds.

    Example: python -m benchmarks table1 --data conll2003 --encoder bert-base-cased --jobs 5
    """
    from benchmarks.reproduce.pages import command_line
    from benchmarks.reproduce.paper import paper_corpus
    from benchmarks.reproduce.table1 import write_table1

    console = Console()
    beside = paper_corpus(plan.corpus.name, paper)
    chosen = replace(plan, heads=tuple(re.findall(r"[\w-]+", heads))) if heads else plan
    page = write_table1(chosen, _outcomes(chosen, console), beside, out, command_line(sys.argv[1:]))
    _told(page, console)


def all_corpora(
    data: Annotated[Path, typer.Option(help="a folder with a folder for each corpus")],
    encoder: Annotated[str, typer.Option(help="of the English corpora: a Hugging Face encoder's name or folder")],
    corpora: Annotated[str | None, typer.Option(help="only these, such as wnut17,genia, with --dev-only")] = None,
    seeds: Seeds = "3",
    settings: Set = None,
    settings_pretrained: Annotated[
        list[str] | None, typer.Option("--set-pretrained", help="a setting for every head on the pretrained encoder")
    ] = None,
    settings_of: SetHead = None,
    dev_only: Annotated[
        bool, typer.Option("--dev-only", help="to choose settings: dev scores, no test sentence looked at, no page")
    ] = False,
    runs: Runs = Path("runs/reproduce"),
    jobs: Jobs = 1,
    device: Device = None,
    out: Out = RESULTS,
) -> None:
    """F1 of every head on all corpora, with tests of the differences to FSemiCRF.

    Test scores are shown when every run is finished and not before. Settings are chosen with --dev-only.

    Example: python -m benchmarks all-corpora --data corpora --encoder bert-base-cased --jobs 8
    """
    from benchmarks.measuring import markdown_table
    from benchmarks.reproduce import all_corpora as module
    from benchmarks.reproduce.corpora import sample
    from benchmarks.reproduce.pages import command_line
    from benchmarks.reproduce.plan import Plan
    from benchmarks.reproduce.runs import dev_outcomes, is_finished, is_trained, outcomes

    if corpora is not None and not dev_only:
        raise ValueError("--corpora can be given with --dev-only alone: a page is of all corpora")
    console = Console()
    shared = Plan(
        sample(),
        parsed_seeds(seeds),
        settings=dict(map(parsed_setting, settings or [])),
        settings_of=parsed_settings_of(settings_of or []),
        device=_device(device),
        runs=runs,
        jobs=jobs,
    )
    names = re.findall(r"[\w-]+", corpora) if corpora else None
    pretrained = dict(map(parsed_setting, settings_pretrained or []))
    plans = module.plans_for(data, names, encoder, shared, pretrained)
    _show_missing(plans, console, is_trained if dev_only else is_finished)
    if dev_only:
        table = module.dev_table(plans, dev_outcomes(plans, _shown(console)))
        console.print(markdown_table(table.rows), highlight=False, soft_wrap=True)
        return
    found = outcomes(plans, _shown(console))
    _told(module.write_all_corpora(plans, found, out, command_line(sys.argv[1:])), console)


@_planned
def table2(
    plan: Plan,
    batch: Annotated[list[int] | None, typer.Option(help="sentences in a batch; 1 and 32 if not given", min=1)] = None,
    sentences: Annotated[int, typer.Option(help="test sentences to measure on", min=1)] = 128,
    seconds: Seconds = 2.0,
    peers: Annotated[bool, typer.Option(help="measure the paper's decoders, too, where installed")] = True,
    paper: Paper = None,
    out: Out = RESULTS,
) -> None:
    """Milliseconds per sentence for scoring and for decoding.

    --device is where it is measured, the CPU on one thread. Runs of table1 in --runs are used, where they have the same
    settings.

    Example: python -m benchmarks table2 --data conll2003 --encoder bert-base-cased --device cuda
    """
    from benchmarks.reproduce import table2 as module
    from benchmarks.reproduce.pages import command_line
    from benchmarks.reproduce.paper import paper_corpus

    console = Console()
    beside = paper_corpus(plan.corpus.name, paper)
    taggers = _taggers(plan, module.HEADS, plan.device, console)
    examples = [example for example in plan.corpus.test if len(example)][:sentences]
    found = module.costs(taggers, examples, batch or [1, 32], seconds, plan.device, peers)
    command = command_line(sys.argv[1:])
    _told(module.write_table2(_first_seed(plan), found, len(examples), beside, out, command), console)


@_planned
def complexity(
    plan: Plan,
    longest: Annotated[int, typer.Option(help="tokens of the longest text to decode", min=1)] = 10_000,
    seconds: Seconds = 1.0,
    out: Out = RESULTS,
) -> None:
    """Graph size and decoding time against the length of a sentence.

    --device is where it is measured, the CPU on one thread. Runs of table1 in --runs are used, where they have the same
    settings.

    Example: python -m benchmarks complexity --data conll2003 --encoder bert-base-cased
    """
    from benchmarks.reproduce import complexity as module
    from benchmarks.reproduce.pages import command_line

    console = Console()
    taggers = _taggers(plan, module.HEADS, plan.device, console)
    sizes = module.graph_sizes(taggers["fsemicrf"], plan.corpus.test)
    lengths = [length for length in module.LENGTHS if length <= longest] or [longest]
    times = module.decoding_times(taggers, plan.corpus.test, lengths, seconds, plan.device)
    _told(module.write_complexity(_first_seed(plan), sizes, times, out, command_line(sys.argv[1:])), console)


@_planned
def graph_size(plan: Plan, out: Out = RESULTS) -> None:
    """The size of the filter's graph while the model is trained.

    Example: python -m benchmarks graph-size --data conll2003 --encoder bert-base-cased --seeds 1
    """
    from benchmarks.reproduce.graph_size import watched_run, write_graph_size
    from benchmarks.reproduce.pages import command_line

    console = Console()
    console.print(escape(plan.corpus.describe()), highlight=False, soft_wrap=True)
    runs = []
    for seed in plan.seeds:
        run = watched_run(plan, seed)
        console.print(
            f"seed {seed}: {run.looks[0].size:.1f} at first, {run.looks[-1].size:.1f} at last", highlight=False
        )
        runs.append(run)
    _told(write_graph_size(plan, runs, out, command_line(sys.argv[1:])), console)


@_planned
def throughput(
    plan: Plan,
    rounds: Annotated[int, typer.Option(help="turns of each contender", min=1)] = 11,
    steps: Annotated[int, typer.Option(help="steps in a turn", min=1)] = 12,
    out: Out = RESULTS,
) -> None:
    """Training batches per second at batches of 8.

    Example: python -m benchmarks throughput --data conll2003 --encoder bert-base-cased
    """
    from benchmarks.reproduce.pages import command_line
    from benchmarks.reproduce.throughput import throughput_rows, write_throughput

    if plan.settings_of:
        raise ValueError("--set-head cannot be given for throughput: all heads share one configuration there")
    rows = throughput_rows(plan, rounds, steps)
    _told(write_throughput(_first_seed(plan), rows, out, command_line(sys.argv[1:])), Console())
