"""Random gold and predictions, and their way into BIO tags."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from spansieve.segments import NamedSegment

LABELS = ("A", "B", "C")


@st.composite
def segmentations(draw: st.DrawFn, length: int) -> tuple[NamedSegment, ...]:
    """Disjoint segments of one sentence, neighbours without a gap among them."""
    segments, start = [], 0
    while start < length:
        width = draw(st.integers(1, min(3, length - start)))
        label = draw(st.sampled_from((None, None, *LABELS)))
        if label is not None:
            segments.append(NamedSegment(start, start + width, label))
        start += width
    return tuple(segments)


@st.composite
def corpora(draw: st.DrawFn, systems: int = 1, most: int = 6) -> tuple[list, ...]:
    """Lengths, gold, and the predictions of each system, which are often gold itself."""
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=most))
    gold = [draw(segmentations(length)) for length in lengths]
    predicted = [
        [draw(st.one_of(st.just(truth), segmentations(length))) for truth, length in zip(gold, lengths)]
        for _ in range(systems)
    ]
    return lengths, gold, *predicted


def bio(segments: Sequence[NamedSegment], length: int) -> list[str]:
    tags = ["O"] * length
    for segment in segments:
        tags[segment.start : segment.end] = [f"I-{segment.label}"] * segment.width
        tags[segment.start] = f"B-{segment.label}"
    return tags
