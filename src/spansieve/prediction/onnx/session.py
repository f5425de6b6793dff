"""Graphs that onnxruntime runs: arrays in, arrays out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten

import numpy as np

from spansieve.persistence.manifest import ModelError

EXTRA = "pip install 'spansieve[onnx]'"


class Session:
    """One ONNX file on the CPU. Several threads may call it at once."""

    def __init__(self, path: Path, threads: int) -> None:
        try:
            import onnxruntime as runtime
        except ImportError as error:
            raise ImportError(f"an exported model needs onnxruntime: {EXTRA}") from error
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors, which are raised as well
        # Batches differ in shape: memory planned for one does not fit the next.
        options.enable_mem_pattern = False
        # Threads that have nothing to do sleep. By default they wait in a loop and take the cores from the other graph,
        # the kernels and everyone else: beside other work that halves the speed.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own errors have no common class
            reason = shorten(str(error), 200)
            raise ModelError(f"{path} cannot be run by onnxruntime {runtime.__version__}: {reason}") from error
        self._inputs = [node.name for node in self._session.get_inputs()]

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        missing = [name for name in self._inputs if name not in arrays]
        if missing:
            raise ModelError(f"a graph of the export wants {', '.join(missing)}, which this version does not make")
        return self._session.run(None, {name: arrays[name] for name in self._inputs})


def usable_cores() -> int:
    """Return the number of cores that this process may run on, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
