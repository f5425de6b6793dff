"""Which kernel answers for which tensors."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

from torch import Tensor

from spansieve.crf.kernels import reference


def kernel_for(scores: Tensor) -> ModuleType:
    """Compiled code on the CPU, Triton on a GPU, and plain torch anywhere else."""
    if scores.device.type == "cpu":
        from spansieve.crf.kernels import cpu_tensors

        return cpu_tensors
    if scores.device.type == "cuda" and find_spec("triton") is not None:
        from spansieve.crf.kernels import cuda

        return cuda
    return reference
