"""Which kernel answers for which tensors."""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from torch import Tensor

from spansieve.crf.kernels import reference


def kernel_for(scores: Tensor) -> ModuleType:
    """Compiled code on the CPU, Triton on a GPU, and plain torch anywhere else."""
    return _kernel("cpu" if scores.is_cpu else scores.device.type)


@functools.cache
def can(kernel: ModuleType, name: str) -> bool:
    """Whether a kernel has an answer of this name; looked up once, since to look for what is not there takes long."""
    return hasattr(kernel, name)


@functools.cache
def _kernel(device: str) -> ModuleType:
    if device == "cpu":
        return import_module("spansieve.crf.kernels.cpu.tensors")
    if device == "cuda" and has_triton():
        return import_module("spansieve.crf.kernels.cuda")
    return reference


@functools.cache
def has_triton() -> bool:
    return find_spec("triton") is not None
