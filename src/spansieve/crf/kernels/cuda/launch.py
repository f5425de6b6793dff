"""Launches without Triton's own binding of arguments, which costs the host more than the launch itself.

Triton chooses the compiled kernel by the types of the arguments, by which pointers and numbers are multiples of 16, and
by the constants. So do we, in one look-up; the first call of its kind goes through Triton and compiles.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

from spansieve.crf.kernels import MIN_TRITON, triton_version

if triton_version() < MIN_TRITON:
    raise ImportError(f"Triton must be at least {MIN_TRITON} for the kernels of a GPU, got {triton_version()}")
try:
    from triton import knobs
except ImportError:  # Triton 3.3, which launches by itself: its kernels take other arguments
    knobs = None

_compiled: dict[tuple[Any, ...], Any] = {}


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Tensor | float | None, num_warps: int = 4, **constants: Any):
    """Launch `kernel[grid](*arguments, num_warps=…, **constants)`; the constants are last in the kernel's signature."""
    if knobs is None or not isinstance(kernel, JITFunction):  # an old Triton, or the interpreter
        kernel[grid](*arguments, num_warps=num_warps, **constants)
        return
    device = torch.cuda.current_device()
    key = (kernel, device, num_warps, *map(_kind, arguments), *constants.values())
    compiled = _compiled.get(key)
    if compiled is None:
        _compiled[key] = kernel[grid](*arguments, num_warps=num_warps, **constants)
        return
    in_order = [constants[name] for name in kernel.arg_names[len(arguments) :]]
    compiled[(*grid, 1, 1)[:3]](*arguments, *in_order)


def _kind(argument: Tensor | float | None) -> Any:
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() & 15 == 0
    if isinstance(argument, int):
        return argument == 1, argument & 15 == 0, argument < 1 << 31
    return type(argument)
