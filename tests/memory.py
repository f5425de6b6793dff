"""The peak memory of a process by its own pages: what `getrusage` says of a process that another one started begins
with the pages of the other."""

from __future__ import annotations

import re
from pathlib import Path


def peak_kilobytes() -> int:
    """The most that this process has had in memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])
