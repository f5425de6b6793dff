"""Times of several contenders, measured side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

TURN = 0.02  # seconds
PATIENCE = 30.0  # seconds: a contender whose call takes longer is called once


@dataclass(frozen=True)
class Contender:
    """Something to time."""

    task: str
    name: str
    run: Callable[[], object]
    note: str = ""


@dataclass(frozen=True)
class Timing:
    contender: Contender
    seconds: float  # median
    rounds: int


def timed_side_by_side(contenders: Sequence[Contender], seconds_each: float, device: str = "cpu") -> list[Timing]:
    """The median time of each. They take short turns, so that a noisy moment of the machine falls on all alike.

    A turn is as many calls as fill it, at least one. The first call is not counted, since it may compile, unless it
    took so long that there is no time for a second.
    """
    samples: list[list[float]] = [[] for _ in contenders]
    spent = [0.0] * len(contenders)
    repeats = [1] * len(contenders)
    for k, contender in enumerate(contenders):
        first = _timed(contender.run, 1, device)
        if first > PATIENCE:
            samples[k].append(first)
            spent[k] = first
        else:
            repeats[k] = max(1, round(TURN / _timed(contender.run, 1, device)))
    while any(s < seconds_each for s in spent):
        for k, contender in enumerate(contenders):
            if spent[k] < seconds_each:
                took = _timed(contender.run, repeats[k], device)
                samples[k].append(took / repeats[k])
                spent[k] += took
    return [Timing(c, statistics.median(s), len(s)) for c, s in zip(contenders, samples)]


def _timed(run: Callable[[], object], repeats: int, device: str) -> float:
    """Seconds for all repeats; on a GPU each is waited for."""
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
        if device == "cuda":
            torch.cuda.synchronize()
    return time.perf_counter() - begin


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread of the CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
