"""BIO and BIOES tags as ids, the segments that they spell, and the probability of a segment under a linear chain.

In NumPy, which takes a third of the time of tensors where a step is a few hundred numbers. Axes: B sentences, L tokens,
Y tags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.crf.flat_segments import FlatSegments, offsets_of
from spansieve.segments import LabelSet, Segment

PREFIXES = {"BIO": "BI", "BIOES": "BIES"}
LOWEST = -1e300  # stands for the largest number where all are -inf


class LabelTags(NamedTuple):
    """The ids of a label's tags by the position of a token in its segment; one may stand for two."""

    first: int
    inner: int
    last: int
    single: int


class TagCodec:
    """A tag scheme: how segments are written as tags; tag 0 is O."""

    def __init__(self, labels: LabelSet, scheme: str) -> None:
        self.scheme = scheme
        self.names = ["O", *(f"{prefix}-{name}" for name in labels for prefix in PREFIXES[scheme])]
        self._of_label = [_label_tags(label, scheme) for label in range(1, len(labels))]
        self.opened = np.zeros(len(self.names), np.int64)  # the label of which a tag opens a segment; 0: of none
        self.label_of_tag = np.zeros(len(self.names), np.int64)
        for label, tags in enumerate(self._of_label, start=1):
            self.opened[[tags.first, tags.single]] = label
            self.label_of_tag[list(tags)] = label

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
        """Return the segments that a well-formed sequence spells: a tag that opens nothing continues what is open."""
        tags = np.asarray(sequence, np.int64)[None]
        decoded = self.flat_segments(tags, np.array([tags.shape[1]]))
        return tuple(map(Segment, decoded.start.tolist(), decoded.end.tolist(), decoded.label.tolist()))

    def flat_segments(self, tags: np.ndarray, lengths: np.ndarray) -> FlatSegments:
        """Return the segments that well-formed sequences of tags spell, (B, L), of which `lengths` tokens count."""
        num_sentences, num_tokens = tags.shape
        flat = np.zeros((num_sentences, num_tokens + 1), np.int64)  # a last column of O ends what is open
        np.copyto(flat[:, :-1], tags, where=np.arange(num_tokens) < lengths[:, None])
        flat = flat.reshape(-1)
        opened = self.opened[flat]
        first = np.flatnonzero(opened)
        borders = np.flatnonzero((flat == 0) | (opened > 0))
        last = borders[np.searchsorted(borders, first, side="right")]  # the border after each start
        sentence, start = np.divmod(first, num_tokens + 1)
        return FlatSegments(offsets_of(sentence, num_sentences), start, start + last - first, opened[first])

    def probabilities(
        self, chain: Chain, segments: FlatSegments, tags_of: Callable[[int, Segment], list[int]] | None = None
    ) -> np.ndarray:
        """Return the probability of each segment: the part of Z of the sequences with its tags, all others free.

        `tags_of` are the tags of a segment of sentence b, where those are not `of_segment`.
        """
        tags_of = tags_of or (lambda b, segment: self.of_segment(segment))
        columns = (segments.sentence.tolist(), *(column.tolist() for column in segments[1:]))
        pairs = [(b, Segment(start, end, label)) for b, start, end, label in zip(*columns)]
        return np.array([self._probability(chain, b, segment, tags_of(b, segment)) for b, segment in pairs])

    def _probability(self, chain: Chain, b: int, segment: Segment, tags: list[int]) -> float:
        inside, after = self._inside(chain, b, segment, tags), self._after(chain, b, segment, tags[-1])
        return min(1.0, math.exp(inside + after - chain.log_partition[b]))

    def _inside(self, chain: Chain, b: int, segment: Segment, tags: list[int]) -> float:
        """The log-sum of all that leads to the segment's first tag, and its other tags."""
        log_sum = chain.forward[b, segment.start, tags[0]]
        if segment.width > 1:
            others = np.arange(segment.start + 1, segment.end)
            log_sum += (chain.transition[tags[:-1], tags[1:]] + chain.scores[b, others, tags[1:]]).sum()
        return log_sum

    def _after(self, chain: Chain, b: int, segment: Segment, last: int) -> float:
        """The log-sum of all that may follow the segment's last tag without going on with it."""
        end = segment.end
        if self.scheme == "BIOES" or end == chain.lengths[b]:
            return chain.backward[b, end - 1, last]
        following = chain.transition[last] + chain.scores[b, end] + chain.backward[b, end]
        following[self._of_label[segment.label - 1].inner] = -np.inf
        return np.logaddexp.reduce(following)


class Chain(NamedTuple):
    """A batch of linear chains in double precision, with their forward and backward sums."""

    scores: np.ndarray  # (B, L, Y)
    transition: np.ndarray  # (Y, Y)
    lengths: np.ndarray  # (B,)
    forward: np.ndarray  # (B, L, Y)
    backward: np.ndarray  # (B, L, Y)
    log_partition: np.ndarray  # (B,)

    @classmethod
    def from_scores(cls, scores: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> Chain:
        scores, transition = scores.astype(np.float64), transition.astype(np.float64)
        alpha, beta = forward(scores, transition), backward(scores, transition, lengths)
        ending = alpha[np.arange(len(alpha)), np.maximum(lengths, 1) - 1]
        return cls(scores, transition, lengths, alpha, beta, np.logaddexp.reduce(ending, axis=-1))


def forward(scores: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """Return the forward sums (B, L, Y): log-sum of the sequences up to token i with tag y there, its score included.
    O(L·Y²)."""
    sums, step = scores.copy(), _exponentials(transition)
    for i in range(1, scores.shape[1]):
        sums[:, i] += _log_product(sums[:, i - 1], *step)
    return sums


def backward(scores: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the backward sums (B, L, Y): log-sum of what may follow tag y at token i to the end of the sentence; 0 at
    its last token. O(L·Y²)."""
    sums, step = np.zeros_like(scores), _exponentials(transition.T)
    for i in range(scores.shape[1] - 2, -1, -1):
        is_before_end = (i < lengths - 1)[:, None]
        following = _log_product(scores[:, i + 1] + sums[:, i + 1], *step)
        sums[:, i] = np.where(is_before_end, following, 0.0)
    return sums


def _exponentials(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Return exp(matrix) divided by its largest entry, and the logarithm of that entry."""
    top = max(matrix.max(initial=LOWEST), LOWEST)
    return np.exp(matrix - top), top


def _log_product(vectors: np.ndarray, matrix: np.ndarray, scale: float) -> np.ndarray:
    """Return log(exp(vectors) @ matrix) + scale, (B, Y), each row relative to its largest number."""
    top = np.maximum(vectors.max(-1, keepdims=True, initial=LOWEST), LOWEST)
    with np.errstate(divide="ignore"):  # the logarithm of nothing is -inf, as it should be
        return np.log(np.exp(vectors - top) @ matrix) + (top + scale)


def _label_tags(label: int, scheme: str) -> LabelTags:
    prefixes = PREFIXES[scheme]
    first = 1 + (label - 1) * len(prefixes)
    return LabelTags(first, first + 1, *((first + 1, first) if scheme == "BIO" else (first + 2, first + 3)))
