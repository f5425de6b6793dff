"""Runs are trained once, go on where they were interrupted, and leave what the tables need."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from benchmarks.reproduce import runs as module
from benchmarks.reproduce.runs import is_finished, outcomes, runs_of
from tests.benchmarks.reproduce.conftest import TEST


@pytest.fixture
def small(plan):
    return replace(plan, heads=("crf", "fsemicrf"), seeds=(0,))


def test_finished_runs_are_not_trained_again(small, monkeypatch):
    told = []
    first = outcomes([small], lambda run, dev: told.append(run.head))
    assert told == ["crf", "fsemicrf"]
    assert all(is_finished(run, small.corpus) for run in runs_of(small))
    monkeypatch.setattr(module, "train", None)
    told.clear()
    assert outcomes([small], lambda run, dev: told.append(run.head)) == first
    assert not told


def test_an_outcome_is_what_the_run_left(small):
    ((crf, ours),) = outcomes([small])
    results = json.loads((ours.run.folder / "results.json").read_text())
    assert ours.dev.to_dict() == results["dev"]
    assert ours.gold_outcomes is not None
    assert ours.gold_outcomes.gold == 18
    assert ours.gold_outcomes.found == ours.test.micro.true_positives
    assert crf.gold_outcomes is None
    assert len(ours.found) == len(TEST)
    assert not (ours.run.folder / "checkpoints").exists()


def test_another_setting_or_corpus_is_another_run(small):
    folders = [run.folder for run in runs_of(small)]
    other_setting = replace(small, settings={**small.settings, "model.beta": 0.5})
    assert not {run.folder for run in runs_of(other_setting)} & set(folders)
    other_data = replace(small, corpus=small.corpus.first(10, 9, 9))
    assert not {run.folder for run in runs_of(other_data)} & set(folders)


def test_other_test_data_is_predicted_and_not_trained_for(small, monkeypatch):
    outcomes([small])
    other = replace(small, corpus=small.corpus.first(18, 9, 4))
    assert not any(is_finished(run, other.corpus) for run in runs_of(other))
    monkeypatch.setattr(module, "train", None)
    assert [outcome.test.sentences for outcome in outcomes([other])[0]] == [4, 4]


def test_side_by_side_is_as_one_by_one_and_a_failure_stops_no_other(small, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    ((_, alone),) = outcomes([small])
    beside = replace(small, runs=tmp_path / "beside", jobs=2, settings_of={"crf": {"training.learning_rate": 1e30}})
    message = r"1 of 2 runs failed, the first \(towns_builtin: crf, seed 0\): .*same command goes on"
    with pytest.raises(RuntimeError, match=message):
        outcomes([beside])
    assert module.read_outcome(runs_of(beside)[1], beside.corpus).found == alone.found
    assert [is_finished(run, beside.corpus) for run in runs_of(beside)] == [False, True]
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "NUMBA_NUM_THREADS" not in os.environ
