"""What a segmentation is made of."""

from __future__ import annotations

from typing import NamedTuple


class Segment(NamedTuple):
    """A labelled span: tokens `start … end - 1` carry the label with this id.

    A named tuple, so that segments sort by (start, end, label), cost little to make by the million, and equal the plain
    tuples that people type.
    """

    start: int
    end: int
    label: int

    @property
    def width(self) -> int:
        return self.end - self.start

    def overlaps(self, other: Segment) -> bool:
        """True when the two share a token."""
        return self.start < other.end and other.start < self.end

    def contains(self, other: Segment) -> bool:
        """True when every token of `other` is a token of this one."""
        return self.start <= other.start and other.end <= self.end


class NamedSegment(NamedTuple):
    """A segment as files have it, with the name of its label: tokens `start … end - 1` are a `label`."""

    start: int
    end: int
    label: str

    @property
    def width(self) -> int:
        return self.end - self.start


class Entity(NamedTuple):
    """A segment in its text: `text == document[start:end]`, in characters."""

    start: int
    end: int
    label: str
    text: str
    probability: float | None = None  # that exactly this segment with this label is in the output, by the model
    depth: int = 0  # how many entities of the output it lies within; only nested models have more than 0
