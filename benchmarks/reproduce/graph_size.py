"""The graph-size figure: |V| + |E| + 1 while a model is trained, from before its first step on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.plots import OURS_COLOUR, QUIET_COLOUR, Figure, panels
from benchmarks.reproduce.plan import OURS, Plan
from benchmarks.reproduce.runs import run_of
from benchmarks.result_page import ResultPage, Row, Table, percent
from spansieve.crf import FilteredSemiMarkov
from spansieve.data.batching import batches_by_length
from spansieve.data.example import Example
from spansieve.models.tagger import Batch, Tagger
from spansieve.training.run import train
from spansieve.training.run_folder import RESULTS

LOOKS = "graphs.jsonl"
SENTENCES = 200  # of dev that are looked at
GROWTH = 1.15  # from one look to the next: the first steps change most
MOST_TOKENS = 4_000
ABOUT = (
    "The mean over {sentences} dev sentences of the graph that the filter leaves of them: candidates and edges as at "
    "prediction, without the training rules about gold, by the weights of that step (not their moving average). The "
    "paper describes three stages: large at first, then small while the classifier says null of nearly everything, "
    "then as large as the entities ask for."
)


class Look(NamedTuple):
    """The mean graph after so many steps."""

    step: int
    nodes: float
    edges: float

    @property
    def size(self) -> float:
        return self.nodes + self.edges + 1


@dataclass(frozen=True)
class Watched:
    """A run that was looked at."""

    seed: int
    looks: list[Look]
    epoch_ends: list[int]  # in steps
    dev_f1: list[float]  # at each of them

    @property
    def smallest(self) -> Look:
        return min(self.looks, key=lambda look: look.size)


class Watcher:
    """Looks at the graphs after 0, 1, 2 … steps, then ever more rarely, and writes down what it sees."""

    def __init__(self, examples: Sequence[Example], path: Path) -> None:
        self.examples, self.path = examples, path
        self._batches: list[Batch] | None = None
        self._next = 0

    def __call__(self, step: int, tagger: Tagger) -> None:
        if step < self._next:
            return
        self._next = max(step + 1, int(GROWTH * step))
        if self._batches is None:
            sentences = [example.tokens for example in self.examples]
            plan = batches_by_length(list(map(len, sentences)), MOST_TOKENS, SENTENCES)
            self._batches = [tagger.batch([sentences[i] for i in batch]) for batch in plan]
        nodes, edges = self._counted(tagger)
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps([step, nodes, edges]) + "\n")

    def _counted(self, tagger: Tagger) -> tuple[float, float]:
        assert self._batches is not None
        nodes = edges = 0
        was_training = tagger.training
        tagger.eval()
        try:
            with torch.no_grad():
                for batch in self._batches:
                    distribution = tagger.distribution(batch.to(tagger.device))
                    assert isinstance(distribution, FilteredSemiMarkov)
                    nodes += len(distribution.candidates)
                    edges += int(distribution.candidates.num_edges.sum())
        finally:
            tagger.train(was_training)
        return nodes / len(self.examples), edges / len(self.examples)


def watched_run(plan: Plan, seed: int) -> Watched:
    """Trained while it is looked at; what was finished before is read."""
    run = run_of(plan, OURS, seed)
    folder = run.folder.with_name(f"{run.folder.name}_watched")
    path = folder / LOOKS
    if not (folder / RESULTS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        watcher = Watcher(_probe(plan), path)
        corpus, use_cpu = plan.corpus, plan.device == "cpu"
        train(run.config, corpus.train, corpus.dev, folder, resume=True, use_cpu=use_cpu, before_step=watcher)
    history = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["history"]
    by_step = {
        look.step: look for look in map(_look, path.read_text(encoding="utf-8").splitlines())
    }  # a resumed run looks again
    looks = [by_step[step] for step in sorted(by_step)]
    return Watched(seed, looks, [entry["step"] for entry in history], [entry["dev"]["f1"] for entry in history])


def _probe(plan: Plan) -> list[Example]:
    return [example for example in plan.corpus.dev if len(example)][:SENTENCES]


def _look(line: str) -> Look:
    return Look(*json.loads(line))


# ---- The page --------------------------------------------------------------------------------------------------------


def graph_size_page(plan: Plan, runs: Sequence[Watched]) -> ResultPage:
    about = ABOUT.format(sentences=len(_probe(plan)))
    tables = [Table([_stage_row(run) for run in runs], "The three stages", about)]
    looks = [row for run in runs for row in _look_rows(run)]
    return plan.page("graph-size", "Graph size during training", tables, draw(runs), {"looks": looks})


def _stage_row(run: Watched) -> Row:
    first, low, last = run.looks[0], run.smallest, run.looks[-1]
    return {
        "seed": run.seed,
        "before training": f"{first.size:.2f}",
        "smallest": f"{low.size:.2f}",
        "smallest, at step": low.step,
        "at the last look": f"{last.size:.2f}",
        "last look, at step": last.step,
        "steps in an epoch": run.epoch_ends[0],
        "best dev F1": percent(max(run.dev_f1)),
    }


def _look_rows(run: Watched) -> list[Row]:
    return [
        {
            "seed": run.seed,
            "steps": look.step,
            "epochs": f"{look.step / run.epoch_ends[0]:.2f}",
            "|V|": f"{look.nodes:.2f}",
            "|E|": f"{look.edges:.2f}",
            "|V| + |E| + 1": f"{look.size:.2f}",
        }
        for look in run.looks
    ]


def draw(runs: Sequence[Watched]) -> Figure:
    """Draw sizes over steps, both axes logarithmic but for the first step, which is 0."""
    figure, (axes,) = panels(7.2, 4)
    for run in runs:
        steps, sizes = [look.step for look in run.looks], [look.size for look in run.looks]
        axes.plot(steps, sizes, "o-", markersize=3, alpha=0.8, label=f"seed {run.seed}", color=_shade(run, runs))
    end = runs[0].epoch_ends[0]
    axes.axvline(end, color=QUIET_COLOUR, linestyle=":")
    axes.text(end, 1.0, "first epoch ", transform=axes.get_xaxis_transform(), ha="right", va="top", color=QUIET_COLOUR)
    axes.set_xscale("symlog", linthresh=1)
    axes.set(yscale="log", xlabel="training steps", ylabel="|V| + |E| + 1, mean per sentence")
    axes.set_xlim(left=0)
    if len(runs) > 1:
        axes.legend(frameon=False)
    return figure


def _shade(run: Watched, runs: Sequence[Watched]) -> str:
    others = ("#1d4ed8", "#15803d", "#a16207", "#7c3aed")
    index = [one.seed for one in runs].index(run.seed)
    return OURS_COLOUR if index == 0 else others[(index - 1) % len(others)]
