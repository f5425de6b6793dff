"""Tags that encode which segments are required and which are forbidden: in NumPy, without torch.

Required segments and tokens that are no entity fix tags. That a segment does *not* occur is no matter of single tags: a
sequence may have each of them, only not all. So a segment that starts where a forbidden one does, with its label, is
written in tags of its own, which encode where it started until it ends: where it must not, they cannot.

Axes: B sentences, L tokens, Y tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np

from spansieve.crf.evidence import FlatKnown, Pair
from spansieve.crf.flat_segments import FlatSegments
from spansieve.segments import Segment

FIRST, INNER, LAST, SINGLE = range(4)  # the position of a token in its watched segment


class Tags(Protocol):
    """A tag scheme: how segments are written as tags; tag 0 is in none."""

    @property
    def num_labels(self) -> int:
        """The number of labels, null left out."""

    def of_segment(self, segment: Segment) -> list[int]: ...

    def segments(self, sequence: Sequence[int]) -> tuple[Segment, ...]:
        """The segments that a sequence of tags spells."""


class Watch(NamedTuple):
    """A start and label of segments some of whose ends are forbidden."""

    start: int
    label: int


class WatchedTags:
    """The chain's tags, and behind them four for each watch: those of one label serve all sentences."""

    def __init__(self, known: FlatKnown, tags: Tags, num_tags: int, lengths: np.ndarray, num_tokens: int) -> None:
        self.tags, self.num_tags, self.lengths = tags, num_tags, lengths
        self.ends = _watched(known, len(lengths), num_tokens)
        numbered = [_numbered(ends) for ends in self.ends]
        slots = sorted({slot for each in numbered for slot in each.values()})
        self._slot = [{watch: slots.index(slot) for watch, slot in each.items()} for each in numbered]
        four = [tag for label, _ in slots for tag in four_tags(tags, label)]
        self.base = np.concatenate((np.arange(num_tags), np.array(four, np.int64)))  # (Y',): the chain's own tag
        self.slot = np.concatenate((np.full(num_tags, -1), np.repeat(np.arange(len(slots)), 4)))
        self.role = np.concatenate((np.full(num_tags, -1), np.tile(np.arange(4), len(slots))))

    def __len__(self) -> int:
        return len(self.base)

    def of_segment(self, b: int, segment: Segment) -> list[int]:
        """The tags of a segment of sentence b."""
        slot = self._slot[b].get(Watch(segment.start, segment.label))
        if slot is None:
            return self.tags.of_segment(segment)
        own = self.num_tags + 4 * slot
        if segment.width == 1:
            return [own + SINGLE]
        return [own + FIRST, *[own + INNER] * (segment.width - 2), own + LAST]

    def of_sequence(self, b: int, sequence: Sequence[int]) -> list[int]:
        """The chain's own tags with those of watched segments in their place."""
        written = list(sequence)
        for segment in self.tags.segments(sequence):
            if Watch(segment.start, segment.label) in self._slot[b]:
                written[segment.start : segment.end] = self.of_segment(b, segment)
        return written

    def can_follow(self) -> np.ndarray:
        """Which tag may follow which, (Y', Y'): a watched segment has its own tags from its first token to its last."""
        every = [four_tags(self.tags, y) for y in range(1, self.tags.num_labels + 1)]
        own = [tag for four in every for tag in (four[INNER], four[LAST])]  # the chain's own that go on with a segment
        goes_on = np.isin(self.role, (INNER, LAST)) | np.isin(np.arange(len(self)), own)
        is_open = np.isin(self.role, (FIRST, INNER))
        same = self.slot[:, None] == self.slot[None]
        is_inside = np.where(self.slot >= 0, is_open, True)  # the chain's own transition is for its own tags
        return np.where(goes_on[None], same & is_inside[:, None], ~is_open[:, None])

    def is_impossible(self, known: FlatKnown, num_tokens: int) -> np.ndarray:
        """Which tags cannot be, (B, L, Y')."""
        is_impossible = np.zeros((len(self.lengths), num_tokens, len(self)), bool)
        is_impossible[:, :, self.num_tags :] = True
        for b, ends in enumerate(self.ends):
            for watch, forbidden in ends.items():
                self._open(is_impossible[b, : self.lengths[b]], self._slot[b][watch], watch, forbidden)
        is_complete = np.diff(known.complete.covered_tokens(num_tokens)) > 0  # (B, L)
        is_impossible[:, :, 1:] |= is_complete[..., None]
        self._fix(known.required, is_impossible)
        return is_impossible

    def _fix(self, required: FlatSegments, is_impossible: np.ndarray) -> None:
        for b, *numbers in zip(required.sentence, *required[1:]):
            segment = Segment(*map(int, numbers))
            is_impossible[b, segment.start : segment.end] = True
            is_impossible[b, np.arange(segment.start, segment.end), self.tags.of_segment(segment)] = False
            if segment.end < self.lengths[b]:
                four = four_tags(self.tags, segment.label)
                is_impossible[b, segment.end, [four[INNER], four[LAST]]] = True

    def _open(self, is_impossible: np.ndarray, slot: int, watch: Watch, forbidden: set[int]) -> None:
        """Let a watched segment be written where it starts, and end where it may."""
        four, own = four_tags(self.tags, watch.label), self.num_tags + 4 * slot
        is_impossible[watch.start, [four[FIRST], four[SINGLE]]] = True
        length = len(is_impossible)
        is_impossible[watch.start, own + FIRST] = watch.start + 1 >= length
        is_impossible[watch.start, own + SINGLE] = watch.start + 1 in forbidden
        is_impossible[watch.start + 1 : length - 1, own + INNER] = False
        for end in range(watch.start + 2, length + 1):
            is_impossible[end - 1, own + LAST] = end in forbidden


def four_tags(tags: Tags, label: int) -> list[int]:
    """The first, inner, last and single tag of a label."""
    first, inner, last = tags.of_segment(Segment(0, 3, label))
    return [first, inner, last, *tags.of_segment(Segment(0, 1, label))]


def tag_pairs(banned: Collection[Pair], tags: Tags) -> list[Pair]:
    """The pairs of tags that pairs of labels meet in, where one segment ends and the next begins."""
    pairs = []
    for first, second in banned:
        for label in (first, second):
            if not 1 <= label <= tags.num_labels:
                raise ValueError(f"a banned pair must be of labels from 1 to {tags.num_labels}, got {label}")
        before, after = four_tags(tags, first), four_tags(tags, second)
        pairs += [(a, b) for a in (before[LAST], before[SINGLE]) for b in (after[FIRST], after[SINGLE])]
    return pairs


def _watched(known: FlatKnown, num_sentences: int, num_tokens: int) -> list[dict[Watch, set[int]]]:
    """The forbidden ends by start and label; what is impossible for another reason needs no watch."""
    ends: list[dict[Watch, set[int]]] = [defaultdict(set) for _ in range(num_sentences)]
    covered = [segments.covered_tokens(num_tokens) for segments in (known.required, known.complete)]
    forbidden: FlatSegments = known.forbidden
    for b, start, end, label in zip(forbidden.sentence.tolist(), *(x.tolist() for x in forbidden[1:])):
        if not any(c[b, end] > c[b, start] for c in covered):
            ends[b][Watch(start, label)].add(end)
    return ends


def _numbered(watches: Iterable[Watch]) -> dict[Watch, tuple[int, int]]:
    """The label of each watch, and how many watches of that label are before it."""
    seen: defaultdict[int, count[int]] = defaultdict(count)
    return {watch: (watch.label, next(seen[watch.label])) for watch in watches}
