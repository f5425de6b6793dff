"""The page of captured training: the runs by the command and the two processes, in small, and the page from figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.captured_training import (
    CAPTURED,
    CONTENDERS,
    EAGER,
    OF_CAPTURED,
    QUARTILES,
    Run,
    captured_page,
    run_epochs,
    run_rows,
    run_steps,
)
from benchmarks.training_speed import SOFTMAX, run_processes
from spansieve.data.formats import write_examples
from tests.benchmarks.terminal import terminal as terminal
from tests.training import runs
from tests.training.encoders import tiny_encoder

SETTINGS = [f"{name}={value}" for name, value in runs.SMALL.items() if name != "training.epochs"]


@pytest.fixture
def data(tmp_path):
    for name, examples in (("train", runs.TRAIN), ("dev", runs.DEV), ("test", runs.DEV)):
        write_examples(examples, tmp_path / f"{name}.conll")
    return [tmp_path / f"{name}.conll" for name in ("train", "dev", "test")]


@pytest.mark.slow
def test_runs_by_the_command(data, tmp_path):
    made = run_epochs("builtin", data, 1, tmp_path / "runs", SETTINGS, epochs=2, use_cpu=True)
    assert [(run.way, run.seed, run.is_alone) for run in made] == [("graphs", 0, True), ("kernels", 0, True)]
    assert all(run.seconds > run.training_seconds > 0 for run in made)
    assert made[0].dev == made[1].dev  # on the CPU there are no graphs


@pytest.mark.slow
def test_two_processes_are_left_alone(data, tmp_path):
    rows = run_processes(*data[:2], len(runs.TRAIN), tmp_path / "runs", epochs=1)
    assert [row["processes"] for row in rows] == [1, 1, 2, 2]
    losses = [row["loss of the last epoch"] for row in rows]
    assert losses[0] == losses[1]
    assert losses[2] == losses[3]


def test_the_page(tmp_path):
    steps = [
        {"batch": size, "model": name, EAGER: "18.00", CAPTURED: f"{2.0 + 0.1 * place:.2f}", OF_CAPTURED: "0.9"}
        for size in (8, 16)
        for place, name in enumerate(CONTENDERS)
    ]
    made = [
        Run(way, seed, 40.0 + seed, 20.0, 0.94, 0.9, way == "graphs" and not seed)
        for way in ("graphs", "kernels")
        for seed in (0, 1)
    ]
    page = replace(captured_page(steps, made, "tiny"), machine="a GPU")  # which may not be here
    text = page.write(tmp_path, "a command").read_text()
    assert "5 epochs took 40.0 s from the start of the process to its end." in text
    assert "| graphs | mean |  |  | 94.00 ± 0.00 | 90.00 ± 0.00 |" in text
    assert (tmp_path / "training_cuda.png").stat().st_size > 1000
    assert [row["process, s"] for row in run_rows(made)[:4]] == ["40.0", "", "", ""]  # what ran beside others


def test_wrong_options_are_told(terminal, data):
    assert "--graphs needs --device cuda" in terminal.refused(
        "training-speed", "builtin", "--graphs", "--device", "cpu"
    )
    refused = terminal.refused("training-speed", "builtin", "--data", data[0], "--dev", data[1])
    assert "--dev and --test go together" in refused


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_on_a_gpu(tmp_path):
    rows = run_steps(str(tiny_encoder(tmp_path / "encoder")), runs.TRAIN, [4], rounds=2, steps=4)
    assert [row["model"] for row in rows] == list(CONTENDERS)
    softmax = next(row for row in rows if row["model"] == SOFTMAX)
    assert softmax[OF_CAPTURED] == "1.00"
    assert all(float(str(row[CAPTURED])) > 0 and int(str(row["shapes"])) > 0 for row in rows)
    for row in rows:
        low, high = map(float, str(row[QUARTILES]).split("–"))
        assert low <= float(str(row[OF_CAPTURED])) <= high
