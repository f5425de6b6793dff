"""Half of the annotation hidden: trained as if nothing were there, on what is known, and on all of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.experiment import Splits, fit
from benchmarks.result_page import ResultPage, Table, percent
from spansieve.config import preset, with_settings
from spansieve.data.example import Example
from spansieve.evaluation.scores import Scores

Annotation = Literal["all", "half, the rest unknown", "half, the rest as null"]
ANNOTATIONS: tuple[Annotation, ...] = ("all", "half, the rest unknown", "half, the rest as null")
HEADS: tuple[str, ...] = ("fsemicrf", "crf", "semicrf")
BLOCK = 4  # tokens that are hidden or shown together, about


@dataclass(frozen=True)
class PartialRun:
    head: str
    annotation: Annotation
    seed: int
    entities: int  # of the training data, that were shown
    test: Scores
    seconds: float


def run_partial(
    splits: Splits,
    folder: Path,
    heads: Sequence[str] = HEADS,
    seeds: Sequence[int] = (0,),
    settings: dict[str, Any] | None = None,
    seen: Callable[[PartialRun], None] = lambda run: None,
) -> list[PartialRun]:
    """Each head on each annotation of the same sentences, with the same settings."""
    runs = []
    for seed in seeds:
        hidden = [half_hidden(example, random.Random(f"{seed}/{i}")) for i, example in enumerate(splits.train)]
        training: dict[Annotation, Sequence[Example]] = {
            "all": splits.train,
            "half, the rest unknown": hidden,
            "half, the rest as null": [replace(example, unknown=()) for example in hidden],
        }
        for head in heads:
            for annotation in ANNOTATIONS:
                config = with_settings(preset("demo"), (settings or {}) | {"model.head": head, "training.seed": seed})
                tested = fit(config, splits._replace(train=tuple(training[annotation])), folder / "run")
                shown = sum(len(example.segments) for example in training[annotation])
                runs.append(PartialRun(head, annotation, seed, shown, tested.test, tested.result.seconds))
                seen(runs[-1])
    return runs


def half_hidden(example: Example, chance: random.Random) -> Example:
    """About half of the tokens unknown, in ranges of a few, with the segments that lie there. None is cut."""
    inside = {i for segment in example.segments for i in range(segment.start + 1, segment.end)}
    borders = [0, *(i for i in range(BLOCK, len(example), BLOCK) if i not in inside), len(example)]
    unknown = [span for span in zip(borders, borders[1:]) if span[0] < span[1] and chance.random() < 0.5]
    shown = [s for s in example.segments if not any(start <= s.start and s.end <= end for start, end in unknown)]
    return replace(example, segments=tuple(shown), unknown=tuple(unknown))


def partial_row(run: PartialRun) -> dict[str, object]:
    micro = run.test.micro
    return {
        "head": run.head,
        "annotation": run.annotation,
        "seed": run.seed,
        "entities": f"{run.entities:,}",
        "precision": percent(micro.precision),
        "recall": percent(micro.recall),
        "F1": percent(micro.f1),
    }


def partial_page(runs: Sequence[PartialRun], splits: Splits, corpus: str) -> ResultPage:
    about = (
        f"{len(splits.train):,} training sentences; about half of their tokens hidden, in ranges of a few. *as null*: "
        "trained as if there were no entities in what is hidden; *unknown*: on the probability of all that agrees with "
        "what is shown; *all*: nothing hidden. Exact match on test."
    )
    rows = [partial_row(run) for run in runs]
    return ResultPage("partial_cpu", f"Training on half of the annotation: {corpus}", [about, Table(rows)])
