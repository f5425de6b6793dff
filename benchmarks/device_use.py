"""What a GPU does during a call: launches, copies, and how long it is at work at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

RESULT_BYTES = 1024  # of a batch of decoded sentences, about


class DeviceUse(NamedTuple):
    launches: int
    copies: int
    busy: float  # seconds in which a kernel or a copy ran

    def idle_share(self, seconds: float) -> float:
        """The share of a call that takes so long in which the device does nothing. The call is timed without the
        profiler, which holds the host up and not the device."""
        return max(0.0, 1.0 - self.busy / seconds)


def device_use(run: Callable[[], object]) -> DeviceUse:
    """Profile one call, after one that may compile."""
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    copies = sum(event.name.startswith(("Memcpy", "Memset")) for event in events)
    busy = covered((event.time_range.start, event.time_range.end) for event in events)
    return DeviceUse(len(events) - copies, copies, busy / 1e6)


def covered(ranges: Iterable[tuple[float, float]]) -> float:
    """How much of a line ranges cover, which may overlap.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total = reached = 0.0
    for start, end in sorted(ranges):
        total += max(0, end - max(start, reached)) if total else end - start
        reached = max(reached, end)
    return total


def launch_and_copy() -> Callable[[], None]:
    """The least that decoding on a device takes: one launch, one copy of a result to pinned memory, and the wait."""
    result = torch.zeros(RESULT_BYTES // 4, device="cuda")
    pinned = torch.empty(result.shape, pin_memory=True)
    event = torch.cuda.Event()

    def run() -> None:
        result.add_(1.0)
        pinned.copy_(result, non_blocking=True)
        event.record()
        event.synchronize()

    return run
