"""Text chunks, where nearly every token is in a segment: the same models on a corpus that is no NER."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiment import Splits, fit
from benchmarks.result_page import ResultPage, Table, percent
from spansieve.config import preset, with_settings
from spansieve.data.example import Example
from spansieve.evaluation.scores import Scores

HEADS: dict[str, str] = {
    "fsemicrf": "FSemiCRF",
    "crf": "CRF",
    "semicrf": "Semi-CRF",
    "semicrf-unit-null": "Semi-CRF, null one token wide",
}
MAX_WIDTH = 8  # of 1,000 chunks one is wider


@dataclass(frozen=True)
class ChunkingRun:
    """One head, trained and tested."""

    head: str
    test: Scores
    dev_f1: float
    best_epoch: int
    seconds: float  # of training
    lost: int  # training segments wider than the head's widest


def run_chunking(
    splits: Splits,
    folder: Path,
    heads: Sequence[str] = tuple(HEADS),
    settings: dict[str, Any] | None = None,
    seen: Callable[[ChunkingRun], None] = lambda run: None,
) -> list[ChunkingRun]:
    """Each head with the same encoder, settings and data, in a folder of its own; what stands there is not trained
    again."""
    runs = []
    for head in heads:
        wanted = {"model.max_width": MAX_WIDTH} | (settings or {}) | {"model.head": head}
        tested = fit(with_settings(preset("builtin"), wanted), splits, folder / head, keep=True)
        result = tested.result
        run = ChunkingRun(
            head, tested.test, result.dev["micro"]["f1"], result.best_epoch, result.seconds, result.counts.lost_to_width
        )
        runs.append(run)
        seen(run)
    return runs


def chunking_row(run: ChunkingRun) -> dict[str, object]:
    micro = run.test.micro
    return {
        "model": HEADS[run.head],
        "precision": percent(micro.precision),
        "recall": percent(micro.recall),
        "F1": percent(micro.f1),
        "dev F1": percent(run.dev_f1),
        "best epoch": run.best_epoch,
        "minutes": round(run.seconds / 60, 1),
        "lost": run.lost,
    }


def label_rows(runs: Sequence[ChunkingRun]) -> list[dict[str, object]]:
    """F1 by label, the most frequent first."""
    gold = {label: counts.gold for label, counts in runs[0].test.by_label.items()}
    labels = sorted(gold, key=lambda label: -gold[label])
    scores = {HEADS[run.head]: run.test.by_label for run in runs}
    rows: list[dict[str, object]] = []
    for label in labels:
        f1 = {name: percent(by_label[label].f1) if label in by_label else "0.00" for name, by_label in scores.items()}
        rows.append({"label": label, "gold": f"{gold[label]:,}", **f1})
    return rows


def covered(examples: Sequence[Example]) -> float:
    """The part of all tokens that is in a segment."""
    inside = sum(segment.width for example in examples for segment in example.segments)
    return inside / max(1, sum(map(len, examples)))


def chunking_page(runs: Sequence[ChunkingRun], splits: Splits, corpus: str) -> ResultPage:
    about = (
        f"{len(splits.train):,} training sentences; {100 * covered(splits.test):.1f} % of the tokens of test are in a "
        "chunk. Preset `builtin`, one seed, nothing pretrained. Exact match on test; *lost* are training chunks wider "
        "than the widest segment of a model. Minutes are those of training, dev scored included."
    )
    tables = [Table([chunking_row(run) for run in runs]), Table(label_rows(runs), "F1 by label")]
    return ResultPage("chunking_cpu", f"Chunking: {corpus}", [about, *tables])
