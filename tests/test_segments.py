from __future__ import annotations

from spansieve import Segment


def test_segments_are_half_open():
    assert Segment(2, 5, 1).width == 3
    assert not Segment(0, 2, 1).overlaps(Segment(2, 4, 1))
    assert Segment(0, 3, 1).overlaps(Segment(2, 4, 1))


def test_containment():
    assert Segment(0, 4, 1).contains(Segment(1, 3, 2))
    assert Segment(0, 4, 1).contains(Segment(0, 4, 2))
    assert not Segment(1, 4, 1).contains(Segment(0, 2, 2))


def test_a_segment_equals_its_tuple_and_sorts_by_start():
    assert Segment(0, 2, 1) == (0, 2, 1)
    assert sorted([Segment(1, 2, 0), Segment(0, 3, 0)]) == [(0, 3, 0), (1, 2, 0)]
