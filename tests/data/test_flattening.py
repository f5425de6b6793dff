"""Which of overlapping segments stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.example import Example
from spansieve.data.flattening import flat, flat_examples

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
