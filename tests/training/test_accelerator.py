"""Two processes do what one with the doubled batch does, and so do two batches to a step."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from spansieve.data.formats import write_examples
from spansieve.training.run import check_trackers, train
from tests.training import runs, several

# 18 sentences in steps of 4: one of them is short, so that shares differ. 25 steps: one report and one checkpoint,
# which need all processes, fall into the middle of an epoch.
STEPS: dict[str, Any] = {**runs.STILL, "training__epochs": 5, "training__checkpoint_seconds": 0.0}


def in_two_processes(folder: Path, resume: bool = False, **settings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.training.killing"])
    arguments = (2, port, str(folder), resume, settings)
    both = [processes.Process(target=several.train_as, args=(rank, *arguments)) for rank in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(120)
    assert [one.exitcode for one in both] == [0, 0]


def assert_same(one: Path, other: Path) -> None:
    results = [json.loads((folder / "results.json").read_text()) for folder in (one, other)]
    for ours, theirs in zip(*(found["history"] for found in results)):
        assert_close(ours["loss"], theirs["loss"], rtol=1e-4, atol=1e-4)
        assert ours["dev"] == theirs["dev"]
        assert_close(ours["graph"], theirs["graph"])
    assert results[0]["dev"] == results[1]["dev"]
    assert results[0]["best_epoch"] == results[1]["best_epoch"]
    weights = [load_file(folder / "model" / "model.safetensors") for folder in (one, other)]
    assert_close(*weights, rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    result = runs.run(folder, training__batch_size=4, training__ema_decay=0.9, **STEPS)
    assert result.dev["micro"]["f1"] > 0.5
    return folder


@pytest.fixture(scope="module")
def in_two(tmp_path_factory, alone):
    folder = tmp_path_factory.mktemp("two") / "run"
    in_two_processes(folder, training__batch_size=2, training__ema_decay=0.9, **STEPS)
    return folder


def test_two_processes_do_what_one_does(alone, in_two):
    assert_same(alone, in_two)


def test_two_processes_go_on_where_they_were(alone, in_two, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(in_two, folder)
    (folder / "results.json").unlink()
    shutil.rmtree(max((folder / "checkpoints").iterdir()))
    assert max((folder / "checkpoints").iterdir()).name == "step-00000020"
    in_two_processes(folder, resume=True, training__batch_size=2, training__ema_decay=0.9, **STEPS)
    assert runs.weights(folder) == runs.weights(in_two)


def test_two_batches_to_a_step_do_what_one_does(alone, tmp_path):
    settings = STEPS | {"training__batch_size": 2, "training__accumulation": 2, "training__ema_decay": 0.9}
    runs.run(tmp_path, **settings)
    assert_same(alone, tmp_path)


def test_every_process_needs_a_sentence(tmp_path, monkeypatch):
    from accelerate import Accelerator

    monkeypatch.setattr(Accelerator, "num_processes", 30)
    with pytest.raises(ValueError, match="a sentence for each of 30 processes, got 18"):
        runs.run(tmp_path)


def test_the_command_in_two_processes(tmp_path):
    """As `accelerate launch` starts them where there are GPUs."""
    write_examples(runs.TRAIN, tmp_path / "train.conll")
    write_examples(runs.DEV, tmp_path / "dev.conll")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    settings = [part for name, value in runs.SMALL.items() for part in ("--set", f"{name}={value}")]
    settings += ["--set", "run.cpu=true"]
    command = ["-m", "spansieve", "train", "train.conll", "dev.conll", "--output", "run", *settings]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=one_thread
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"] == 2
    assert done.stdout.count("18 sentences, 36 entities") == 1
    assert done.stdout.count("the model is in run/model") == 1


# ---- Who is told -----------------------------------------------------------------------------------------------------


def test_tensorboard_is_told(tmp_path):
    train(runs.config(), runs.TRAIN, runs.DEV, tmp_path, trackers=["tensorboard"], use_cpu=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "logs" / "spansieve")).Reload()
    assert [event.step for event in events.Scalars("dev/f1")] == [6, 12, 18]
    assert {"dev/precision", "dev/recall", "dev/nodes", "dev/edges"} <= set(events.Tags()["scalars"])


def test_an_unknown_tracker_is_told_before_there_is_a_run(tmp_path):
    with pytest.raises(ValueError, match="tracker must be one of tensorboard, wandb, got 'abacus'"):
        train(runs.config(), runs.TRAIN, runs.DEV, tmp_path / "run", trackers=["abacus"], use_cpu=True)
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr("spansieve.training.run.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="tracker wandb needs its package: pip install wandb"):
        check_trackers(["wandb"])
