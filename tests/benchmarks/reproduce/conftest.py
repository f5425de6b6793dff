from __future__ import annotations

import pytest

from benchmarks.reproduce.corpora import Corpus
from benchmarks.reproduce.plan import Plan
from spansieve.data.formats import write_examples
from spansieve.training import run
from tests.benchmarks.terminal import terminal as terminal
from tests.single_thread import one_thread as one_thread
from tests.training import runs

TEST = [runs.example(person, "stays", place) for person in runs.PEOPLE for place in runs.PLACES]
SETTINGS = [f"--set={name}={value}" for name, value in (runs.SMALL | {"training.epochs": 2}).items()]


@pytest.fixture(autouse=True)
def no_curves(monkeypatch):
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)


@pytest.fixture
def towns(tmp_path):
    """A folder with a corpus of a few sentences."""
    folder = tmp_path / "towns"
    folder.mkdir()
    write_examples(runs.TRAIN, folder / "towns.train.conll")
    write_examples(runs.DEV, folder / "dev.jsonl.gz")
    write_examples(TEST, folder / "test.jsonl")
    return folder


@pytest.fixture
def plan(tmp_path):
    corpus = Corpus("towns", runs.TRAIN, runs.DEV, TEST)
    return Plan(corpus, (0, 1), settings=runs.SMALL | {"training.epochs": 2}, runs=tmp_path / "runs")
