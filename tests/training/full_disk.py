"""A run on a disk that is full after its first epoch; what the tests start as a process of its own.

python -m tests.training.full_disk ANSWER FOLDER: as root of a namespace of its own, on a disk that holds a megabyte.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from spansieve.models.storage import load_model
from spansieve.training import run
from spansieve.training.callbacks import EpochReport, Observer
from spansieve.training.checkpoints import newest_checkpoint
from spansieve.training.run_folder import TrainingError
from tests.training import runs


class Filling(Observer):
    def __init__(self, fill: Callable[[], None]) -> None:
        self.fill = fill

    def on_epoch(self, report: EpochReport) -> None:
        if report.epoch == 2:  # its checkpoint is not written yet
            self.fill()


def train_until_full(folder: Path, fill: Callable[[], None], empty: Callable[[], None]) -> dict:
    """What the error said, what was intact, and what a second try came to."""
    torch.set_num_threads(1)
    run.draw_curves = lambda history, path: None
    answer: dict = {"error": None}
    try:
        run.train(runs.config(), runs.TRAIN, runs.DEV, folder, observer=Filling(fill), use_cpu=True)
    except TrainingError as error:
        answer["error"] = str(error)
    found = newest_checkpoint(folder / "checkpoints")
    answer["step"] = None if found is None else found.step
    answer["left"] = sorted(path.name for path in folder.rglob(".*.new"))
    load_model(folder / "model")
    empty()
    runs.run(folder, resume=True)
    answer["weights"] = runs.weights(folder).hex()
    return answer


def with_a_limit(answer: str, folder: str) -> None:
    """No file may be larger than a kilobyte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    found = train_until_full(
        Path(folder),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)),
    )
    Path(answer).write_text(json.dumps(found))


def with_a_small_disk(answer: str, folder: str) -> None:
    disk = Path(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    filler = disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(1_000)):
                    pass
            except OSError:
                pass

    found = train_until_full(disk / "run", fill, filler.unlink)
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    with_a_small_disk(*sys.argv[1:])
