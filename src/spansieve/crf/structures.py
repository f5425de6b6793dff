"""Segments between Python and flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from spansieve.segments import Segment


class FlatSegments(NamedTuple):
    """Segments of all sentences, one array each: those of sentence b are offsets[b] … offsets[b+1] - 1."""

    offsets: np.ndarray  # (B + 1,)
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray

    @property
    def sentence(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def flat_segments(lists: Sequence[Sequence[Sequence[int]]]) -> FlatSegments:
    """From one sequence of (start, end, label) per sentence."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(segments) for segments in lists], out=offsets[1:])
    triples = [segment for segments in lists for segment in segments]
    if any(len(triple) != 3 for triple in triples):
        wrong = next(triple for triple in triples if len(triple) != 3)
        raise ValueError(f"a segment must be (start, end, label), got {tuple(wrong)}")
    start, end, label = np.ascontiguousarray(np.array(triples, np.int64).reshape(-1, 3).T)
    return FlatSegments(offsets, start, end, label)


def check_segments(segments: FlatSegments, lengths: np.ndarray, max_width: int, num_labels: int | None) -> None:
    """Each within its sentence, not too wide, and with a label that is not null. The first that is not is named."""
    is_wrong = (segments.start < 0) | (segments.start >= segments.end) | (segments.end > lengths[segments.sentence])
    is_wrong |= (segments.end - segments.start > max_width) | (segments.label < 1)
    is_wrong |= segments.label >= (np.inf if num_labels is None else num_labels)
    if is_wrong.any():
        at = int(is_wrong.argmax())
        b = int(segments.sentence[at])
        segment = (segments.start[at], segments.end[at], segments.label[at])
        check_segment(segment, b, int(lengths[b]), max_width, num_labels or int(segments.label[at]) + 1, 1)


def check_segment(
    segment: Sequence[int], b: int, length: int, max_width: int, num_labels: int, lowest_label: int
) -> None:
    start, end, label = segment
    if not 0 <= start < end <= length:
        raise ValueError(f"{named(segment)} of sentence {b} must lie within its {length} tokens and not be empty")
    if end - start > max_width:
        raise ValueError(
            f"{named(segment)} of sentence {b} is {end - start} wide, but the widest scored is {max_width}"
        )
    if not lowest_label <= label < num_labels:
        null = ", as 0 is null" if lowest_label else ""
        raise ValueError(
            f"label of {named(segment)} of sentence {b} must lie between {lowest_label} and {num_labels - 1}{null}"
        )


def named(segment: Sequence[int]) -> str:
    return f"segment ({', '.join(str(int(x)) for x in segment)})"


def segments_by_sentence(segments: FlatSegments) -> list[tuple[Segment, ...]]:
    """Back to one tuple of Segments per sentence."""
    triples = zip(segments.start.tolist(), segments.end.tolist(), segments.label.tolist())
    # A named tuple's own constructor is Python code, and would take as long as the whole sweep.
    flat = list(map(tuple.__new__, repeat(Segment), triples))
    bounds = segments.offsets.tolist()
    return [tuple(flat[a:z]) for a, z in zip(bounds, bounds[1:])]


def offsets_of(sentence: np.ndarray, num_sentences: int) -> np.ndarray:
    """Where each sentence begins in a list sorted by sentence, and where the last one ends."""
    return np.searchsorted(sentence, np.arange(num_sentences + 1))
