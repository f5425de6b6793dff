"""Graphs that onnxruntime runs: arrays in, arrays out."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer

import numpy as np

from spansieve.data.formats.files import package
from spansieve.persistence.manifest import ModelError, refusing

TRIAL_BYTES = 1 << 28  # beside the weights, for a few tokens
TRIAL_SECONDS = 10.0
EXTRA = "'spansieve[onnx]'"  # what pip installs


class Session:
    """One ONNX file on the CPU. Several threads may call it at once."""

    def __init__(self, path: Path, threads: int, is_trial: bool = False) -> None:
        """Load a graph. On trial it is run as it stands, in little memory beside its weights and for little time."""
        runtime = package("onnxruntime", EXTRA)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors, which are raised as well
        # Batches differ in shape: memory planned for one does not fit the next.
        options.enable_mem_pattern = False
        # Threads that have nothing to do sleep. By default they wait in a loop and take the cores from the other graph,
        # the kernels and everyone else: beside other work that halves the speed.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if is_trial:
            _register_small_arena()
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.add_session_config_entry("session.use_env_allocators", "1")
            options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
        self._cannot = f"{path} cannot be run by onnxruntime {runtime.__version__}"
        self._is_trial, self._runtime = is_trial, runtime
        with refusing(self._cannot):
            self._session = runtime.InferenceSession(
                str(path),
                options,
                providers=["CPUExecutionProvider"],
                # What is constant is computed by the exporter. To fold more would keep all of it at once.
                disabled_optimizers=["ConstantFolding"],
            )
        self._inputs = [node.name for node in self._session.get_inputs()]

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        missing = [name for name in self._inputs if name not in arrays]
        if missing:
            raise ModelError(f"a graph of the export wants {', '.join(missing)}, which this version does not make")
        inputs = {name: arrays[name] for name in self._inputs}
        with refusing(self._cannot):
            return self._run_on_trial(inputs) if self._is_trial else self._session.run(None, inputs)

    def _run_on_trial(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        options = self._runtime.RunOptions()
        timer = Timer(TRIAL_SECONDS, setattr, (options, "terminate", True))
        timer.start()
        try:
            return self._session.run(None, inputs, options)
        finally:
            timer.cancel()


@functools.cache  # once: it is the process's
def _register_small_arena() -> None:
    import onnxruntime as runtime

    kind, where = runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, runtime.OrtMemType.DEFAULT
    arena = runtime.OrtArenaCfg({"max_mem": TRIAL_BYTES, "arena_extend_strategy": 1})  # as much as is asked for
    runtime.create_and_register_allocator(runtime.OrtMemoryInfo("Cpu", kind, 0, where), arena)


def openmp_threads() -> int:
    """Return the number of threads that OMP_NUM_THREADS sets, as torch takes it; one for each core without it."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(first)) if first.isdigit() else usable_cores()


def usable_cores() -> int:
    """Return the number of cores that this process may run on, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
