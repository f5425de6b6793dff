"""Times of several contenders, measured side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

Name = TypeVar("Name")
Time = TypeVar("Time")
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
        first = seconds_of(contender.run, device)
        if first > PATIENCE:
            samples[k].append(first)
            spent[k] = first
        else:
            repeats[k] = max(1, round(TURN / seconds_of(contender.run, device)))
    while any(s < seconds_each for s in spent):
        for k, contender in enumerate(contenders):
            if spent[k] < seconds_each:
                took = seconds_of(contender.run, device, repeats[k])
                samples[k].append(took / repeats[k])
                spent[k] += took
    return [Timing(c, statistics.median(s), len(s)) for c, s in zip(contenders, samples)]


def seconds_of(run: Callable[[], object], device: str = "cpu", repeats: int = 1) -> float:
    """Seconds for all repeats; on a GPU the end of each is waited for."""
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
        if device == "cuda":
            torch.cuda.synchronize()
    return time.perf_counter() - begin


def timed_in_rounds(
    contenders: Mapping[Name, Callable[[], object]], rounds: int, clock: Callable[[Callable[[], object]], Time]
) -> dict[Name, list[Time]]:
    """What the clock measured of each contender in each round, another one going first in every round. One more round
    before them, which may compile, is not counted."""
    times: dict[Name, list[Time]] = {name: [] for name in contenders}
    order = list(contenders)
    for turn in range(rounds + 1):
        for name in order:
            taken = clock(contenders[name])
            if turn:
                times[name].append(taken)
        order = order[1:] + order[:1]
    return times


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread of the CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
