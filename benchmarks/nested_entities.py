"""Nested entities on a corpus that has them: nested models beside flat ones, on all, outer and inner segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.experiment import Splits
from benchmarks.result_page import ResultPage, Table, percent
from spansieve.config import Config, preset, with_settings
from spansieve.data.example import Example
from spansieve.data.overlap_resolution import flat_examples
from spansieve.evaluation.scores import LEVELS, Scores, evaluate_levels
from spansieve.models.storage import load_model
from spansieve.models.torch_backend import predict_segments
from spansieve.training.run import train

HEADS: dict[str, str] = {
    "nested": "nested: filter and laminar sets",
    "nested-filter-only": "nested: local classifier alone",
    "fsemicrf": "flat: FSemiCRF",
    "filter-only": "flat: local classifier alone",
}
MAX_WIDTH = 12


@dataclass(frozen=True)
class NestedRun:
    """One head, trained and tested."""

    head: str
    levels: dict[str, Scores]
    dev_f1: float
    best_epoch: int
    seconds: float  # of training
    lost: int  # training segments that the head cannot represent


def run_nested(
    splits: Splits,
    folder: Path,
    heads: Sequence[str] = tuple(HEADS),
    settings: dict[str, Any] | None = None,
    use_cpu: bool = True,
    seen: Callable[[NestedRun], None] = lambda run: None,
) -> list[NestedRun]:
    """Each head with the same encoder, settings and data, in a folder of its own. Gold is never flattened for the
    scores: what a flat model cannot say, it misses. The best epoch is that on all segments of dev. What was trained
    before in the same folder is not trained again."""
    runs = []
    for head in heads:
        config = _config(head, settings or {})
        result = train(config, splits.train, splits.dev, folder / head, resume=True, use_cpu=use_cpu)
        tagger = load_model(result.model, "cpu" if use_cpu else "cuda")
        found = predict_segments(tagger, [example.tokens for example in splits.test])
        levels = evaluate_levels([example.segments for example in splits.test], [one.segments for one in found])
        lost = result.counts.lost_to_overlaps + result.counts.lost_to_width
        run = NestedRun(head, levels, result.dev["micro"]["f1"], result.best_epoch, result.seconds, lost)
        runs.append(run)
        seen(run)
    return runs


def _config(head: str, settings: dict[str, Any]) -> Config:
    config = with_settings(preset("builtin"), {"model.max_width": MAX_WIDTH} | settings)
    return replace(config, model=replace(config.model, head=head))


def nested_row(run: NestedRun) -> dict[str, object]:
    figures: dict[str, object] = {"model": HEADS[run.head]}
    for level in LEVELS:
        scores = run.levels[level]
        figures |= {f"{level} P": percent(scores.precision), f"{level} R": percent(scores.recall)}
        figures[f"{level} F1"] = percent(scores.f1)
    figures |= {"dev F1": percent(run.dev_f1), "best epoch": run.best_epoch}
    return figures | {"minutes": round(run.seconds / 60, 1), "lost": run.lost}


def flat_ceiling(examples: Sequence[Example]) -> float:
    """The F1 of a flat model that makes no mistake: it finds the outermost segments and nothing else."""
    flattened, lost = flat_examples(examples)
    found = sum(len(example.segments) for example in flattened)
    return 2 * found / (2 * found + lost)


def nested_page(runs: Sequence[NestedRun], splits: Splits, corpus: str, device: str) -> ResultPage:
    about = (
        f"{len(splits.train):,} training sentences. P and R are precision and recall on test, exact match; *lost* are "
        "training entities that a model cannot represent. A flat model that makes no mistake has an F1 of "
        f"{percent(flat_ceiling(splits.test))} on all entities of test."
    )
    rows = [nested_row(run) for run in runs]
    return ResultPage(f"nested_{corpus}_{device}", f"Nested entities: {corpus}", [about, Table(rows)], device=device)
