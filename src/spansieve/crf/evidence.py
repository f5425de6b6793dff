"""What is known of a sentence beside its scores, and what it leaves of a model's parts: in NumPy, without torch.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spansieve.crf.flat_segments import FlatSegments, dense_index, first_clash, flat_segments, named, sorted_by_end
from spansieve.crf.kernels import RequiredDepths
from spansieve.segments import Segment

Pair = tuple[int, int]  # of labels: what comes first, or contains; and what follows, or is contained


class Span(NamedTuple):
    """Tokens `start … end - 1`, whatever their label."""

    start: int
    end: int


@dataclass(frozen=True)
class Known:
    """What is known of one sentence. Plain tuples will do: of two numbers for a span, of three for a segment.

    >>> Known(required=[(0, 2, 1)], forbidden=[(3, 4), (5, 7, 2)]).forbidden
    (Span(start=3, end=4), Segment(start=5, end=7, label=2))
    """

    required: Sequence[Segment] = ()  # are in the segmentation
    forbidden: Sequence[Segment | Span] = ()  # are not: with this label, or with whatever label
    complete: Sequence[Span] = ()  # what shares a token with these and is not required is no entity

    def __post_init__(self) -> None:
        required = tuple(dict.fromkeys(Segment(*segment) for segment in self.required))
        forbidden = tuple(Segment(*part) if len(part) == 3 else Span(*part) for part in self.forbidden)
        object.__setattr__(self, "required", required)
        object.__setattr__(self, "forbidden", forbidden)
        object.__setattr__(self, "complete", tuple(Span(*span) for span in self.complete))

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.complete)

    def joined(self, other: Known) -> Known:
        """Join this with further knowledge of the same sentence."""
        return Known(
            (*self.required, *other.required), (*self.forbidden, *other.forbidden), (*self.complete, *other.complete)
        )


class FlatKnown(NamedTuple):
    """What is known of a batch, checked: each segment with a label of its own."""

    required: FlatSegments  # from left to right
    forbidden: FlatSegments  # none of them wider than the model's segments
    complete: FlatSegments

    @classmethod
    def of(
        cls, known: Sequence[Known], lengths: np.ndarray, num_labels: int, max_width: int | None, nested: bool = False
    ) -> FlatKnown:
        """Flatten, and check against the sentences and, unless `nested`, that no two required segments overlap."""
        if len(known) != len(lengths):
            raise ValueError(f"known must be one per sentence, {len(lengths)}, got {len(known)}")
        widest = int(lengths.max(initial=1)) if max_width is None else max_width
        required = flat_segments([evidence.required for evidence in known]).in_order()
        required.check(lengths, widest, num_labels)
        for b, segments_here in enumerate(required.by_sentence()):
            if pair := first_clash(segments_here, nested):
                wrong, both = "cross or have one span" if nested else "overlap", " and ".join(map(named, pair))
                raise ValueError(f"required segments must not {wrong}, got {both} of sentence {b}")
        labels = range(1, num_labels)
        forbidden = flat_segments([[s for f in evidence.forbidden for s in _labelled(f, labels)] for evidence in known])
        complete = flat_segments([[(*span, 1) for span in evidence.complete] for evidence in known])
        for segments in (forbidden, complete):
            segments.check(lengths, int(lengths.max(initial=1)), num_labels)
        if (is_both := required.are_among(forbidden)).any():
            k = int(is_both.argmax())
            which = f"{required.named(k)} of sentence {required.sentence[k]}"
            raise ValueError(f"{which} is required, and forbidden too")
        return cls(required, forbidden.where(forbidden.end - forbidden.start <= widest), complete)

    def impossible_segments(self, shape: Sequence[int]) -> np.ndarray:
        """Which segments (B, L, K, Y) of a model that covers every token cannot be, null ones included."""
        required, complete = (x.covered_in_spans(*shape[1:3])[..., None] > 0 for x in (self.required, self.complete))
        is_impossible = np.broadcast_to(required, shape).copy()  # what shares a token with one, (B, L, K, 1)
        is_impossible[..., 1:] |= complete
        is_impossible.reshape(-1)[dense_index(self.required, shape)] = False
        is_impossible.reshape(-1)[dense_index(self.forbidden, shape)] = True
        return is_impossible

    def candidates_left(self, nodes: FlatSegments, num_tokens: int, nested: bool = False, remove: bool = True) -> Left:
        """Make required segments candidates. What cannot stand beside one of them is dropped, and with `remove` what is
        forbidden, too."""
        is_new = ~self.required.are_among(nodes)
        every, _ = sorted_by_end([nodes.columns, self.required.where(is_new).columns], len(nodes.offsets) - 1)
        is_required = every.are_among(self.required)
        is_clashing = ~is_required & (_crosses if nested else _touches)(every, self.required, num_tokens)
        is_forbidden = every.are_among(self.forbidden)
        is_forbidden |= ~is_required & _touches(every, self.complete, num_tokens)
        is_left = ~(is_clashing | is_forbidden) if remove else ~is_clashing
        return Left(every.where(is_left), is_required[is_left], is_forbidden[is_left])


def _labelled(part: Segment | Span, labels: range) -> list[Segment]:
    return [part] if isinstance(part, Segment) else [Segment(*part, label) for label in labels]


# ---- What is left --------------------------------------------------------------------------------------------------


class Left(NamedTuple):
    """The candidates that are left, with the required ones among them."""

    nodes: FlatSegments  # sorted by (sentence, end, start, label)
    is_required: np.ndarray  # (N,)
    is_forbidden: np.ndarray  # (N,): forbidden, and still a node: no path may take it


def _touches(nodes: FlatSegments, segments: FlatSegments, num_tokens: int) -> np.ndarray:
    """Which nodes share a token with a segment."""
    covered = segments.covered_tokens(num_tokens)
    return covered[nodes.sentence, nodes.end] > covered[nodes.sentence, nodes.start]


def _crosses(nodes: FlatSegments, required: FlatSegments, num_tokens: int) -> np.ndarray:
    """Which nodes share a token with a required segment, neither strictly within the other."""
    is_crossing = np.zeros(len(nodes.start), bool)
    for b, start, end in zip(required.sentence, required.start, required.end):
        nodes_here = slice(nodes.offsets[b], nodes.offsets[b + 1])
        first, last = nodes.start[nodes_here], nodes.end[nodes_here]
        shares = (first < end) & (start < last)
        is_around, is_within = (first <= start) & (end <= last), (start <= first) & (last <= end)
        is_crossing[nodes_here] |= shares & (is_around == is_within)
    return is_crossing


def in_banned_pair(nodes: FlatSegments, banned: Collection[Pair]) -> np.ndarray:
    """Which candidates may meet one before or after them with which they would be a banned pair."""
    sentence, start, end, label = nodes.columns
    is_in = np.zeros(len(start), bool)
    for first, second in banned:
        for b in np.unique(sentence[label == first]):
            here = slice(nodes.offsets[b], nodes.offsets[b + 1])
            before, after = (label[here] == first), (label[here] == second)
            if not after.any():
                continue
            earliest, latest = end[here][before].min(), start[here][after].max()
            is_in[here] |= before & (end[here] <= latest)
            is_in[here] |= after & (start[here] >= earliest)
    return is_in


# ---- Nested segments -------------------------------------------------------------------------------------------------


class DepthLabels:
    """Labels with their depth in required segments, for laminar sets that must have those.

    A label becomes one for each depth of the segment, and of its content. A segment may then be right below another
    only where that one's content is as deep as it is itself, or a required segment would be missing between the two;
    and likewise a token that is in no further segment.
    """

    def __init__(
        self, nodes: FlatSegments, is_required: np.ndarray, label: np.ndarray, num_labels: int, num_tokens: int
    ) -> None:
        of_token = nodes.where(is_required).token_depths(num_tokens)  # nothing crosses, so tokens may be counted
        depth = _depth_of_nodes(nodes, is_required)
        num_depths = 1 + int(depth.max(initial=0))
        self.label_of, rest = np.divmod(np.arange(num_labels * num_depths * 2), num_depths * 2)
        self._depth, goes_deeper = np.divmod(rest, 2)
        self.of_node = (label * num_depths + depth) * 2 + is_required  # (N,)
        self.required = RequiredDepths(of_token, self._depth + goes_deeper)

    @property
    def can_meet(self) -> np.ndarray:
        """Which second label may be right below which first, a mask."""
        return self.required.content[:, None] == self._depth[None]


def _depth_of_nodes(nodes: FlatSegments, is_required: np.ndarray) -> np.ndarray:
    """(N,): in how many required segments each candidate strictly lies."""
    depth = np.zeros(len(nodes.start), np.int64)
    sentence = nodes.sentence
    for k in np.flatnonzero(is_required):
        here = slice(nodes.offsets[sentence[k]], nodes.offsets[sentence[k] + 1])
        start, end = nodes.start[here], nodes.end[here]
        is_narrower = end - start < nodes.end[k] - nodes.start[k]
        depth[here] += (nodes.start[k] <= start) & (end <= nodes.end[k]) & is_narrower
    return depth
