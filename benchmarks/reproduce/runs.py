"""The training runs of a table, each in a folder of its own. What is finished is not trained again.

A run's folder is named after its head, its seed and everything that its result follows from. Beside what `train` leaves
there it has, once it is finished,

test.jsonl   what the model finds in the test sentences; NAME.jsonl in those of another test set
test.json    of which test data, what became of its gold, and on which device all this was

No figure of test data is made before a table is written, when every run is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.reproduce.corpora import Corpus
from benchmarks.reproduce.plan import Plan
from spansieve.config import Config, to_dict
from spansieve.data.example import Example
from spansieve.data.formats.jsonl import read_jsonl, write_jsonl
from spansieve.decoding.prediction import Prediction
from spansieve.evaluation.scores import Scores, evaluate
from spansieve.models.storage import load_model
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.atomic import write_durably
from spansieve.prediction.onnx.session import usable_cores
from spansieve.prediction.predictor import GoldOutcomes, Predictor
from spansieve.segments import NamedSegment
from spansieve.training.run import train
from spansieve.training.run_folder import CHECKPOINTS, MODEL, RESULTS, about_run

FOUND, TEST = "test.jsonl", "test.json"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Run:
    head: str  # the row's key
    seed: int
    config: Config
    folder: Path

    def __str__(self) -> str:
        return f"{self.folder.parent.name}: {self.head}, seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What a finished run reached."""

    run: Run
    dev: Scores
    test: Scores
    found: list[tuple[NamedSegment, ...]]  # in each test sentence
    found_in: Mapping[str, list[tuple[NamedSegment, ...]]]  # in the sentences of the corpus's other test sets
    gold_outcomes: GoldOutcomes | None  # of test gold, where the model is a filtered one
    best_epoch: int
    seconds: float
    device: str
    versions: Mapping[str, str]  # of the packages that trained it


OnEnd = Callable[[Run, Scores], None]


def by_head(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each head, in the order of its seeds."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.run.head, []).append(outcome)
    return groups


def runs_of(plan: Plan) -> list[Run]:
    """Seed by seed, so that what an interrupted table has trained is comparable."""
    return [run_of(plan, head, seed) for seed in plan.seeds for head in plan.heads]


def run_of(plan: Plan, head: str, seed: int) -> Run:
    config, corpus = plan.config(head, seed), plan.corpus
    about = about_run(config, (), (), processes=1)
    about["data"] = {"training": corpus.prints["train"], "dev": corpus.prints["dev"]}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]
    return Run(head, seed, config, plan.runs / f"{plan.corpus.name}_{plan.encoder_name}" / f"{head}_{seed}_{digest}")


def outcomes(plans: Sequence[Plan], on_end: OnEnd = lambda run, dev: None) -> list[list[Outcome]]:
    """The outcomes of all runs of each plan, in its order; what is not finished is trained first."""
    train_missing(plans, on_end, with_test=True)
    return [[read_outcome(run, plan.corpus) for run in runs_of(plan)] for plan in plans]


def dev_outcomes(plans: Sequence[Plan], on_end: OnEnd = lambda run, dev: None) -> list[list[Scores]]:
    """The dev scores of all runs of each plan: what settings are chosen by. No test sentence is looked at."""
    train_missing(plans, on_end, with_test=False)
    return [[dev_scores(run) for run in runs_of(plan)] for plan in plans]


def train_missing(plans: Sequence[Plan], on_end: OnEnd, with_test: bool) -> None:
    """Train what is not finished, side by side over all plans, which have one device and one number of jobs.

    As a run ends, `on_end` is given its dev scores.
    """
    is_done = is_finished if with_test else is_trained
    missing = [(run, plan.corpus) for plan in plans for run in runs_of(plan) if not is_done(run, plan.corpus)]
    # The longest first, so that no long one is left at the end by itself.
    missing.sort(key=lambda pair: -len(pair[1].train) * pair[0].config.training.epochs)
    device, jobs = plans[0].device, plans[0].jobs
    tasks = {run: (finish, (run, corpus, device, with_test)) for run, corpus in missing}
    side_by_side(tasks, jobs, lambda run: on_end(run, dev_scores(run)))


def is_trained(run: Run, corpus: Corpus) -> bool:
    return (run.folder / RESULTS).exists() and _read(run.folder / RESULTS)["config"] == _plain(run.config)


def is_finished(run: Run, corpus: Corpus) -> bool:
    """Trained, and its predictions on the test data are there."""
    path = run.folder / TEST
    return is_trained(run, corpus) and path.exists() and _read(path)["data"] == _test_prints(corpus)


def finish(run: Run, corpus: Corpus, device: str, with_test: bool = True) -> None:
    """Train, or go on training; then, with test, leave the predictions on the test data in the folder."""
    if not is_trained(run, corpus):
        train(run.config, corpus.train, corpus.dev, run.folder, resume=True, use_cpu=device == "cpu")
    shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)  # several times the model's size, and of no more use
    if with_test:
        _predict_test(run, corpus, device)


def _predict_test(run: Run, corpus: Corpus, device: str) -> None:
    tagger = load_model(run.folder / MODEL, device)
    found, gold_outcomes = Predictor(tagger).predict_examples(corpus.test)
    _write_found(run.folder / FOUND, corpus.test, found)
    for name, examples in corpus.other_tests.items():
        found = predict_segments(tagger, [example.tokens for example in examples])
        _write_found(run.folder / f"{name}.jsonl", examples, found)
    lost = None if gold_outcomes is None else gold_outcomes.to_dict()
    test = {"data": _test_prints(corpus), "gold_outcomes": lost, "device": _device_name(device)}
    write_durably(run.folder / TEST, json.dumps(test, indent=2) + "\n")


def _write_found(path: Path, examples: Sequence[Example], found: Sequence[Prediction]) -> None:
    write_jsonl([replace(e, segments=tuple(one.segments)) for e, one in zip(examples, found)], path)


def _test_prints(corpus: Corpus) -> dict[str, str]:
    return {name: corpus.prints[name] for name in ("test", *corpus.other_tests)}


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


def dev_scores(run: Run) -> Scores:
    return Scores.from_dict(_read(run.folder / RESULTS)["dev"])


def read_outcome(run: Run, corpus: Corpus) -> Outcome:
    results, test = _read(run.folder / RESULTS), _read(run.folder / TEST)
    found = _read_found(run.folder / FOUND)
    return Outcome(
        run=run,
        dev=dev_scores(run),
        test=evaluate([example.segments for example in corpus.test], found, list(map(len, corpus.test))),
        found=found,
        found_in={name: _read_found(run.folder / f"{name}.jsonl") for name in corpus.other_tests},
        gold_outcomes=None if test["gold_outcomes"] is None else GoldOutcomes(**test["gold_outcomes"]),
        best_epoch=results["best_epoch"],
        seconds=results["seconds"],
        device=test["device"],
        versions=results["versions"],
    )


def _read_found(path: Path) -> list[tuple[NamedSegment, ...]]:
    return [example.segments for example in read_jsonl(path)]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _plain(config: Config) -> Any:
    """As it comes back from a JSON file."""
    return json.loads(json.dumps(to_dict(config)))


# ---- Side by side ----------------------------------------------------------------------------------------------------


def side_by_side(
    tasks: Mapping[Run, tuple[Callable[..., None], Sequence[Any]]], jobs: int, on_end: Callable[[Run], None]
) -> None:
    """Call the function of each run; with several jobs in processes, each with its share of the cores: they would wait
    for each other otherwise."""
    if jobs == 1 or len(tasks) < 2:
        for run, (function, arguments) in tasks.items():
            function(*arguments)
            on_end(run)
        return
    threads = max(1, usable_cores() // jobs)
    failed: dict[Run, BaseException] = {}
    with (
        limited_threads(threads),
        ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (threads,)) as pool,
    ):
        waiting = {pool.submit(function, *arguments): run for run, (function, arguments) in tasks.items()}
        for future in as_completed(waiting):
            run, error = waiting[future], future.exception()
            if error is None:
                on_end(run)
            else:
                failed[run] = error
    if failed:
        run, error = next(iter(failed.items()))
        reason = "its process was killed, perhaps for memory" if isinstance(error, BrokenProcessPool) else error
        raise RuntimeError(
            f"{len(failed)} of {len(tasks)} runs failed, the first ({run}): {reason}; "
            "the same command goes on with what is missing"
        ) from error


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Limit the threads of the processes that start meanwhile: libraries read this when they are loaded."""
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
