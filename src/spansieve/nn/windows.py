"""Overlapping windows over what is too long for one."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """A window: positions `start … end - 1` are read together, and the vectors of `keep_start … keep_end - 1` kept."""

    start: int
    end: int
    keep_start: int
    keep_end: int


def windows_over(length: int, room: int, overlap: float) -> list[Window]:
    """Windows of at most `room` positions over `length`: each position is kept once, and in the middle of an overlap
    the one window hands over to the next.

    >>> windows_over(10, 6, 0.34)
    [Window(start=0, end=6, keep_start=0, keep_end=5), Window(start=4, end=10, keep_start=5, keep_end=10)]
    """
    if length <= room:
        return [Window(0, length, 0, length)] if length else []
    shared = min(int(room * overlap), room - 1)
    starts = [*range(0, length - room, room - shared), length - room]
    windows, reached = [], 0
    for start, following in zip(starts, [*starts[1:], None]):
        end = start + room
        keep_end = length if following is None else (following + end + 1) // 2
        windows.append(Window(start, end, reached, keep_end))
        reached = keep_end
    return windows
