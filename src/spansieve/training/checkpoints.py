"""Checkpoints of a run on disk: written whole or not at all, as safetensors and JSON, the newest two kept.

A checkpoint is written into a folder with another name, flushed to the disk and renamed; its state names the checksum
of every file and its own. Whatever moment a run is killed at, the newest folder with matching checksums is complete.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from spansieve.persistence.atomic import checksum, checksums, is_sealed, save_weights, sealed, write_durably
from spansieve.persistence.manifest import Manifest, ModelError, check_links, read_object, refusing
from spansieve.training.optimizer import EMA

STATE = "state.json"
NAMES = ("model", "optimizer", "average")  # of the files with tensors
KEPT = 2


class Checkpoint(NamedTuple):
    step: int
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]  # by the name of the file; there may be no average


def write_checkpoint(
    folder: Path, step: int, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]
) -> None:
    for unfinished in (*folder.glob(".*.new"), *folder.glob(".*.old")):  # left by a kill
        shutil.rmtree(unfinished, ignore_errors=True)
    with Manifest.new(folder / f"step-{step:08d}") as new:
        for name, part in tensors.items():
            save_weights(part, new / f"{name}.safetensors")
        write_durably(new / STATE, json.dumps(sealed({"step": step, "files": checksums(new), **state}), indent=2))
    # Later ones are damaged: the run went on from an earlier step.
    later = [path for number, path in _checkpoints(folder) if number > step]
    reached = [path for number, path in _checkpoints(folder) if number <= step]
    for other in later + reached[KEPT:]:
        shutil.rmtree(other, ignore_errors=True)


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest complete checkpoint; None where there is none. Each newer one that is damaged is warned of."""
    damaged: list[Path] = []
    newest = None
    for step, path in _checkpoints(folder):
        newest = _read(step, path)
        if newest is not None:
            break
        damaged.append(path)
    for path in damaged:
        _warn_of_damage(path, None if newest is None else newest.step)
    return newest


def _read(step: int, path: Path) -> Checkpoint | None:
    """Read a checkpoint; None where it is damaged."""
    with suppress(ModelError), refusing(f"checkpoint {path} is damaged"):
        state = read_object(path / STATE)
        files = {name: path / f"{name}.safetensors" for name in NAMES if f"{name}.safetensors" in state["files"]}
        check_links(path)
        if is_sealed(state) and all(checksum(file) == state["files"][file.name] for file in files.values()):
            return Checkpoint(step, state, {name: load_file(file) for name, file in files.items()})
    return None


@functools.cache  # once, however often the folder is looked through
def _warn_of_damage(path: Path, step: int | None) -> None:
    instead = "no other is complete" if step is None else f"the newest complete one is that of step {step}"
    warnings.warn(f"checkpoint {path} is damaged and was skipped; {instead}", RuntimeWarning, stacklevel=3)


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The folders of checkpoints by step, newest first."""
    if not folder.is_dir():
        return []
    matches = ((re.fullmatch(r"step-(\d+)", path.name), path) for path in folder.iterdir())
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


# ---- What is in one --------------------------------------------------------------------------------------------------


def tensors_of(model: nn.Module, optimizer: torch.optim.Optimizer, ema: EMA | None) -> dict[str, dict[str, Tensor]]:
    state = optimizer.state_dict()["state"]
    flat = {f"{index}.{key}": tensor for index, part in state.items() for key, tensor in part.items()}
    average = {} if ema is None else {"average": ema.average}
    return {"model": dict(model.state_dict()), "optimizer": flat, **average}


def restore(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, ema: EMA | None) -> None:
    """Put a model, its optimizer and its average where the checkpoint has them."""
    with refusing(f"the checkpoint of step {checkpoint.step} is not of this run"):
        model.load_state_dict(checkpoint.tensors["model"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in checkpoint.tensors["optimizer"].items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        if ema is not None:
            ema.load(checkpoint.tensors["average"])
