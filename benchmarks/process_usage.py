"""What this process alone takes, whatever else runs on the machine: processor time, and memory at its peak (Linux)."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a process that is to run without torch imports this
    from benchmarks.timings import Contender

TURN = 3  # calls: the first of a turn finds what the contender before it left in the caches
LEAST_TURNS = 3


def least_times(contenders: Sequence[Contender], seconds_each: float) -> list[float]:
    """The least processor time of one call of each. They take turns; the first call, which may compile, is not
    counted."""
    least = [math.inf] * len(contenders)
    for contender in contenders:
        contender.run()
    spent, turns = 0.0, 0
    while spent < seconds_each * len(contenders) or turns < LEAST_TURNS:
        for k, contender in enumerate(contenders):
            times = [processor_seconds(contender.run) for _ in range(TURN)]
            least[k] = min(least[k], *times)
            spent += sum(times)
        turns += 1
    return least


def processor_seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def peak_memory(reset: bool = False) -> int:
    """Bytes that this process has held at most since the last reset.

    Not what `resource` says: that begins with the memory of the process that started this one.
    """
    if reset:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept for later would hide the first megabytes
        Path("/proc/self/clear_refs").write_bytes(b"5")
    line = next(x for x in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
