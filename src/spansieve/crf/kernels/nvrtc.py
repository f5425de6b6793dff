"""CUDA C compiled at run time by NVRTC, which comes with torch, and launched without synchronising the host.

A launch by way of ctypes takes a few microseconds: the arguments of a kernel are one structure, which its owner keeps
and fills in place.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

_STATIC_SHARED = 1  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class NvrtcError(RuntimeError):
    """There is no NVRTC, or it does not take the source."""


class Kernel:
    """A kernel on one device, whose one argument is a structure."""

    def __init__(self, source: str, name: str, device: torch.device) -> None:
        """Compile and load a kernel, which may have all the shared memory that there is."""
        with torch.cuda.device(device):
            major, minor = torch.cuda.get_device_capability()
            torch.cuda.current_stream().synchronize()  # there is a context from here on
            image = _compiled(source, f"sm_{major}{minor}")
            self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
            driver = _driver()
            _check(driver.cuModuleLoadData(ctypes.byref(self._module), image))
            _check(driver.cuModuleGetFunction(ctypes.byref(self._function), self._module, name.encode()))
            used = ctypes.c_int()
            _check(driver.cuFuncGetAttribute(ctypes.byref(used), _STATIC_SHARED, self._function))
            properties: Any = torch.cuda.get_device_properties(device)
            self.max_shared_memory = properties.shared_memory_per_block_optin - used.value  # dynamic, in bytes
            _check(driver.cuFuncSetAttribute(self._function, _MAX_SHARED, self.max_shared_memory))
        self._launch, self._record = driver.cuLaunchKernel, driver.cuEventRecord
        self._index = device.index if device.index is not None else torch.cuda.current_device()

    def launch(self, grid: tuple[int, int], threads: int, shared_memory: int, argument: Any) -> None:
        """Launch on the current stream; `argument` is an array of one pointer to the structure."""
        sizes = (*grid, 1, threads, 1, 1, shared_memory)
        self._call(lambda: self._launch(self._function, *sizes, raw_stream(self._index), argument, None))

    def record(self, event: torch.cuda.Event) -> None:
        """Record an event, which was recorded before, on the current stream."""
        self._call(lambda: self._record(event.cuda_event, raw_stream(self._index)))

    def _call(self, call: Callable[[], int]) -> None:
        if not call():
            return
        with torch.cuda.device(self._index):  # another device is current, or none yet in this thread
            torch.cuda.current_stream().query()
            _check(call())


def kernel(source: str, name: str, device: torch.device) -> Kernel:
    """Return the kernel, which is compiled once in a process; what cannot be compiled is tried once, too."""
    made = _kernel_or_error(source, name, device)
    if isinstance(made, str):
        raise NvrtcError(made)
    return made


@lru_cache(maxsize=32)
def _kernel_or_error(source: str, name: str, device: torch.device) -> Kernel | str:
    try:
        return Kernel(source, name, device)
    except NvrtcError as error:
        return str(error)


def raw_stream(device_index: int) -> int:
    """The current stream, twenty times as fast as `torch.cuda.current_stream` has it: a launch costs less than that."""
    return torch._C._cuda_getCurrentRawStream(device_index)


def _compiled(source: str, architecture: str) -> bytes:
    library = _nvrtc()
    program = ctypes.c_void_p()
    _check_nvrtc(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        options = (ctypes.c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
        code = library.nvrtcCompileProgram(program, len(options), options)
        if code:
            size = ctypes.c_size_t()
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            raise NvrtcError(f"NVRTC refuses the source: {log.value.decode(errors='replace')}")
        size = ctypes.c_size_t()
        _check_nvrtc(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        _check_nvrtc(library.nvrtcGetCUBIN(program, image))
        return image.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _check_nvrtc(code: int) -> None:
    if code:
        raise NvrtcError(f"NVRTC fails with code {code}")


def _check(code: int) -> None:
    if code:
        message = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(message))
        raise RuntimeError(f"CUDA error: {(message.value or b'unknown').decode()}")


@lru_cache(maxsize=1)
def _driver() -> Any:
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    sizes = [ctypes.c_uint] * 7
    driver.cuLaunchKernel.argtypes = [
        ctypes.c_void_p, *sizes, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    ]  # fmt: skip
    driver.cuEventRecord.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return driver


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    """Find the library as torch loads it: by its name, or in the packages that are installed beside torch."""
    major = (torch.version.cuda or "0").split(".")[0]
    if sys.platform == "win32":
        names, folder = [f"nvrtc64_{major}0_0.dll"], Path(torch.__file__).parent / "lib"
    else:
        names, folder = [f"libnvrtc.so.{major}"], Path(torch.__file__).parent.parent / "nvidia"
    found = [str(path) for name in names for path in sorted(folder.glob(f"**/{name}"))]
    for path in (*names, *found):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise NvrtcError(f"NVRTC, {names[0]}, is not installed")
