"""A run that kills itself at a chosen moment; what the tests start as a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch

from spansieve.models import storage
from spansieve.training import checkpoints, run, trainer
from tests.training import runs

CHECKPOINT_STEPS = (2, 4, 8, 10, 14, 16)  # beside those at the end of an epoch, every sixth


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def checkpoint_by_steps() -> None:
    """And not by the clock, which no test should depend on."""
    trainer.Trainer._is_checkpoint_due = lambda self: self.progress.step in CHECKPOINT_STEPS


def in_a_step() -> None:
    """After the checkpoint of step 8 and one more step."""
    take_step = trainer.Trainer._train_step

    def step(self, *arguments) -> None:
        if self.progress.step == 9:
            killed()
        take_step(self, *arguments)

    trainer.Trainer._train_step = step


def in_a_checkpoint() -> None:
    """When the second of its files is written half."""
    checkpoints.save_weights = half_written(checkpoints.save_weights, "step-00000010", "optimizer")


def in_the_best_model() -> None:
    """When the weights of a better one than the first are written half."""
    storage.save_weights = half_written(storage.save_weights, ".model.new", "model", is_good=True)


def between_the_renames() -> None:
    """The old best model is out of its place, the new one not in it yet."""
    rename = Path.rename

    def renamed(self: Path, target: Path) -> Path:
        done = rename(self, target)
        if Path(target).name == ".model.old":
            killed()
        return done

    Path.rename = renamed


def half_written(save: Callable, folder: str, name: str, is_good: bool = False) -> Callable:
    def saved(tensors, path: Path) -> None:
        save(tensors, path)
        is_there = folder in path.parent.name and path.stem == name
        if is_there and (not is_good or (path.parents[1] / "model").exists()):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            killed()

    return saved


MOMENTS = {moment.__name__: moment for moment in (in_a_step, in_a_checkpoint, in_the_best_model, between_the_renames)}


def train_and_die(folder: str, moment: str) -> None:
    torch.set_num_threads(1)
    run.draw_curves = lambda history, path: None
    checkpoint_by_steps()
    MOMENTS[moment]()
    runs.run(Path(folder))
