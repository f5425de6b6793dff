"""CUDA C run on the CPU: the same source, compiled by a C++ compiler, with fibers for the threads of a block."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
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


def _finds_races() -> bool:
    """Whether there is a g++ whose calls tell what is volatile, as they do since version 11."""
    if sys.platform != "linux" or not shutil.which("g++") or not shutil.which("addr2line"):
        return False
    return int(subprocess.check_output(["g++", "-dumpversion"], text=True).split(".")[0]) >= 11


FINDS_RACES = _finds_races()


class KernelOnCpu:
    """What `spansieve.crf.kernels.nvrtc.Kernel` is on a GPU. Counts its launches."""

    max_shared_memory = 220 * 1024

    def __init__(self, source: str, name: str, device: Any) -> None:
        assert name == "decode"
        self._library, self.num_launches = self._compiled(source), 0

    def _compiled(self, source: str) -> Any:
        return _compiled(source)

    def launch(self, grid: tuple[int, int], threads: int, shared_memory: int, argument: Any) -> None:
        assert shared_memory <= self.max_shared_memory
        self.num_launches += 1
        self._library.launch(ctypes.c_void_p(argument[0]), *grid, threads)

    def record(self, event: Any) -> None:
        """Nothing is under way when a launch returns."""


class KernelWithRaces(KernelOnCpu):
    """The same, slowly, with each access to memory watched: `races` are pairs of lines of the source, at which two
    threads do something to the same place in an order that nothing guarantees."""

    def __init__(self, source: str, name: str, device: Any) -> None:
        super().__init__(source, name, device)
        self.races: list[str] = []

    def _compiled(self, source: str) -> Any:
        return _compiled(source, finds_races=True)

    def launch(self, grid: tuple[int, int], threads: int, shared_memory: int, argument: Any) -> None:
        super().launch(grid, threads, shared_memory, argument)
        self._library.races_found.restype = ctypes.c_char_p
        found = self._library.races_found().decode().splitlines()
        self.races += [" / ".join(map(self._with_source, race.split("\t"))) for race in found]

    def _with_source(self, access: str) -> str:
        address, what = access.split(" ", 1)
        library = Path(self._library._name)
        place = subprocess.check_output(["addr2line", "-e", library, address], text=True).split()[0]
        file, line = place.rsplit(":", 1)
        return f"{Path(file).read_text(encoding='utf-8').splitlines()[int(line) - 1].strip()} ({what})"


@lru_cache(maxsize=64)
def _compiled(source: str, finds_races: bool = False) -> Any:
    folder = Path(mkdtemp())
    # Of shared memory there is as much as on a GPU.
    dynamic = f"__shared__ double4 memory[{KernelOnCpu.max_shared_memory // 32}];"
    code = f'#include "{HEADER}"\n' + source.replace("extern __shared__ double4 memory[];", dynamic) + LAUNCH
    (folder / "kernel.cpp").write_text(code, encoding="utf-8")
    options = ["-std=c++17", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off", "-c"]
    if finds_races:
        options += ["-g", "-O1", "-w", "-fno-semantic-interposition", "-DRACES"]
        options += ["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"]
    for arguments in ([*options, "kernel.cpp"], ["-shared", "kernel.o", "-o", "kernel.so"]):
        done = subprocess.run([str(COMPILER), *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    return ctypes.CDLL(str(folder / "kernel.so"))
