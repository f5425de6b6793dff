"""Which of overlapping segments a flat and a nested model learn, and how deep they lie."""

from __future__ import annotations

import itertools
import random
import time

from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.example import Example
from spansieve.data.overlap_resolution import depths, flat, flat_examples, laminar
from spansieve.segments import NamedSegment

SEGMENTS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 10), st.sampled_from("XY")).filter(lambda s: s[0] < s[1]), unique=True
)


@given(SEGMENTS)
def test_what_stays_is_disjoint_and_every_loss_overlaps_something_at_least_as_wide(segments):
    example = Example.of("a b c d e f g h i j", segments)
    kept, dropped = flat(example)
    assert not kept.has_overlaps()
    assert sorted((*kept.segments, *dropped)) == sorted(example.segments)
    for lost in dropped:
        assert any(s.start < lost.end and lost.start < s.end and s.width >= lost.width for s in kept.segments)


def test_the_widest_stays_then_the_first_then_the_first_label():
    example = Example.of("a b c d e f", [(0, 3, "X"), (2, 4, "Y"), (1, 2, "Z"), (4, 5, "B"), (4, 5, "A")])
    kept, dropped = flat(example)
    assert kept.segments == ((0, 3, "X"), (4, 5, "A"))
    assert dropped == ((1, 2, "Z"), (2, 4, "Y"), (4, 5, "B"))
    assert flat(Example.of("a b c", [(1, 3, "A"), (0, 2, "B")]))[0].segments == ((0, 2, "B"),)


def test_a_flat_example_is_itself_and_losses_are_counted():
    example = Example.of("a b", [(0, 1, "X"), (1, 2, "X")])
    assert flat(example)[0] is example
    nested = Example.of("a b", [(0, 2, "X"), (1, 2, "X")], document="d")
    examples, lost = flat_examples([example, nested])
    assert lost == 1
    assert examples == [example, Example.of("a b", [(0, 2, "X")], document="d")]


def test_a_sentence_of_20_000_segments_is_resolved_in_seconds():
    apart = [(2 * i, 2 * i + 1, "X") for i in range(20_000)]
    around = [(i, 40_000 - i, "X") for i in range(20_000)]
    started = time.perf_counter()
    assert flat(Example.of(["a"] * 40_000, [*apart, (0, 1, "Y")]))[1] == ((0, 1, "Y"),)
    assert len(flat(Example.of(["a"] * 40_000, around))[1]) == 19_999
    assert laminar(Example.of(["a"] * 40_000, around))[1] == ()
    assert time.perf_counter() - started < 10


# ---- Nested ----------------------------------------------------------------------------------------------------------


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
