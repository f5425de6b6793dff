"""Accelerate: the devices, processes and trackers of a run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import ProjectConfiguration

from spansieve.training.run_folder import LOGS

TRACKERS = ("tensorboard", "wandb")


def is_main_process(use_cpu: bool = False) -> bool:
    return PartialState(cpu=use_cpu).is_main_process


def build_accelerator(precision: str, folder: Path, trackers: Sequence[str] = (), use_cpu: bool = False) -> Accelerator:
    # Accelerate has one state in a Python process, and would refuse a run with another precision or device.
    if AcceleratorState._shared_state and PartialState().num_processes == 1:
        state = AcceleratorState()
        if state.mixed_precision != precision or (state.device.type == "cpu") != use_cpu:
            AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        mixed_precision=precision,
        cpu=use_cpu,
        log_with=list(trackers) or None,
        project_config=ProjectConfiguration(str(folder), logging_dir=str(folder / LOGS)),
        # An encoder may have weights that no token's vector depends on.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def check_trackers(trackers: Sequence[str]) -> None:
    for name in trackers:
        if name not in TRACKERS:
            raise ValueError(f"tracker must be one of {', '.join(TRACKERS)}, got {name!r}")
        if find_spec(name) is None:
            raise ValueError(f"tracker {name} needs its package: pip install {name}")
