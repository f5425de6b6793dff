"""Windows cover everything, keep everything once, and keep it where it stands furthest from an edge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spansieve.nn.windows import Window, windows_over

LENGTHS, ROOMS, OVERLAPS = st.integers(0, 200), st.integers(1, 40), st.floats(0, 0.99)


@given(LENGTHS, ROOMS, OVERLAPS)
def test_each_position_is_kept_once_and_in_order(length, room, overlap):
    kept = [p for w in windows_over(length, room, overlap) for p in range(w.keep_start, w.keep_end)]
    assert kept == list(range(length))


@given(LENGTHS, ROOMS, OVERLAPS)
def test_windows_lie_within_bounds_and_hold_what_they_keep(length, room, overlap):
    windows = windows_over(length, room, overlap)
    for window in windows:
        assert 0 <= window.start <= window.keep_start < window.keep_end <= window.end <= length
        assert window.end - window.start == min(room, length)
    if windows:
        assert windows[0].start == windows[0].keep_start == 0
        assert windows[-1].end == windows[-1].keep_end == length


@given(LENGTHS, ROOMS, OVERLAPS)
def test_neighbours_share_what_they_should(length, room, overlap):
    windows = windows_over(length, room, overlap)
    for one, following in zip(windows, windows[1:]):
        assert one.start < following.start
        assert one.end - following.start >= min(int(room * overlap), room - 1)


@given(LENGTHS, ROOMS, OVERLAPS)
def test_a_position_is_kept_where_it_stands_furthest_from_an_edge(length, room, overlap):
    windows = windows_over(length, room, overlap)

    def distance(window: Window, position: int) -> int:
        return min(position - window.start, window.end - 1 - position)

    for window in windows:
        for position in range(window.keep_start, window.keep_end):
            holding = [w for w in windows if w.start <= position < w.end]
            # The two ends of the text are edges of it, not of a window that could be moved.
            if holding[0].start > 0 and holding[-1].end < length:
                assert distance(window, position) == max(distance(w, position) for w in holding)


def test_what_fits_is_one_window():
    assert windows_over(6, 6, 0.5) == [Window(0, 6, 0, 6)]
    assert windows_over(0, 6, 0.5) == []
