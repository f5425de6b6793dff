"""Pretrained word vectors in the built-in encoder: F1 with and without, on the English corpora, several seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.reproduce.all_corpora import CORPORA, machines, read_entry
from benchmarks.reproduce.plan import OURS, Plan
from benchmarks.reproduce.runs import Outcome
from benchmarks.result_page import ResultPage, Row, Spread, Table
from spansieve.config import BUILTIN
from spansieve.training.run_folder import RESULTS

ENGLISH = {entry.name: replace(entry, corrected=None) for entry in CORPORA if entry.is_english}
NONE = "none"
SETTING = "model.builtin.vectors"


def vectors_plans(
    data: Path, paths: Sequence[str], corpora: Sequence[str], settings: Mapping[str, Any], **shared: Any
) -> list[Plan]:
    """One plan per corpus without vectors, and one with those of each file; CORPUS=FILE is for that corpus alone.
    `shared` has the rest of a plan."""
    alone = {path: tuple(path.split("=", 1)) for path in paths if path.split("=")[0] in ENGLISH}
    plans = []
    for name in corpora:
        corpus = read_entry(ENGLISH[name], data)
        own_paths = [alone[path][1] if path in alone else path for path in paths if alone.get(path, (name,))[0] == name]
        for path in (None, *own_paths):
            own = {**settings, SETTING: path}
            plans.append(Plan(corpus, encoder=BUILTIN, settings=own, heads=(OURS,), **shared))
    return plans


def vectors_row(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, object]:
    dev, test = (Spread.of([getattr(one, split).f1 for one in outcomes]).percent() for split in ("dev", "test"))
    return {"corpus": plan.corpus.name, "vectors": _name(plan), "dev F1": dev, "test F1": test}


def _name(plan: Plan) -> str:
    path = plan.settings[SETTING]
    return NONE if path is None else Path(path).name


def vectors_page(plans: Sequence[Plan], outcomes: Sequence[Sequence[Outcome]], note: str = "") -> ResultPage:
    rows = [vectors_row(plan, some) for plan, some in zip(plans, outcomes)]
    seeds = ", ".join(map(str, plans[0].seeds))
    about = (
        f"Preset `builtin`, by the sentence, seeds {seeds}: mean and sample standard deviation of micro F1, percent, "
        "at the epoch that is best on dev. Vectors are frozen, rounded to 8-bit numbers; with and without them, all "
        "other settings are the same, and none was chosen by these figures."
    )
    parts: list[str | Table] = [about, *filter(None, [note]), Table(rows), _coverage(plans, outcomes)]
    csv = [_seed_row(plan, one) for plan, some in zip(plans, outcomes) for one in some]
    name, title = f"word_vectors_{plans[0].device}", "Pretrained word vectors in the built-in encoder"
    return ResultPage(name, title, parts, csv=csv, machine=machines(chain.from_iterable(outcomes)))


def _seed_row(plan: Plan, one: Outcome) -> Row:
    own = {"corpus": plan.corpus.name, "vectors": _name(plan), "seed": one.run.seed}
    return own | {"dev": f"{100 * one.dev.f1:.2f}", "test": f"{100 * one.test.f1:.2f}", "best epoch": one.best_epoch}


def _coverage(plans: Sequence[Plan], outcomes: Sequence[Sequence[Outcome]]) -> str:
    """How many of the words have a vector, as each run has printed it."""
    lines = []
    for plan, (one, *_) in zip(plans, outcomes):
        if _name(plan) != NONE:
            counts = json.loads((one.run.folder / RESULTS).read_text(encoding="utf-8"))["counts"]
            lines.append(f"- {plan.corpus.name}: {counts['vectors']}")
    return "\n".join(lines)
