"""The tags of a chain and the segments that they spell, in NumPy and without torch.

Axes: B sentences, L tokens, Y tags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.labels import LabelSet
from spansieve.models.chain_messages import from_the_left, from_the_right
from spansieve.segments import Segment

PREFIXES = {"BIO": "BI", "BIOES": "BIES"}


class LabelTags(NamedTuple):
    """The ids of a label's tags by the position of a token in its segment; one may stand for two."""

    first: int
    inner: int
    last: int
    single: int


class SegmentTags:
    """A tag scheme: how segments are written as tags; tag 0 is O."""

    def __init__(self, labels: LabelSet, scheme: str) -> None:
        self.scheme = scheme
        self.names = ["O", *(f"{prefix}-{name}" for name in labels for prefix in PREFIXES[scheme])]
        self._of_label = [_label_tags(label, scheme) for label in range(1, len(labels))]
        self._opened = {tag: y for y, tags in enumerate(self._of_label, 1) for tag in (tags.first, tags.single)}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def num_labels(self) -> int:
        return len(self._of_label)

    def of_segments(self, segments: Sequence[Segment], length: int) -> list[int]:
        tags = [0] * length
        for segment in segments:
            if not 0 <= segment.start < segment.end <= length:
                raise ValueError(f"a segment must lie within the {length} tokens, got {tuple(segment)}")
            if any(tags[segment.start : segment.end]):
                raise ValueError(f"segments must not overlap to be written as tags, got another on {tuple(segment)}")
            tags[segment.start : segment.end] = self.of_segment(segment)
        return tags

    def of_segment(self, segment: Segment) -> list[int]:
        tags = self._of_label[segment.label - 1]
        if segment.width == 1:
            return [tags.single]
        return [tags.first, *[tags.inner] * (segment.width - 2), tags.last]

    def segments(self, sequence: Sequence[int]) -> tuple[Segment, ...]:
        """The segments that a well-formed sequence spells: a tag that opens nothing goes on with what is open."""
        found: list[list[int]] = []
        opened = self._opened
        for position, tag in enumerate(sequence):
            if not tag:
                continue
            if tag in opened:
                found.append([position, position + 1, opened[tag]])
            else:
                found[-1][1] = position + 1
        return tuple(Segment(*segment) for segment in found)

    def probabilities(
        self,
        chain: Chain,
        segments: Sequence[Sequence[Segment]],
        written: Callable[[int, Segment], list[int]] | None = None,
    ) -> list[list[float]]:
        """The probability of each segment: the share of Z of the sequences with it, its tags fixed, all others free.

        `written` are the tags of a segment of sentence b, where those are not `of_segment`.
        """
        tags = written or (lambda b, segment: self.of_segment(segment))
        return [
            [self._probability(chain, b, segment, tags(b, segment)) for segment in found]
            for b, found in enumerate(segments)
        ]

    def _probability(self, chain: Chain, b: int, segment: Segment, tags: list[int]) -> float:
        inside, after = self._inside(chain, b, segment, tags), self._after(chain, b, segment, tags[-1])
        return min(1.0, math.exp(inside + after - chain.total[b]))

    def _inside(self, chain: Chain, b: int, segment: Segment, tags: list[int]) -> float:
        """The log-sum of all that leads to the segment's first tag, and its other tags."""
        share = chain.left[b, segment.start, tags[0]]
        if segment.width > 1:
            others = np.arange(segment.start + 1, segment.end)
            share += (chain.transition[tags[:-1], tags[1:]] + chain.scores[b, others, tags[1:]]).sum()
        return share

    def _after(self, chain: Chain, b: int, segment: Segment, last: int) -> float:
        """The log-sum of all that may follow the segment's last tag without going on with it."""
        end = segment.end
        if self.scheme == "BIOES" or end == chain.lengths[b]:
            return chain.right[b, end - 1, last]
        following = chain.transition[last] + chain.scores[b, end] + chain.right[b, end]
        following[self._of_label[segment.label - 1].inner] = -np.inf
        return np.logaddexp.reduce(following)


class Chain(NamedTuple):
    """A batch's chains in double precision, with their forward-backward messages."""

    scores: np.ndarray  # (B, L, Y)
    transition: np.ndarray  # (Y, Y)
    lengths: np.ndarray  # (B,)
    left: np.ndarray  # (B, L, Y)
    right: np.ndarray  # (B, L, Y)
    total: np.ndarray  # (B,): log Z

    @classmethod
    def of(cls, scores: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> Chain:
        scores, transition = scores.astype(np.float64), transition.astype(np.float64)
        left, right = from_the_left(scores, transition), from_the_right(scores, transition, lengths)
        ending = left[np.arange(len(left)), np.maximum(lengths, 1) - 1]
        return cls(scores, transition, lengths, left, right, np.logaddexp.reduce(ending, axis=-1))


def _label_tags(label: int, scheme: str) -> LabelTags:
    prefixes = PREFIXES[scheme]
    first = 1 + (label - 1) * len(prefixes)
    return LabelTags(first, first + 1, *((first + 1, first) if scheme == "BIO" else (first + 2, first + 3)))
