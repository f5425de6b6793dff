"""Which kernel runs for which tensors."""

from __future__ import annotations

import functools
import warnings
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from torch import Tensor

from spansieve.crf.kernels import reference

MIN_TRITON = (3, 3)  # before it some of what the kernels do cannot be compiled


def kernel_for(scores: Tensor) -> ModuleType:
    """Choose the kernel: compiled code on the CPU, Triton on a GPU, and plain torch anywhere else."""
    return _kernel("cpu" if scores.is_cpu else scores.device.type)


@functools.cache
def can(kernel: ModuleType, name: str) -> bool:
    """Whether a kernel has a function of this name; looked up once, since to look for what is not there takes long."""
    return hasattr(kernel, name)


@functools.cache
def _kernel(device: str) -> ModuleType:
    if device == "cpu":
        return import_module("spansieve.crf.kernels.cpu.torch_api")
    if device == "cuda":
        return import_module("spansieve.crf.kernels.cuda") if has_triton() else reference
    _warn_of_plain_torch(
        f"there are no compiled kernels for {device!r}", "compute on the CPU or on CUDA, which have them"
    )
    return reference


@functools.cache
def has_triton() -> bool:
    """Whether kernels for CUDA can be compiled. The first call warns where they cannot."""
    if find_spec("triton") is None:
        problem, way_out = "Triton is not installed", "install triton"
    elif triton_version() < MIN_TRITON:
        problem, way_out = f"Triton is {_dotted(triton_version())}", f"take {_dotted(MIN_TRITON)} (torch 2.7) or later"
    else:
        return True
    _warn_of_plain_torch(f"{problem}, so there are no compiled kernels for 'cuda'", way_out)
    return False


def triton_version() -> tuple[int, ...]:
    import triton

    return tuple(map(int, triton.__version__.split(".")[:2]))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _warn_of_plain_torch(cause: str, way_out: str) -> None:
    consequence = "plain torch gives the same results many times slower"
    warnings.warn(f"{cause}: {consequence}; {way_out}", RuntimeWarning, stacklevel=2)
