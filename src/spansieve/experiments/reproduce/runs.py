"""The training runs of a table, each in a folder of its own. What is finished is not trained again.

A run's folder is named after its head, its seed and everything that its result follows from. Beside what `train` leaves
there it has, once it is finished,

test.jsonl   what the model finds in the test sentences
test.json    of which test data, what became of its gold, and on which device all this was
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from spansieve.config import Config, to_dict
from spansieve.data.formats.jsonl import read_jsonl, write_jsonl
from spansieve.evaluation.fates import Fates, predict_with_fates
from spansieve.evaluation.scores import Scores, evaluate
from spansieve.experiments.reproduce.corpora import Corpus
from spansieve.experiments.reproduce.plan import Plan
from spansieve.models.disk import write_durably
from spansieve.models.storage import load_model
from spansieve.prediction.cores import usable_cores
from spansieve.segments import NamedSegment
from spansieve.training.folder import CHECKPOINTS, MODEL, RESULTS, about_run
from spansieve.training.run import train

FOUND, TEST = "test.jsonl", "test.json"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    head: str
    seed: int
    config: Config
    folder: Path

    def __str__(self) -> str:
        return f"{self.head}, seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What a finished run reached."""

    run: Run
    dev: Scores
    test: Scores
    found: list[tuple[NamedSegment, ...]]  # in each test sentence
    fates: Fates | None  # of test gold, where the model is a filtered one
    best_epoch: int
    seconds: float
    device: str


def runs_of(plan: Plan) -> list[Run]:
    """Seed by seed, so that what an interrupted table has trained is comparable."""
    return [run_of(plan, head, seed) for seed in plan.seeds for head in plan.heads]


def run_of(plan: Plan, head: str, seed: int) -> Run:
    config, corpus = plan.config(head, seed), plan.corpus
    about = about_run(config, (), (), processes=1)
    about["data"] = {"training": corpus.prints["train"], "dev": corpus.prints["dev"]}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]
    return Run(head, seed, config, plan.runs / f"{plan.corpus.name}_{plan.encoder_name}" / f"{head}_{seed}_{digest}")


def outcomes(plan: Plan, on_end: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
    """Of all runs of the plan, in its order; those that are not finished are trained first, and told as they end."""
    runs = runs_of(plan)
    missing = [run for run in runs if not is_finished(run, plan.corpus)]
    if plan.jobs > 1 and len(missing) > 1:
        _train_side_by_side(plan, missing, on_end)
    else:
        for run in missing:
            finish(run, plan.corpus, plan.device)
            on_end(read_outcome(run, plan.corpus))
    return [read_outcome(run, plan.corpus) for run in runs]


def is_finished(run: Run, corpus: Corpus) -> bool:
    if not (run.folder / RESULTS).exists() or not (run.folder / TEST).exists():
        return False
    results, test = _read(run.folder / RESULTS), _read(run.folder / TEST)
    return results["config"] == _plain(run.config) and test["data"] == corpus.prints["test"]


def finish(run: Run, corpus: Corpus, device: str) -> None:
    """Train, or go on training; then leave the test's predictions in the folder."""
    is_trained = (run.folder / RESULTS).exists() and _read(run.folder / RESULTS)["config"] == _plain(run.config)
    if not is_trained:
        train(run.config, corpus.train, corpus.dev, run.folder, resume=True, use_cpu=device == "cpu")
    found, fates = predict_with_fates(load_model(run.folder / MODEL, device), corpus.test)
    write_jsonl([replace(e, segments=tuple(one.segments)) for e, one in zip(corpus.test, found)], run.folder / FOUND)
    lost = None if fates is None else fates.to_dict()
    test = {"data": corpus.prints["test"], "fates": lost, "device": device}
    write_durably(run.folder / TEST, json.dumps(test, indent=2) + "\n")
    shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)  # several times the model's size, and of no more use


def read_outcome(run: Run, corpus: Corpus) -> Outcome:
    results, test = _read(run.folder / RESULTS), _read(run.folder / TEST)
    found = [example.segments for example in read_jsonl(run.folder / FOUND)]
    return Outcome(
        run=run,
        dev=Scores.from_dict(results["dev"]),
        test=evaluate([example.segments for example in corpus.test], found, list(map(len, corpus.test))),
        found=found,
        fates=None if test["fates"] is None else Fates(**test["fates"]),
        best_epoch=results["best_epoch"],
        seconds=results["seconds"],
        device=test["device"],
    )


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _plain(config: Config) -> Any:
    """As it comes back from a JSON file."""
    return json.loads(json.dumps(to_dict(config)))


# ---- Side by side ----------------------------------------------------------------------------------------------------


def _train_side_by_side(plan: Plan, runs: Sequence[Run], on_end: Callable[[Outcome], None]) -> None:
    """Each process with its share of the cores: they would wait for each other otherwise."""
    threads = max(1, usable_cores() // plan.jobs)
    failed: dict[Run, BaseException] = {}
    with (
        _limited(threads),
        ProcessPoolExecutor(plan.jobs, get_context("spawn"), torch.set_num_threads, (threads,)) as pool,
    ):
        waiting = {pool.submit(finish, run, plan.corpus, plan.device): run for run in runs}
        for future in as_completed(waiting):
            run, error = waiting[future], future.exception()
            if error is None:
                on_end(read_outcome(run, plan.corpus))
            else:
                failed[run] = error
    if failed:
        run, error = next(iter(failed.items()))
        reason = "its process was killed, perhaps for memory" if isinstance(error, BrokenProcessPool) else error
        raise RuntimeError(
            f"{len(failed)} of {len(runs)} runs failed, the first ({run}): {reason}; "
            "the same command goes on with what is missing"
        ) from error


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Of the processes that start meanwhile: libraries read this when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
