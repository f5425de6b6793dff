"""Attempts in processes of their own: forked from one that has imported everything, with limits on memory and time.

python -m tests.hostile.children: reads one attempt per line, as JSON, and writes one outcome per line.
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_BYTES = 1_500_000_000
MAX_SECONDS = 20.0
OUT_OF_MEMORY = ("MemoryError", "allocate", "bad_alloc", "bad allocation")


@dataclass(frozen=True)
class Outcome:
    """What became of an attempt: it was done, it was refused by a permitted error, or something is wrong."""

    kind: str  # "done", "refused" or "wrong"
    reason: str
    seconds: float
    num_bytes: int  # the most that the process held, what it was forked with included

    @property
    def is_right(self) -> bool:
        return self.kind != "wrong" and self.num_bytes <= MAX_BYTES and self.seconds <= MAX_SECONDS


class Children:
    """The process that forks one for each attempt."""

    def __init__(self) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **threads, **quiet},
        )
        self.outcomes: list[Outcome] = []

    def warm_up(self, action: str, *arguments: str | int) -> None:
        """Do what attempts will do in the process that they are forked from, so that it is paid for once."""
        assert self.attempt("warm_up", action, *arguments).kind == "done"
        self.outcomes.pop()

    def attempt(self, action: str, *arguments: str | int) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([action, *arguments]), file=self.process.stdin, flush=True)
        outcome = Outcome(**json.loads(self.process.stdout.readline()))
        self.outcomes.append(outcome)
        return outcome

    def summary(self) -> str:
        kinds = ", ".join(
            f"{sum(o.kind == kind for o in self.outcomes)} {kind}" for kind in ("done", "refused", "wrong")
        )
        most = max((o.num_bytes for o in self.outcomes), default=0) / 1e6
        longest = max((o.seconds for o in self.outcomes), default=0.0)
        return f"{len(self.outcomes)} attempts: {kinds}; at most {most:,.0f} MB and {longest:.1f} s"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


# ---- In the process that forks -------------------------------------------------------------------------------------


def serve() -> None:
    from tests.hostile.actions import ACTIONS, prepare

    prepare()
    for line in sys.stdin:
        action, *arguments = json.loads(line)
        if action == "warm_up":  # here, so that every child has what this compiles and imports
            action, *arguments = arguments
            outcome = Outcome(*ACTIONS[action](*arguments), 0.0, 0)
        else:
            outcome = in_child(ACTIONS[action], *arguments)
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


def in_child(action: Callable[..., tuple[str, str]], *arguments: str | int) -> Outcome:
    """Run an action in a fork; it returns the kind and the reason of an outcome."""
    reading, writing = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        _run(action, arguments, writing)
    os.close(writing)
    content = _read(reading, began + MAX_SECONDS + 1)
    os.close(reading)
    if content is None:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    seconds, num_bytes = time.monotonic() - began, usage.ru_maxrss * 1024
    if not content:
        reason = "took too long" if content is None else f"the process died by {os.waitstatus_to_exitcode(status)}"
        return Outcome("wrong", reason, seconds, num_bytes)
    kind, reason = json.loads(content)
    if num_bytes > MAX_BYTES:
        kind, reason = "wrong", f"took {num_bytes / 1e6:,.0f} MB, then: {reason}"
    return Outcome(kind, reason, seconds, num_bytes)


def _run(action: Callable[..., tuple[str, str]], arguments: tuple[str | int, ...], writing: int) -> None:
    # No more than this can hurt the machine; what is asked for beyond it counts as wrong.
    status = Path("/proc/self/status").read_text()
    held = int(re.search(r"VmData:\s*(\d+)", status)[1]) * 1024  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_DATA, (held + 2 * MAX_BYTES, held + 2 * MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = action(*arguments)
    except BaseException as error:
        answer = ("wrong", f"{type(error).__name__}: {error}"[:300])
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def _read(pipe: int, until: float) -> bytes | None:
    """Read what the child writes; None where it does not come in time."""
    content = b""
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            return content
        content += part
    return None


def permitted(kinds: tuple[type[Exception], ...], action: Callable[[], object]) -> tuple[str, str]:
    """Run an action: permitted errors refuse it, unless memory ran out beneath them."""
    try:
        action()
    except kinds as error:
        chain: BaseException | None = error
        while chain is not None:
            if any(sign in f"{type(chain).__name__}: {chain}" for sign in OUT_OF_MEMORY):
                return "wrong", f"more memory was asked for than there is: {chain}"[:300]
            chain = chain.__cause__ or chain.__context__
        return "refused", f"{type(error).__name__}: {error}"[:300]
    return "done", ""


if __name__ == "__main__":
    serve()
