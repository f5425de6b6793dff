"""Killed at any moment, a run goes on and ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from spansieve.models.storage import load_model
from spansieve.training import trainer
from spansieve.training.checkpoints import newest_checkpoint
from tests.damage import DAMAGES, cut
from tests.training import killing, runs

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "open")


@pytest.fixture
def checkpoint_by_steps(monkeypatch):
    is_due = lambda self: self.progress.step in killing.CHECKPOINT_STEPS  # noqa: E731
    monkeypatch.setattr(trainer.Trainer, "_is_checkpoint_due", is_due)


@pytest.mark.parametrize("moment", killing.MOMENTS)
def test_a_killed_run_ends_as_an_unbroken_one(moment, tmp_path, unbroken):
    # From a server that has loaded everything and trained nothing: a process a second cheaper, and free of our state.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.training.killing"])
    folder = tmp_path / "run"
    child = processes.Process(target=killing.train_and_die, args=(str(folder), moment))
    child.start()
    child.join(120)
    assert child.exitcode == -9
    assert not (folder / "results.json").exists()
    assert newest_checkpoint(folder / "checkpoints") is not None
    runs.run(folder, resume=True)
    assert runs.outcome(folder) == runs.outcome(unbroken)
    assert not list(folder.rglob(".*.new")) + list(folder.rglob(".*.old"))


class Camera:
    """Copies a folder each time that something in it is about to change: what a kill at that moment would leave."""

    def __init__(self, folder: Path, album: Path) -> None:
        self.folder, self.album = folder, album
        self.pictures: list[Path] = []
        self.seen: set[tuple] = set()
        self.is_on = True
        sys.addaudithook(self.look)

    def look(self, event: str, arguments: tuple) -> None:
        if not self.is_on or event not in CHANGES:
            return
        if event == "open" and not (isinstance(arguments[1], str) and set("wa+x") & set(arguments[1])):
            return
        self.is_on = False
        try:
            self.shoot()
        finally:
            self.is_on = True

    def shoot(self) -> None:
        if not self.folder.exists():
            return
        found = tuple(
            sorted((str(path.relative_to(self.folder)), path.stat().st_size) for path in self.folder.rglob("*"))
        )
        if found in self.seen:
            return
        self.seen.add(found)
        self.pictures.append(self.album / f"{len(self.pictures):03d}")
        shutil.copytree(self.folder, self.pictures[-1])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Of a run, before each change that it makes to its folder."""
    folder = tmp_path_factory.mktemp("pictures")
    camera = Camera(folder / "run", folder / "album")
    runs.run(folder / "run")
    camera.is_on = False
    return folder / "run", camera.pictures


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_moment_a_run_is_killed_at_it_ends_as_an_unbroken_one(pictures, every, tmp_path):
    whole, moments = pictures
    assert len(moments) > 40
    for taken in moments[::every]:
        moment = shutil.copytree(taken, tmp_path / taken.name)
        reached = newest_checkpoint(moment / "checkpoints")
        is_scored = reached is not None  # the best model is written before the checkpoint that knows of it
        if is_scored:
            load_model(moment / "model")
        runs.run(moment, resume=True)
        assert runs.outcome(moment) == runs.outcome(whole), moment.name


# ---- What was written, and damaged since -----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "optimizer.safetensors"])
def test_a_damaged_checkpoint_is_not_loaded(name, damage, tmp_path, unbroken):
    shutil.copytree(unbroken / "checkpoints", tmp_path / "checkpoints")
    newest = max((tmp_path / "checkpoints").iterdir())
    assert newest.name == "step-00000018"
    damage(newest / name)
    wanted = re.escape(f"checkpoint {newest} is damaged and was skipped; the newest complete one is that of step 12")
    with pytest.warns(RuntimeWarning, match=wanted) as told:
        found = [newest_checkpoint(tmp_path / "checkpoints") for _ in range(2)]
    assert [checkpoint and checkpoint.step for checkpoint in found] == [12, 12]
    assert len(told) == 1  # though it was skipped twice


def test_what_is_complete_is_taken_without_a_word(unbroken):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest_checkpoint(unbroken / "checkpoints").step == 18


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"files": 3}', "\x00\x00"])
def test_a_state_that_is_none_is_not_loaded(text, tmp_path):
    place = tmp_path / "step-00000001"
    place.mkdir()
    (place / "state.json").write_text(text)
    with pytest.warns(RuntimeWarning, match=r"step-00000001 is damaged and was skipped; no other is complete"):
        assert newest_checkpoint(tmp_path) is None


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path, unbroken):
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    cut(max((folder / "checkpoints").iterdir()) / "model.safetensors")
    with pytest.warns(RuntimeWarning, match="step-00000018 is damaged and was skipped"):
        runs.run(folder, resume=True)
    assert runs.outcome(folder) == runs.outcome(unbroken)
    assert newest_checkpoint(folder / "checkpoints").step == 18


def test_with_averaging_too(tmp_path, checkpoint_by_steps):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    runs.run(whole, training__ema_decay=0.8)
    shutil.copytree(whole, broken)
    (broken / "results.json").unlink()
    shutil.rmtree(broken / "model")
    # Back to the checkpoint of step 16, in the middle of the last epoch, before its best model was known.
    shutil.rmtree(max((broken / "checkpoints").iterdir()))
    assert newest_checkpoint(broken / "checkpoints").step == 16
    runs.run(broken, resume=True, training__ema_decay=0.8)
    assert runs.outcome(broken) == runs.outcome(whole)
    assert "average.safetensors" in runs.newest(broken)


def test_two_checkpoints_are_kept(unbroken):
    assert sorted(path.name for path in (unbroken / "checkpoints").iterdir()) == ["step-00000012", "step-00000018"]
