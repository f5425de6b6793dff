from __future__ import annotations

import pytest

from spansieve import Segment
from spansieve.segments import LabelSet


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


# ---- Labels ----------------------------------------------------------------------------------------------------------


def test_names_and_ids():
    labels = LabelSet(["PER", "ORG"])
    assert [labels.id(name) for name in labels] == [1, 2]
    assert [labels.name(i) for i in (1, 2)] == ["PER", "ORG"]
    assert len(labels) == 3


@pytest.mark.parametrize("names", [["PER", "PER"], [""]])
def test_names_are_distinct_and_not_empty(names):
    with pytest.raises(ValueError, match="distinct and not empty"):
        LabelSet(names)


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(KeyError, match="unknown label 'GPE'; known are ORG, PER"):
        LabelSet(["PER", "ORG"]).id("GPE")


@pytest.mark.parametrize("label", [0, 3, -1])
def test_null_and_beyond_have_no_name(label):
    with pytest.raises(KeyError, match="between 1 and 2"):
        LabelSet(["PER", "ORG"]).name(label)
