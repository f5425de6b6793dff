"""One table over all corpora: F1 of every head, and whether FSemiCRF's differences to the others are chance.

The corpora and what each is read with stand here, so that the published page cannot be of a selection. Settings are
chosen by dev scores alone (`dev_table`); the page, with test scores, is made once, after they are fixed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.plots import COLOURS, Figure, panels
from benchmarks.reproduce.corpora import Corpus, files_in, read_corpus
from benchmarks.reproduce.paired_differences import PairedDifference, by_document, holm, paired_difference
from benchmarks.reproduce.plan import NAMES, OURS, Plan
from benchmarks.reproduce.runs import Outcome, by_head
from benchmarks.reproduce.table1 import OUTCOMES, gold_outcomes_row, pooled, seed_row
from benchmarks.result_page import ResultPage, Row, Spread, Table, git
from spansieve.config import BUILTIN, preset, presets, to_dict
from spansieve.data.example import DataError, Example
from spansieve.data.formats import read_examples
from spansieve.evaluation.scores import Scores, evaluate
from spansieve.evaluation.significance import paired_counts

OTHERS = tuple(head for head in NAMES if head != OURS)
MEAN = "mean"
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus of the table, in a folder of its name."""

    name: str
    is_english: bool  # read by the pretrained encoder; the others by the built-in one
    is_nested: bool = False  # then only the outermost segments count
    corrected: str | None = None  # the folder of the same test text with corrected labels


CORPORA = (
    CorpusEntry("conll2003", is_english=True, corrected="cleanconll2003"),
    CorpusEntry("wnut17", is_english=True),
    CorpusEntry("bionlp13cg", is_english=True),
    CorpusEntry("genia", is_english=True, is_nested=True),
    CorpusEntry("conll2000", is_english=True),
    CorpusEntry("germeval2014", is_english=False, is_nested=True),
    CorpusEntry("newsfane", is_english=False),
)


def read_entry(entry: CorpusEntry, folder: Path) -> Corpus:
    """The corpus from its folder within `folder`."""
    corpus = read_corpus(files_in(folder / entry.name), entry.name)
    if entry.is_nested:
        corpus = corpus.outermost()
    if entry.corrected is None:
        return corpus
    paths = sorted((folder / entry.corrected).glob("*test*"))
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise DataError(f"{folder / entry.corrected} must hold one file whose name has test in it, got {names}")
    return replace(corpus, other_tests={entry.corrected: read_examples(paths[0])})


def plans_for(
    folder: Path,
    names: Sequence[str] | None,
    encoder: str,
    shared: Plan,
    pretrained: Mapping[str, Any],
) -> list[Plan]:
    """One plan per corpus in `folder`, all of the table or those named; `shared` has what they have in common."""
    known = {entry.name: entry for entry in CORPORA}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"a corpus must be one of {', '.join(known)}, got {unknown[0]!r}")
    plans = []
    for entry in (known[name] for name in names or known):
        corpus = read_entry(entry, folder)
        if entry.is_english:
            plans.append(replace(shared, corpus=corpus, encoder=encoder, settings={**shared.settings, **pretrained}))
        else:
            plans.append(replace(shared, corpus=corpus, encoder=BUILTIN))
    return plans


def preset_prints() -> dict[str, str]:
    """A fingerprint of the settings of each of the two presets; those of vectors say nothing where there are none, and
    neither does a bound on the memory of CUDA graphs."""
    prints = {}
    for name in ("builtin", "pretrained"):
        settings = to_dict(preset(name))
        settings["training"]["cuda_graphs"] = bool(settings["training"]["cuda_graphs"])
        if settings["training"]["graph_memory"] is None:
            del settings["training"]["graph_memory"]
        for setting in ("vectors", "max_vectors", "train_vectors"):
            if not settings["model"]["builtin"][setting]:
                del settings["model"]["builtin"][setting]
        prints[name] = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    return prints


# ---- Scores ----------------------------------------------------------------------------------------------------------


class ScoredSet(NamedTuple):
    """Test sentences with what each head's runs found in them."""

    name: str
    examples: Sequence[Example]
    found: Mapping[str, list[Any]]  # by head: one list of segments per sentence for each seed

    @property
    def gold(self) -> list[Any]:
        return [example.segments for example in self.examples]

    @property
    def has_documents(self) -> bool:
        return any(example.document is not None for example in self.examples)

    def f1(self, head: str) -> list[float]:
        """One figure per seed."""
        return [evaluate(self.gold, found).f1 for found in self.found[head]]

    def counts(self, head: str) -> np.ndarray:
        """What FSemiCRF and this head count up to, by document or sentence, all seeds together: see `paired_counts`."""
        ours, theirs = self.found[OURS], self.found[head]
        rows = paired_counts(pooled([self.gold] * len(ours)), pooled(theirs), pooled(ours))
        return by_document(rows, [example.document for example in self.examples]) if self.has_documents else rows


def scored_sets(plan: Plan, outcomes: Sequence[Outcome]) -> list[ScoredSet]:
    """The corpus's own test set first."""
    groups = by_head(outcomes)
    own = {head: [outcome.found for outcome in some] for head, some in groups.items()}
    sets = [ScoredSet(plan.corpus.name, plan.corpus.test, own)]
    for name, examples in plan.corpus.other_tests.items():
        found = {head: [outcome.found_in[name] for outcome in some] for head, some in groups.items()}
        sets.append(ScoredSet(name, examples, found))
    return sets


Differences = Mapping[tuple[str, str], PairedDifference]  # by the name of a test set, or MEAN, and head


def differences(main: Sequence[ScoredSet], other: Sequence[ScoredSet], resamples: int = 10_000) -> Differences:
    """FSemiCRF's F1 less each other head's, on every test set and on the mean of the main ones, tested; p-values are
    corrected for the number of all of them."""
    cells: dict[tuple[str, str], PairedDifference] = {}
    for head in OTHERS:
        counts = {one.name: one.counts(head) for one in (*main, *other)}
        for name, rows in counts.items():
            cells[name, head] = paired_difference([rows], resamples=resamples)
        cells[MEAN, head] = paired_difference([counts[one.name] for one in main], resamples=resamples)
    corrected = holm([cell.p_value for cell in cells.values()])
    return {key: cell._replace(p_value=p) for (key, cell), p in zip(cells.items(), corrected)}


# ---- Tables ----------------------------------------------------------------------------------------------------------

ABOUT_TEST = (
    "Exact match, micro F1, percent: mean and sample standard deviation over seeds; the epoch that is tested is the "
    "best on dev. The mean is that of the corpora above it. Corrected labels are for the models of the corpus "
    "whose labels they correct, and are not in the mean."
)
ABOUT_DEV = "What settings are chosen by: best epoch, mean and sample standard deviation over seeds."
ABOUT_DIFFERENCES = (
    "F1 of FSemiCRF less that of the other head, percent, with a 95 % interval of the paired bootstrap and, in "
    "brackets, the two-sided p-value of approximate randomisation (10,000 resamples each), corrected by Holm's method "
    "for the number of all cells. What is resampled or swapped is a document, where the corpus has documents, or a "
    "sentence, with the predictions of all seeds on it: F1 is that of all seeds' counts together. Bold: p < 0.05. "
    "The intervals are of chance in the choice of test text; chance in training is in the standard deviations above."
)


def f1_rows(names: Sequence[str], figures: Sequence[Mapping[str, Sequence[float]]], extra: int = 0) -> list[Row]:
    """One row per corpus from each head's figures of its seeds; a mean over all but the last `extra`, before those."""
    rows = [{"corpus": name} | _cells(row) for name, row in zip(names, figures)]
    counted = figures[: len(figures) - extra]
    means = {head: 100 * statistics.mean(statistics.mean(row[head]) for row in counted) for head in NAMES}
    mean = {"corpus": f"**{MEAN}**"} | {NAMES[head]: f"**{value:.2f}**" for head, value in means.items()}
    return [*rows[: len(counted)], mean, *rows[len(counted) :]]


def _cells(figures: Mapping[str, Sequence[float]]) -> dict[str, object]:
    return {NAMES[head]: Spread.of(values).percent() for head, values in figures.items()}


def dev_table(plans: Sequence[Plan], scores: Sequence[Sequence[Scores]]) -> Table:
    """The dev scores of all runs, in the plans' order of runs."""
    figures = []
    for plan, some in zip(plans, scores):
        values: dict[str, list[float]] = {head: [] for head in plan.heads}
        for head, one in zip(plan.heads * len(plan.seeds), some):
            values[head].append(one.f1)
        figures.append(values)
    return Table(f1_rows([plan.corpus.name for plan in plans], figures), "Dev F1", ABOUT_DEV)


def _difference_rows(found: Differences, sets: Sequence[ScoredSet]) -> list[Row]:
    units = {one.name: "documents" if one.has_documents else "sentences" for one in sets}
    return [
        {"corpus": name, "resampled": unit} | {NAMES[head]: _difference_cell(found[name, head]) for head in OTHERS}
        for name, unit in (*units.items(), (MEAN, "each as above"))
    ]


def _difference_cell(cell: PairedDifference) -> str:
    value, low, high = (100 * x for x in cell.difference)
    text = f"{value:+.2f} {low:+.2f} … {high:+.2f} ({_p(cell.p_value)})"
    return f"**{text}**" if cell.p_value < SIGNIFICANT else text


def _p(value: float) -> str:
    return f"{value:.4f}" if value < 0.01 else f"{value:.2f}"


# ---- The page --------------------------------------------------------------------------------------------------------


def all_corpora_page(plans: Sequence[Plan], outcomes: Sequence[Sequence[Outcome]]) -> ResultPage:
    sets = [scored_sets(plan, some) for plan, some in zip(plans, outcomes)]
    main, other = [some[0] for some in sets], [one for some in sets for one in some[1:]]
    figures = [{head: one.f1(head) for head in NAMES} for one in (*main, *other)]
    found = differences(main, other)
    seeds = [{"corpus": plan.corpus.name} | dict(seed_row(o)) for plan, some in zip(plans, outcomes) for o in some]
    names = [one.name for one in (*main, *other)]
    tables = [
        Table(f1_rows(names, figures, len(other)), "Test F1", ABOUT_TEST),
        Table(_difference_rows(found, [*main, *other]), "FSemiCRF less the other heads", ABOUT_DIFFERENCES),
        dev_table(plans, [[outcome.dev for outcome in some] for some in outcomes]),
        Table(list(_gold_outcomes(plans, outcomes)), "Gold lost", OUTCOMES),
    ]
    return ResultPage(
        "all_corpora",
        "All corpora: every head, one protocol",
        [*_about(plans), *tables, draw(found, [*main, *other])],
        tables[0].rows,
        {"seeds": seeds},
        machine=machines(chain.from_iterable(outcomes)),
    )


def machines(outcomes: Iterable[Outcome]) -> str:
    """Where the runs were trained, and by which versions."""
    every = list(outcomes)
    machines = sorted({outcome.device for outcome in every})
    versions = sorted({f"{name} {version}" for outcome in every for name, version in outcome.versions.items()})
    return f"Trained on: {', '.join(machines)}; {', '.join(versions)}"


def _about(plans: Sequence[Plan]) -> list[str]:
    commit = git("log", "-1", "--format=%h", "--", ".", folder=presets()["builtin"].parent)
    prints = ", ".join(f"{name} {digest}" for name, digest in preset_prints().items())
    lines = [
        f"Presets{f' of commit {commit}' if commit else ''}: {prints}.",
        f"Seeds: {', '.join(map(str, plans[0].seeds))}.",
    ]
    for name in dict.fromkeys(plan.preset_name for plan in plans):
        some = [plan for plan in plans if plan.preset_name == name]
        lines.append(f"**Encoder {some[0].encoder_name}**, for {', '.join(plan.corpus.name for plan in some)}.")
        lines += some[0].describe_rows()
    return [*lines, "\n".join(f"- {plan.corpus.describe()}" for plan in plans)]


def _gold_outcomes(plans: Sequence[Plan], outcomes: Sequence[Sequence[Outcome]]) -> Iterable[Row]:
    for plan, some in zip(plans, outcomes):
        for head, of_head in by_head(some).items():
            if gold_outcomes := [outcome.gold_outcomes for outcome in of_head if outcome.gold_outcomes is not None]:
                yield {"corpus": plan.corpus.name} | dict(gold_outcomes_row(head, gold_outcomes))


def draw(found: Differences, sets: Sequence[ScoredSet]) -> Figure:
    """Draw FSemiCRF's difference to each head on each corpus, with its interval."""
    names = [*(one.name for one in sets), MEAN]
    figure, (axes,) = panels(8.0, 0.62 * len(names) + 1.2)
    step = 0.8 / len(OTHERS)
    for k, head in enumerate(OTHERS):
        cells = [found[name, head].difference for name in names]
        places = [len(names) - 1 - i + 0.4 - step * (k + 0.5) for i in range(len(names))]
        values = [100 * cell.value for cell in cells]
        errors = [[100 * (c.value - c.low) for c in cells], [100 * (c.high - c.value) for c in cells]]
        axes.errorbar(values, places, xerr=errors, fmt="o", ms=4, lw=1.2, color=COLOURS[head], label=NAMES[head])
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(names)), list(reversed(names)))
    axes.set_xlabel(
        "test F1 of FSemiCRF less that of the other head, with 95 % intervals (right of 0: FSemiCRF is ahead)"
    )
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.grid(visible=False, axis="y")
    return figure
