"""Which gold a nested model can learn, and how deep it lies."""

from __future__ import annotations

import itertools
import random

from spansieve.data.example import Example
from spansieve.data.nesting import depths, laminar
from spansieve.segments import NamedSegment


def parts(segments):
    return [(s.start, s.end, s.label) for s in segments]


def test_what_nests_stays():
    example = Example.of("a b c d e", [(0, 5, "X"), (0, 2, "Y"), (1, 2, "X"), (3, 4, "Z")])
    assert laminar(example) == (example, ())


def test_of_two_that_cross_the_wider_stays():
    example = Example.of("a b c d e", [(0, 2, "X"), (1, 4, "Y"), (1, 2, "Z")])
    kept, dropped = laminar(example)
    assert parts(kept.segments) == [(1, 2, "Z"), (1, 4, "Y")]
    assert parts(dropped) == [(0, 2, "X")]


def test_a_span_has_one_label_the_first_by_name():
    kept, dropped = laminar(Example.of("a b", [(0, 2, "ORG"), (0, 2, "LOC"), (0, 1, "PER")]))
    assert parts(kept.segments) == [(0, 1, "PER"), (0, 2, "LOC")]
    assert parts(dropped) == [(0, 2, "ORG")]


def test_by_definition_on_random_segments():
    chance = random.Random(0)
    for _ in range(300):
        found = set()
        for _ in range(chance.randint(0, 6)):
            start = chance.randint(0, 6)
            found.add((start, chance.randint(start + 1, 7), chance.choice("XY")))
        example = Example.of("a b c d e f g", sorted(found))
        kept, dropped = laminar(example)
        assert sorted((*kept.segments, *dropped)) == list(example.segments)
        for one, other in itertools.combinations(kept.segments, 2):
            shared = range(max(one.start, other.start), min(one.end, other.end))
            assert len(shared) in (0, min(one.width, other.width))
            assert (one.start, one.end) != (other.start, other.end)
        for segment, depth in zip(example.segments, depths(example.segments)):
            around = [s for s in found if s[0] <= segment.start and segment.end <= s[1] and s[:2] != segment[:2]]
            assert depth == len(around)


def test_depths_are_in_the_order_given():
    inner, outer = NamedSegment(1, 2, "X"), NamedSegment(0, 3, "Y")
    assert depths([inner, outer]) == [1, 0]
    assert depths([outer, inner]) == [0, 1]
    assert depths([]) == []
