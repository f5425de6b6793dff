"""Throughput on a corpus of a few sentences, by the function that `python -m benchmarks training-speed` calls."""

from __future__ import annotations

import csv

import pytest

from benchmarks import training_speed
from benchmarks.reproduce.plan import NAMES, PAPER_RECIPE
from spansieve.config import Config, with_settings
from tests.benchmarks.reproduce.conftest import SETTINGS
from tests.training import runs

HEADS = {head: name for head, name in NAMES.items() if head != PAPER_RECIPE}


def test_the_command(terminal, towns, tmp_path):
    common = ["--data", towns, "--out", tmp_path / "out", "--device", "cpu", *SETTINGS]
    answer = terminal("throughput", *common, "--rounds", "1", "--steps", "1")
    assert answer.code == 0, answer.err
    with (tmp_path / "out" / "throughput_towns_builtin_cpu.csv").open() as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    assert set(HEADS.values()) <= set(rows)
    assert all(float(row["steps/s"]) > 0 and row["batch"] == "8" for row in rows.values())
    assert (tmp_path / "out" / "throughput_towns_builtin_cpu.png").exists()
    refused = terminal.refused("throughput", *common, "--set-head", "crf:model.dropout=0.1")
    assert "all heads share one configuration" in refused


def test_the_settings_are_those_that_were_given(monkeypatch):
    seen = []
    real = training_speed.Tagger.for_data
    monkeypatch.setattr(
        training_speed.Tagger, "for_data", lambda config, data: seen.append(config) or real(config, data)
    )
    config = with_settings(Config(), runs.SMALL)
    training_speed.run_throughput("builtin", runs.TRAIN, [8], "cpu", 1, 1, config)
    assert {model.hidden_size for model in seen} == {16}
    assert {model.head for model in seen} == set(HEADS)


def test_a_turn_has_all_its_steps_however_few_the_sentences():
    tagger = training_speed.Tagger.for_data(runs.config().model, runs.TRAIN)
    assert len(training_speed._batches(tagger, runs.TRAIN, 8, 7)) == 7
    with pytest.raises(ValueError, match="at least one batch of 80 sentences, got 18"):
        training_speed._batches(tagger, runs.TRAIN, 80, 7)
