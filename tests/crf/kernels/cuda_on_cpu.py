"""CUDA C run on the CPU: the same source, compiled by a C++ compiler, with fibers for the threads of a block."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

COMPILER = shutil.which("g++") or shutil.which("clang++")
HEADER = Path(__file__).with_name("cuda_on_cpu.hpp")
LAUNCH = """
extern "C" void launch(const Task* task, unsigned x, unsigned y, unsigned threads) {
    run(decode, *task, x, y, threads);
}
"""


class KernelOnCpu:
    """What `spansieve.crf.kernels.nvrtc.Kernel` is on a GPU. Counts its launches."""

    max_shared_memory = 220 * 1024

    def __init__(self, source: str, name: str, device: Any) -> None:
        assert name == "decode"
        self._launch, self.num_launches = _compiled(source).launch, 0

    def launch(self, grid: tuple[int, int], threads: int, shared_memory: int, argument: Any) -> None:
        assert shared_memory <= self.max_shared_memory
        self.num_launches += 1
        self._launch(ctypes.c_void_p(argument[0]), *grid, threads)

    def record(self, event: Any) -> None:
        """Nothing is under way when a launch returns."""


@lru_cache(maxsize=64)
def _compiled(source: str) -> Any:
    folder = Path(mkdtemp())
    # Of shared memory there is as much as on a GPU.
    dynamic = f"__shared__ double4 memory[{KernelOnCpu.max_shared_memory // 32}];"
    code = f'#include "{HEADER}"\n' + source.replace("extern __shared__ double4 memory[];", dynamic) + LAUNCH
    (folder / "kernel.cpp").write_text(code, encoding="utf-8")
    options = ["-std=c++17", "-fPIC", "-shared", "-fno-strict-aliasing", "-ffp-contract=off"]
    command = [str(COMPILER), *options, str(folder / "kernel.cpp"), "-o", str(folder / "kernel.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return ctypes.CDLL(str(folder / "kernel.so"))
