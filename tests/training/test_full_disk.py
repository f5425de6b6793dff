"""A full disk ends a run with a clear error, the last good checkpoint and the best model intact."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import sys

import pytest
import safetensors.torch
from safetensors import SafetensorError

from spansieve.models.storage import load_model
from spansieve.persistence import atomic
from spansieve.persistence.atomic import save_weights, system_errors, write_durably
from spansieve.training import checkpoints, trainer
from spansieve.training.checkpoints import newest_checkpoint
from spansieve.training.run_folder import TrainingError
from tests.training import full_disk, runs

CAN_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0
)


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_in_rust(*_, **__):
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (checkpoints, "save_weights", full),
        (checkpoints, "write_durably", full),
        (safetensors.torch, "save_file", full_in_rust),
        (trainer, "save_model", full),
        (atomic, "sync", full),
    ],
)
def test_the_last_good_checkpoint_is_intact(place, name, error, tmp_path, monkeypatch, unbroken):
    folder = tmp_path / "run"
    end_epoch = trainer.Trainer._end_epoch

    def fill_and_end(self) -> None:
        if self.progress.epoch == 1:
            monkeypatch.setattr(place, name, error)
        end_epoch(self)

    with monkeypatch.context() as patches:
        patches.setattr(trainer.Trainer, "_end_epoch", fill_and_end)
        with pytest.raises(TrainingError, match=r"No space left on device; the checkpoint of step 6 is intact: make r"):
            runs.run(folder)
    monkeypatch.undo()
    assert newest_checkpoint(folder / "checkpoints").step == 6
    assert not list(folder.rglob(".*.new"))
    load_model(folder / "model")
    runs.run(folder, resume=True)
    assert runs.weights(folder) == runs.weights(unbroken)


def test_a_disk_that_is_full_from_the_start_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "save_weights", full)
    with pytest.raises(TrainingError, match="no checkpoint was written yet"):
        runs.run(tmp_path / "run")


def check(answer: dict, unbroken, reason: str) -> None:
    assert f"{reason}; the checkpoint of step 6 is intact: make room, then --resume" in answer["error"]
    assert answer["step"] == 6
    assert answer["left"] == []
    assert bytes.fromhex(answer["weights"]) == runs.weights(unbroken)


def test_a_limit_on_the_size_of_files(tmp_path, unbroken):
    processes = multiprocessing.get_context("forkserver")
    arguments = (str(tmp_path / "answer.json"), str(tmp_path / "run"))
    child = processes.Process(target=full_disk.with_a_limit, args=arguments)
    child.start()
    child.join(120)
    assert child.exitcode == 0
    check(json.loads((tmp_path / "answer.json").read_text()), unbroken, "File too large")


@pytest.mark.skipif(not CAN_MOUNT, reason="needs a disk of its own, in a user namespace")
def test_a_disk_that_is_really_full(tmp_path, unbroken):
    (tmp_path / "disk").mkdir()
    program = [sys.executable, "-m", "tests.training.full_disk", str(tmp_path / "answer.json"), str(tmp_path / "disk")]
    subprocess.run(["unshare", "-rm", *program], check=True, timeout=120)
    check(json.loads((tmp_path / "answer.json").read_text()), unbroken, "No space left on device")


# ---- The files themselves --------------------------------------------------------------------------------------------


def test_text_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_durably(path, "before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_weights_can_be_read_by_whoever_may_read_files(tmp_path):
    save_weights({}, tmp_path / "weights")
    (tmp_path / "other").touch()
    assert (tmp_path / "weights").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(SafetensorError, match="no number"), system_errors(tmp_path):
        raise SafetensorError("no number")
    with pytest.raises(PermissionError), system_errors(tmp_path):
        raise PermissionError(errno.EACCES, "no")
