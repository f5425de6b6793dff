"""Whose folder it is: what may be resumed, and what may not be overwritten."""

from __future__ import annotations

import errno
import json
import re
import shutil
import sys

import pytest

from spansieve.training.run import train
from spansieve.training.run_folder import TrainingError, is_run_on, locked, remove_run
from tests.training import runs


@pytest.fixture
def finished(tmp_path, unbroken):
    return shutil.copytree(unbroken, tmp_path / "run")


def test_a_finished_run_is_reported_again_and_trains_no_more(finished, unbroken):
    before = runs.newest(finished)
    result = runs.run(finished, resume=True)
    told = json.loads((unbroken / "results.json").read_text())
    assert result.history == told["history"]  # seconds and all
    assert result.dev == told["dev"]
    assert runs.newest(finished) == before
    assert runs.outcome(finished) == runs.outcome(unbroken)


def test_resume_starts_where_there_is_nothing(tmp_path, unbroken):
    runs.run(tmp_path / "run", resume=True)
    assert runs.outcome(tmp_path / "run") == runs.outcome(unbroken)


def test_a_run_is_not_overwritten(finished):
    with pytest.raises(TrainingError, match="already holds a run: go on with --resume, or choose another folder"):
        runs.run(finished)


def test_resume_with_other_settings_names_them(finished):
    wanted = "training.learning_rate was 0.05 and is 0.1; training.seed was 0 and is 1"
    with pytest.raises(TrainingError, match=wanted):
        runs.run(finished, resume=True, training__learning_rate=0.1, training__seed=1)


@pytest.mark.parametrize(
    ("train_examples", "dev_examples", "name"),
    [(runs.TRAIN[1:], runs.DEV, "training"), (runs.TRAIN, runs.DEV[::-1], "dev")],
)
def test_resume_with_other_data_names_it(finished, train_examples, dev_examples, name):
    with pytest.raises(TrainingError, match=f"but the {name} data is not the same$"):
        train(runs.config(), train_examples, dev_examples, finished, resume=True, use_cpu=True)


def test_resume_with_another_number_of_processes_names_it(finished):
    about = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps(about | {"processes": 2}))
    with pytest.raises(TrainingError, match="it had 2 processes and has 1"):
        runs.run(finished, resume=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "\x00"])
def test_a_damaged_description_is_told(finished, text):
    (finished / "run.json").write_text(text)
    with pytest.raises(TrainingError, match=r"run\.json is damaged"):
        runs.run(finished, resume=True)


def test_a_description_of_another_version_is_told(finished):
    (finished / "run.json").write_text('{"format": 2}')
    with pytest.raises(TrainingError, match="must be of format 1, got 2: another version wrote it"):
        runs.run(finished, resume=True)


def test_somebody_elses_model_is_left_alone(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(TrainingError, match="is not empty and holds no run of ours"):
        runs.run(tmp_path)


def test_what_is_wrong_with_the_settings_leaves_no_run(tmp_path):
    with pytest.raises(ValueError, match="encoder"):
        runs.run(tmp_path, model__encoder__name=str(tmp_path / "nowhere"))
    runs.run(tmp_path)


def test_one_run_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(TrainingError, match="another run is writing to"):
        runs.run(tmp_path)
    runs.run(tmp_path)


def no_locks(file: int, kind: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize(
    ("hide", "reason"),
    [
        (lambda patch: patch.setitem(sys.modules, "fcntl", None), "this system has no fcntl"),
        (lambda patch: patch.setattr("fcntl.flock", no_locks), "No locks available"),
    ],
    ids=["system", "file_system"],
)
def test_a_folder_that_cannot_be_locked_is_told_once(tmp_path, monkeypatch, hide, reason):
    hide(monkeypatch)
    wanted = re.escape(f"{tmp_path} cannot be locked ({reason}): a second run in it would not be noticed")
    with pytest.warns(RuntimeWarning, match=wanted) as told, locked(tmp_path), locked(tmp_path):
        pass
    assert len(told) == 1


def test_a_run_is_removed_and_nothing_else(finished):
    (finished / "notes.txt").write_text("mine")
    assert is_run_on(finished, runs.TRAIN, runs.DEV)
    assert not is_run_on(finished, runs.TRAIN, runs.TRAIN)
    assert not is_run_on(finished / "model", runs.TRAIN, runs.DEV)
    remove_run(finished)
    assert sorted(path.name for path in finished.iterdir()) == [".lock", "notes.txt"]
