"""The commands that make the paper's tables and figures again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from benchmarks.cli.options import RESULTS, Out, Set, write
from benchmarks.cli.plan_options import (
    Device,
    Jobs,
    Runs,
    Seeds,
    SetHead,
    device_of,
    parsed_seeds,
    parsed_settings_of,
    planned,
)
from spansieve.config import parsed_setting

if TYPE_CHECKING:
    from benchmarks.reproduce.corpora import Corpus
    from benchmarks.reproduce.plan import Plan
    from benchmarks.reproduce.runs import Outcome, Run
    from spansieve.evaluation.scores import Scores
    from spansieve.models.tagger import Tagger

Paper = Annotated[
    str | None,
    typer.Option(help="whose figures stand beside: conll2003, ontonotes5, arabic-ace or none; by name if not given"),
]
Seconds = Annotated[float, typer.Option(help="how long each contender is measured")]


# ---- What the commands share -----------------------------------------------------------------------------------------


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


def _taggers(plan: Plan, heads: tuple[str, ...], device: str, console: Console) -> dict[str, Tagger]:
    """Trained models of the first seed, on the device to measure on; they are trained on a GPU where there is one."""
    from spansieve.models.storage import load_model
    from spansieve.training.run_folder import MODEL

    found = _outcomes(replace(plan, heads=heads, seeds=plan.seeds[:1], device=device_of(None)), console)
    return {outcome.run.head: load_model(outcome.run.folder / MODEL, device) for outcome in found}


# ---- The commands ----------------------------------------------------------------------------------------------------


@planned
def table1(
    plan: Plan,
    heads: Annotated[str | None, typer.Option(help="only these rows, such as crf,fsemicrf")] = None,
    paper: Paper = None,
    out: Out = RESULTS,
) -> None:
    """Precision, recall and F1 of every head, over seeds.

    Example: python -m benchmarks table1 --data conll2003 --encoder bert-base-cased --jobs 5
    """
    from benchmarks.reproduce.paper import paper_corpus
    from benchmarks.reproduce.table1 import table1_page

    beside = paper_corpus(plan.corpus.name, paper)
    chosen = replace(plan, heads=tuple(re.findall(r"[\w-]+", heads))) if heads else plan
    write(table1_page(chosen, _outcomes(chosen, Console()), beside), out)


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
    from benchmarks.reproduce import all_corpora as module
    from benchmarks.reproduce.corpora import sample
    from benchmarks.reproduce.plan import Plan
    from benchmarks.reproduce.runs import dev_outcomes, is_finished, is_trained, outcomes
    from benchmarks.result_page import markdown_table

    if corpora is not None and not dev_only:
        raise ValueError("--corpora can be given with --dev-only alone: a page is of all corpora")
    console = Console()
    shared = Plan(
        sample(),
        parsed_seeds(seeds),
        settings=dict(map(parsed_setting, settings or [])),
        settings_of=parsed_settings_of(settings_of or []),
        device=device_of(device),
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
    write(module.all_corpora_page(plans, outcomes(plans, _shown(console))), out)


@planned
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
    from benchmarks.reproduce.paper import paper_corpus

    beside = paper_corpus(plan.corpus.name, paper)
    taggers = _taggers(plan, module.HEADS, plan.device, Console())
    examples = [example for example in plan.corpus.test if len(example)][:sentences]
    found = module.costs(taggers, examples, batch or [1, 32], seconds, plan.device, peers)
    write(module.table2_page(_first_seed(plan), found, len(examples), beside), out)


@planned
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

    taggers = _taggers(plan, module.HEADS, plan.device, Console())
    sizes = module.graph_sizes(taggers["fsemicrf"], plan.corpus.test)
    lengths = [length for length in module.LENGTHS if length <= longest] or [longest]
    times = module.decoding_times(taggers, plan.corpus.test, lengths, seconds, plan.device)
    write(module.complexity_page(_first_seed(plan), sizes, times), out)


@planned
def graph_size(plan: Plan, out: Out = RESULTS) -> None:
    """The size of the filter's graph while the model is trained.

    Example: python -m benchmarks graph-size --data conll2003 --encoder bert-base-cased --seeds 1
    """
    from benchmarks.reproduce.graph_size import graph_size_page, watched_run

    console = Console()
    console.print(escape(plan.corpus.describe()), highlight=False, soft_wrap=True)
    runs = []
    for seed in plan.seeds:
        run = watched_run(plan, seed)
        console.print(
            f"seed {seed}: {run.looks[0].size:.1f} at first, {run.looks[-1].size:.1f} at last", highlight=False
        )
        runs.append(run)
    write(graph_size_page(plan, runs), out)


@planned
def throughput(
    plan: Plan,
    rounds: Annotated[int, typer.Option(help="turns of each contender", min=1)] = 11,
    steps: Annotated[int, typer.Option(help="steps in a turn", min=1)] = 12,
    out: Out = RESULTS,
) -> None:
    """Training batches per second at batches of 8.

    Example: python -m benchmarks throughput --data conll2003 --encoder bert-base-cased
    """
    from benchmarks.reproduce.throughput import throughput_page, throughput_rows

    if plan.settings_of:
        raise ValueError("--set-head cannot be given for throughput: all heads share one configuration there")
    rows = throughput_rows(plan, rounds, steps)
    write(throughput_page(_first_seed(plan), rows), out)
