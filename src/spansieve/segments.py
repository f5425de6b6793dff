"""What a segmentation is made of: segments, and the labels that they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class LabelSet:
    """Label names by id; id 0 is null and has no name.

    >>> labels = LabelSet(["PER", "ORG"])
    >>> labels.id("ORG"), labels.name(1), len(labels)
    (2, 'PER', 3)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names, start=1)}
        if len(self._ids) != len(self.names) or "" in self._ids:
            raise ValueError(f"label names must be distinct and not empty, got {list(self.names)}")

    def id(self, name: str) -> int:
        if name not in self._ids:
            raise KeyError(f"unknown label {name!r}; known are {', '.join(sorted(self.names))}")
        return self._ids[name]

    def name(self, label: int) -> str:
        if not 1 <= label < len(self):
            raise KeyError(f"label id must lie between 1 and {len(self.names)}, got {label}")
        return self.names[label - 1]

    def __len__(self) -> int:
        """How many labels there are, null included: Y."""
        return len(self.names) + 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)
