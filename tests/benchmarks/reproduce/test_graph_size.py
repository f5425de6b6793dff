"""Graphs are looked at from before the first step on, and looking changes nothing."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from benchmarks.reproduce import graph_size
from benchmarks.reproduce.complexity import graph_sizes
from benchmarks.reproduce.graph_size import Watcher, watched_run
from benchmarks.reproduce.runs import outcomes
from spansieve.models.tagger import Tagger
from tests.benchmarks.reproduce.conftest import SETTINGS
from tests.training import runs


def test_the_command(terminal, towns, tmp_path):
    common = ["--data", towns, "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--device", "cpu", *SETTINGS]
    answer = terminal("graph-size", *common, "--seeds", "2")
    assert answer.code == 0, answer.err
    assert "three stages" in (tmp_path / "out" / "graph-size_towns_builtin_cpu.md").read_text()
    with (tmp_path / "out" / "graph-size_towns_builtin_cpu_looks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["steps"] for row in rows if row["seed"] == "1"] == [str(step) for step in range(12)]
    assert (tmp_path / "out" / "graph-size_towns_builtin_cpu.png").exists()


def test_what_is_seen_is_the_graph_of_the_model(tmp_path):
    made = Tagger.for_data(runs.config().model, runs.TRAIN).train()
    Watcher(runs.DEV, tmp_path / "looks")(0, made)
    assert made.training
    look = graph_size._look((tmp_path / "looks").read_text())
    sizes = graph_sizes(made, runs.DEV)
    assert look.size == pytest.approx(sum(one.size for one in sizes) / len(sizes) + 1)


def test_looks_become_rarer(tmp_path):
    made = Tagger.for_data(runs.config().model, runs.TRAIN)
    watcher = Watcher(runs.DEV[:1], tmp_path / "looks")
    for step in range(40):
        watcher(step, made)
    steps = [graph_size._look(line).step for line in (tmp_path / "looks").read_text().splitlines()]
    assert steps[:6] == [0, 1, 2, 3, 4, 5]
    assert len(steps) < 30
    assert steps[-1] > 32


def test_looking_changes_nothing(plan, tmp_path):
    plan = replace(plan, heads=("fsemicrf",), seeds=(0,))
    (unseen,) = outcomes([plan])[0]
    seen = watched_run(plan, 0)
    assert runs.weights(unseen.run.folder) == runs.weights(
        unseen.run.folder.with_name(f"{unseen.run.folder.name}_watched")
    )
    assert max(seen.dev_f1) == unseen.dev.f1
    assert seen.epoch_ends == [6, 12]


def test_a_finished_run_is_not_trained_again(plan, monkeypatch):
    first = watched_run(plan, 0)
    monkeypatch.setattr(graph_size, "train", None)
    assert watched_run(plan, 0) == first
