"""Pretrained word vectors in the built-in encoder: F1 with and without, on the English corpora, several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reproduce.all_corpora import CORPORA, read_entry
from benchmarks.result_page import ResultPage, Spread, Table
from spansieve.config import preset, with_settings
from spansieve.training.run import TrainingResult, train

ENGLISH = tuple(entry for entry in CORPORA if entry.is_english)
NONE = "none"


class VectorsRun(NamedTuple):
    """One model, trained and tested."""

    corpus: str
    vectors: str  # the file's name, or none
    seed: int
    result: TrainingResult
    megabytes: float  # of the model's folder


def run_vectors(
    data: Path,
    paths: Sequence[Path],
    folder: Path,
    corpora: Sequence[str],
    seeds: Sequence[int],
    settings: dict[str, Any],
    use_cpu: bool = True,
    seen: Callable[[str], None] = lambda line: None,
) -> list[VectorsRun]:
    """Train with each of the files and without any, in a folder of its own: what stands there is not trained again."""
    runs = []
    for entry in ENGLISH:
        if corpora and entry.name not in corpora:
            continue
        corpus = read_entry(entry, data)
        for path in (None, *paths):
            for seed in seeds:
                name = NONE if path is None else path.name
                wanted = settings | {"training.seed": seed, "model.builtin.vectors": path and str(path)}
                result = train(
                    with_settings(preset("builtin"), wanted),
                    corpus.train,
                    corpus.dev,
                    folder / entry.name / name / str(seed),
                    test_examples=corpus.test,
                    resume=True,
                    use_cpu=use_cpu,
                )
                size = sum(file.stat().st_size for file in result.model.rglob("*") if file.is_file())
                runs.append(VectorsRun(entry.name, name, seed, result, size / 1e6))
                seen(f"{entry.name} {name} seed {seed}: dev {100 * result.dev['micro']['f1']:.2f}")
    return runs


def vectors_rows(runs: Sequence[VectorsRun]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for corpus, vectors in dict.fromkeys((run.corpus, run.vectors) for run in runs):
        own = [run for run in runs if (run.corpus, run.vectors) == (corpus, vectors)]
        dev, test = (
            Spread.of([scores["micro"]["f1"] for scores in found]).percent()
            for found in ([run.result.dev for run in own], [run.result.test or {} for run in own])
        )
        minutes = sum(run.result.seconds for run in own) / len(own) / 60
        rows.append(
            {
                "corpus": corpus,
                "vectors": vectors,
                "dev F1": dev,
                "test F1": test,
                "minutes": f"{minutes:.1f}",
                "MB": f"{own[0].megabytes:.0f}",
            }
        )
    return rows


def vectors_page(runs: Sequence[VectorsRun], device: str) -> ResultPage:
    seeds = sorted({run.seed for run in runs})
    about = (
        f"Preset `builtin`, by the sentence, seeds {', '.join(map(str, seeds))}; mean and deviation. Vectors are "
        "frozen; all rows of a file are kept, as 8-bit numbers. Minutes are those of training, dev scored included; "
        "MB are those of the model's folder."
    )
    covered = {f"{run.corpus}: {run.result.counts.vectors}" for run in runs if run.result.counts.vectors}
    coverage = "\n".join(f"- {line}" for line in sorted(covered))
    rows = vectors_rows(runs)
    name = "word_vectors_cpu" if device == "cpu" else "word_vectors_cuda"
    title = "Pretrained word vectors in the built-in encoder"
    return ResultPage(name, title, [about, Table(rows), coverage], csv=rows, device=device)
