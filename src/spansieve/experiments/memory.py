"""The most memory that this process has held (Linux)."""

from __future__ import annotations

import ctypes
from pathlib import Path


def peak_memory(reset: bool = False) -> int:
    """Bytes that this process has held at most since the last reset."""
    if reset:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept for later would hide the first megabytes
        Path("/proc/self/clear_refs").write_text("5")
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
