"""How long one waits before anything happens. What is not loaded for it: tests/cli/test_commands.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

HELP = ["-m", "spansieve", "--help"]
resource = pytest.importorskip("resource", reason="needs a POSIX system")


def processor_seconds(*arguments: str) -> float:
    """What a fresh interpreter takes, the least of five times. Beside other work that is up to twice as much."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


@pytest.mark.parametrize(("arguments", "most"), [(["-c", "import spansieve"], 0.3), (HELP, 0.6)])
def test_start_up(arguments, most):
    assert 0 < processor_seconds(*arguments) < most
