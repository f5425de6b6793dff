"""The folder of a run: whose it is, and that one run at a time writes there.

run.json       configuration, fingerprint of the data, processes, first weights: what --resume goes on with
checkpoints/   where training stands
model/         the best on dev: what `spansieve predict` takes
results.json   configuration, history, scores
curves.png     loss and dev scores over the epochs, where Matplotlib is installed
logs/          what a tracker has logged
teacher.safetensors   of a distilled model: the distributions that it learned
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spansieve.config import Config, to_dict
from spansieve.data.example import Example
from spansieve.persistence.manifest import read_object
from spansieve.training.checkpoints import newest_checkpoint

RUN, RESULTS, CURVES = "run.json", "results.json", "curves.png"
CHECKPOINTS, MODEL, LOGS = "checkpoints", "model", "logs"
TEACHER = "teacher.safetensors"
LOCK = ".lock"
FORMAT = 1


class TrainingError(RuntimeError):
    """A run cannot start or go on; what it has reached is on the disk."""


def about_run(
    config: Config,
    train_examples: Sequence[Example],
    dev_examples: Sequence[Example],
    processes: int,
    start: str | None = None,
    teacher: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The description of a run: everything that the result follows from. `start` names the weights it started from,
    `teacher` the model that it is distilled from, and how."""
    data = _fingerprints(train_examples, dev_examples)
    about = {"format": FORMAT, "processes": processes, "config": to_dict(config), "data": data}
    more = {"start": start, "teacher": teacher}
    return about | {name: value for name, value in more.items() if value is not None}


def _fingerprints(train_examples: Sequence[Example], dev_examples: Sequence[Example]) -> dict[str, str]:
    return {"training": fingerprint(train_examples), "dev": fingerprint(dev_examples)}


def fingerprint(examples: Sequence[Example]) -> str:
    """A checksum of examples, equal when the sentences and what is known of them are."""
    digest = hashlib.sha256()
    for example in examples:
        known = [example.tokens, example.segments, *([example.unknown] if example.unknown else ())]
        digest.update(json.dumps(known).encode())
    return digest.hexdigest()


def check_folder(folder: Path, about: dict[str, Any], resume: bool) -> None:
    """Check that this run may write there. A run that has saved nothing is no obstacle."""
    names = (f"{CHECKPOINTS}/step-*", MODEL, f".{MODEL}.new", f".{MODEL}.old")
    if not any(next(folder.glob(name), None) for name in names):
        return
    if not (folder / RUN).exists():
        raise TrainingError(f"{folder} is not empty and holds no run of ours: choose another folder")
    if not resume:
        raise TrainingError(f"{folder} already holds a run: go on with --resume, or choose another folder")
    differences = _differences(_read(folder), about)
    if differences:
        raise TrainingError(f"--resume needs the same run as the one in {folder}, but {'; '.join(differences)}")


def is_run_on(folder: Path, train_examples: Sequence[Example], dev_examples: Sequence[Example]) -> bool:
    """True when the folder holds a run on just these examples."""
    return (folder / RUN).exists() and _read(folder)["data"] == _fingerprints(train_examples, dev_examples)


def remove_run(folder: Path) -> None:
    """Remove what a run has written, and nothing else."""
    for name in (CHECKPOINTS, MODEL, LOGS):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RUN, RESULTS, CURVES, TEACHER):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Raise an error that names what is left where the disk is full, or fails, while something is written."""
    try:
        yield
    except OSError as error:
        good = newest_checkpoint(folder / CHECKPOINTS)
        kept = "no checkpoint was written yet" if good is None else f"the checkpoint of step {good.step} is intact"
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        way_out = "make room, then --resume" if is_full else "--resume when it can be written again"
        raise TrainingError(f"cannot write to {folder}: {error.strerror or error}; {kept}: {way_out}") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against a second run. A killed one leaves no lock. What cannot be locked is warned of."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("wb") as file:
        try:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            _warn_of_no_lock(folder, "this system has no fcntl")
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                way_out = "wait for its end, or choose another folder"
                raise TrainingError(f"another run is writing to {folder}: {way_out}") from error
            _warn_of_no_lock(folder, error.strerror or str(error))  # a file system may have no locks
        yield


@functools.cache  # once, however many runs there are in the folder
def _warn_of_no_lock(folder: Path, reason: str) -> None:
    consequence = "a second run in it would not be noticed, and the two would overwrite each other"
    warnings.warn(f"{folder} cannot be locked ({reason}): {consequence}", RuntimeWarning, stacklevel=2)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / RUN
    try:
        known = read_object(path)
        if known["format"] != FORMAT:
            raise TrainingError(f"{path} must be of format {FORMAT}, got {known['format']}: another version wrote it")
        if not all(
            isinstance(known[name], kind) for name, kind in (("processes", int), ("config", dict), ("data", dict))
        ):
            raise ValueError("processes must be a number, config and data objects")
        return known
    except (ValueError, KeyError) as error:
        raise TrainingError(f"{path} is damaged: {error!r}") from error


def _differences(known: dict[str, Any], about: dict[str, Any]) -> list[str]:
    old, new = dotted(known["config"]), dotted(about["config"])
    differences = [
        f"{name} was {old.get(name)} and is {new.get(name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    differences += [
        f"the {name} data is not the same" for name in about["data"] if known["data"].get(name) != about["data"][name]
    ]
    if known["processes"] != about["processes"]:
        differences.append(f"it had {known['processes']} processes and has {about['processes']}")
    started, starts = (one.get("start") or "new weights" for one in (known, about))
    if started != starts:
        differences.append(f"it started from {started} and now would from {starts}")
    taught, teaches = (dotted(one.get("teacher") or {}) or "none" for one in (known, about))
    if taught != teaches:
        differences.append(f"its teacher was {taught} and is {teaches}")
    return differences


def dotted(settings: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Flatten settings to their dotted names, None as a word."""
    named: dict[str, Any] = {}
    for name, value in settings.items():
        named |= dotted(value, f"{where}{name}.") if isinstance(value, dict) else {f"{where}{name}": value}
    return {name: "none" if value is None else value for name, value in named.items()}
