"""BIO and BIOES tags as ids, the segments that they spell, and the probability of a segment under a linear chain; the
tags of other people's classifiers, in any scheme and order.

In NumPy, which takes a third of the time of tensors where a step is a few hundred numbers. Axes: B sentences, L tokens,
Y tags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.kernels.cpu import Predecessors, segments_of_tags
from spansieve.data.example import DataError
from spansieve.data.tag_schemes import NULL_TAGS, known_scheme, split_tag
from spansieve.segments import LabelSet, Segment

PREFIXES = {"BIO": "BI", "IOB1": "BI", "IO": "I", "plain": "I", "BIOES": "BIES", "BILOU": "BIES"}
ABSENT = -1  # the column of a tag that a classifier does not have
LOWEST = -1e300  # stands for the largest number where all are -inf
TagsOf = Callable[[int, Segment], list[int]]  # the tags of a segment of sentence b


class TagCodec:
    """A tag scheme: how segments are written as tags; tag 0 is O."""

    def __init__(self, labels: LabelSet, scheme: str) -> None:
        self.scheme = scheme
        prefixes = PREFIXES[scheme]
        self.names = ["O", *(f"{prefix}-{name}" for name in labels for prefix in prefixes)]
        columns = [dict(zip(prefixes, range(first, len(self)))) for first in range(1, len(self), len(prefixes))]
        self._of_label = [_variants(label, column, scheme)[0] for label, column in enumerate(columns, start=1)]
        self.opened = np.zeros(len(self.names), np.int64)  # the label of which a tag opens a segment; 0: of none
        self.label_of_tag = np.zeros(len(self.names), np.int64)
        for variant in self._of_label:
            self.opened[variant.entries] = variant.label
            self.label_of_tag[list(variant[1:5])] = variant.label
        is_one_label = self.label_of_tag[:, None] == self.label_of_tag
        self._is_inside = is_one_label & (self.label_of_tag > 0) & (self.opened == 0)  # pairs of tags within a segment

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
        offsets, columns = segments_of_tags(tags, lengths, self._is_inside, self.label_of_tag)
        return FlatSegments(offsets, *columns)

    def probabilities(self, chain: Chain, segments: FlatSegments, tags_of: TagsOf) -> np.ndarray:
        """Return the probability of each segment: the part of Z of the sequences with its tags, all others free."""
        columns = (segments.sentence.tolist(), *(column.tolist() for column in segments[1:]))
        pairs = [(b, Segment(start, end, label)) for b, start, end, label in zip(*columns)]
        return np.array([self._probability(chain, b, segment, tags_of(b, segment)) for b, segment in pairs])

    def likely_segments(
        self, chain: Chain, opened: np.ndarray, least: float, tags_of: TagsOf
    ) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """Return every segment more probable than this, as (sentence, start, end, label), and its probability.

        A segment goes on while that it does is more probable: of such beginnings a token is part of at most 1 / least.
        `opened[b, i, y]` is P(a segment of label y starts at token i).
        """
        rows, values = [], []
        for b, start, label in zip(*(column.tolist() for column in np.nonzero(opened > least))):
            for end in range(start + 1, int(chain.lengths[b]) + 1):
                segment = Segment(start, end, label)
                tags = tags_of(b, segment)
                if end > start + 1:
                    begun = self._inside(chain, b, Segment(start, end - 1, label), tags[:-1])
                    if begun + chain.backward[b, end - 2, tags[-2]] - chain.log_partition[b] <= math.log(least):
                        break
                probability = self._probability(chain, b, segment, tags)
                if probability > least:
                    rows.append((b, *segment))
                    values.append(probability)
        return rows, values

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
    sums, step = scores.copy(), _Step.of(transition)
    for i in range(1, scores.shape[1]):
        sums[:, i] += step.log_product(sums[:, i - 1])
    return sums


def backward(scores: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the backward sums (B, L, Y): log-sum of what may follow tag y at token i to the end of the sentence; 0 at
    its last token. O(L·Y²)."""
    sums, step = np.zeros_like(scores), _Step.of(transition.T)
    for i in range(scores.shape[1] - 2, -1, -1):
        is_before_end = (i < lengths - 1)[:, None]
        following = step.log_product(scores[:, i + 1] + sums[:, i + 1])
        sums[:, i] = np.where(is_before_end, following, 0.0)
    return sums


class _Step(NamedTuple):
    """A matrix of log-weights, and the same as numbers: exp(matrix) divided by its largest entry."""

    logs: np.ndarray  # (Y, Y)
    weights: np.ndarray  # (Y, Y)
    scale: float  # the logarithm of the largest entry

    @classmethod
    def of(cls, matrix: np.ndarray) -> _Step:
        top = max(matrix.max(initial=LOWEST), LOWEST)
        return cls(matrix, np.exp(matrix - top), top)

    def log_product(self, vectors: np.ndarray) -> np.ndarray:
        """Return log(exp(vectors) @ exp(matrix)), (B, Y), each row relative to its largest number.

        A row in which a number is nothing is summed in log-space: it may have been less than a double can hold beside
        the largest, and count all the same when later scores make up for it.
        """
        top = np.maximum(vectors.max(-1, keepdims=True, initial=LOWEST), LOWEST)
        with np.errstate(divide="ignore"):  # the logarithm of nothing is -inf, as it should be
            product = np.log(np.exp(vectors - top) @ self.weights) + (top + self.scale)
        rows = np.isneginf(product).any(-1)
        if rows.any():
            product[rows] = np.logaddexp.reduce(vectors[rows, :, None] + self.logs, axis=1)
        return product


# ---- The tags of others ----------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """One way to write a label's segments as tags: the columns of these, by a token's position in its segment."""

    label: int
    single: int
    first: int = ABSENT
    inner: int = ABSENT
    last: int = ABSENT
    after_same: bool | None = None  # whether a segment of its label must touch it on the left; None: it may or may not

    @property
    def entries(self) -> list[int]:
        return [tag for tag in (self.single, self.first) if tag != ABSENT]

    @property
    def exits(self) -> list[int]:
        return [tag for tag in (self.single, self.last) if tag != ABSENT]

    @property
    def is_possible(self) -> bool:
        return self.single != ABSENT or ABSENT not in (self.first, self.last)

    def may_follow(self, previous: Variant) -> bool:
        return self.after_same is None or self.after_same == (self.label == previous.label)

    def split(self) -> list[Variant]:
        """Return a variant for single tokens and one for wider segments, which begin and end with other tags."""
        single, wide = Variant(self.label, self.single, after_same=self.after_same), self._replace(single=ABSENT)
        return [variant for variant in (single, wide) if variant.is_possible]


class TagScheme:
    """The names of a classifier's tags, read as BIO, IOB1, BIOES, BILOU, IO or plain labels."""

    def __init__(self, labels: Mapping[int, str] | Sequence[str], scheme: str = "auto") -> None:
        tags = list(labels) if not isinstance(labels, Mapping) else _by_column(labels)
        wanted = None if scheme == "auto" else known_scheme(scheme)
        parts = _parts(tags, is_plain=wanted == "plain")
        self.scheme = _checked_scheme(tags, parts, wanted)
        self.labels = LabelSet(dict.fromkeys(name for _, name in parts if name is not None))
        self.null = parts.index(("O", None))
        self.variants = [Variant(0, self.null)]
        for label, name in enumerate(self.labels, start=1):
            column = {prefix: parts.index((prefix, name)) if (prefix, name) in parts else ABSENT for prefix in "BIES"}
            variants = [variant for variant in _variants(label, column, self.scheme) if variant.is_possible]
            if not variants:
                raise ValueError(
                    f"labels must have the tags of a whole {name} in {self.scheme}, got {list(tags)!s:.200}"
                )
            self.variants += variants
        self.label_of_tag = np.array([0 if name is None else self.labels.id(name) for _, name in parts])
        self.is_inside = np.zeros((len(tags), len(tags)), bool)  # pairs of tags within a segment
        self.is_allowed = np.zeros_like(self.is_inside)  # pairs of tags that may stand side by side
        self.can_start, self.can_end = np.zeros((2, len(tags)), bool)
        self._join_tags()
        self.predecessors = Predecessors.of(self.is_allowed, self.can_start, self.can_end)

    def __len__(self) -> int:
        """How many tags there are: T."""
        return len(self.label_of_tag)

    def _join_tags(self) -> None:
        for variant in self.variants:
            first, inner, last = variant[2:5]
            for pair in ((first, last), (first, inner), (inner, inner), (inner, last)):
                if ABSENT not in pair:
                    self.is_inside[pair] = True
            self.can_start[variant.entries] |= variant.after_same is not True
            self.can_end[variant.exits] = True
            for previous in self.variants:
                if variant.may_follow(previous):
                    self.is_allowed[np.ix_(previous.exits, variant.entries)] = True
        self.is_allowed |= self.is_inside

    def segments(self, tags: np.ndarray, lengths: np.ndarray) -> FlatSegments:
        """Read the segments of sequences of tags that are allowed, (B, L)."""
        offsets, columns = segments_of_tags(tags, lengths, self.is_inside, self.label_of_tag)
        return FlatSegments(offsets, *columns)

    def variants_of(self, labels: LabelSet, split: bool) -> list[Variant]:
        """Return the variants of some labels, of which one that the classifier does not have is null to it."""
        variants = [self.variants[0]]
        for label, name in enumerate(labels, start=1):
            own = self.labels.id(name) if name in self.labels.names else None
            known = [variant._replace(label=label) for variant in self.variants if variant.label == own]
            for variant in known or [Variant(label, self.null, self.null, self.null, self.null)]:
                variants += variant.split() if split else [variant]
        return variants


def _by_column(labels: Mapping[int, str]) -> list[str]:
    by_column = {int(column): name for column, name in labels.items()}
    if set(by_column) != set(range(len(by_column))):
        raise ValueError(f"labels must be of the columns 0 to {len(by_column) - 1}, got {list(labels)!s:.200}")
    return [by_column[column] for column in range(len(by_column))]


def _parts(tags: Sequence[str], is_plain: bool) -> list[tuple[str, str | None]]:
    """Split tags into prefix and label, ("O", None) for null."""
    for tag in tags:
        if not isinstance(tag, str):
            raise TypeError(f"labels must be names of tags such as B-PER, one per column of the logits, got {tag!r}")
    parts: list[tuple[str, str | None]]
    if is_plain:
        parts = [("O", None) if tag in NULL_TAGS else ("I", tag) for tag in tags]
    else:
        try:
            parts = [split_tag(tag, position) for position, tag in enumerate(tags)]
        except DataError as error:
            raise ValueError(f"labels are no tags: {error}; scheme='plain' takes labels without prefixes") from None
    if len(set(parts)) != len(parts):
        twice = next(tag for tag, part in zip(tags, parts) if parts.count(part) > 1)
        raise ValueError(f"labels must be distinct, got {twice!r} or its like twice")
    if ("O", None) not in parts or len(parts) == 1:
        raise ValueError(f"labels must have O and a tag of an entity, got {list(tags)!s:.200}")
    return parts


def _checked_scheme(tags: Sequence[str], parts: Sequence[tuple[str, str | None]], wanted: str | None) -> str:
    prefixes = {prefix for prefix, name in parts if name is not None}
    if wanted is None:
        wanted = "BIOES" if prefixes & {"E", "S"} else "BIO" if "B" in prefixes else "IO"
    for tag, (prefix, name) in zip(tags, parts):
        if name is not None and prefix not in PREFIXES[wanted]:
            raise ValueError(f"labels must be tags of scheme {wanted}, got {tag!r}")
    if wanted in ("BIOES", "BILOU") and not {"B", "E", "S"} <= prefixes:
        raise ValueError(
            f"labels must have tags that begin, end and are a whole entity in {wanted}, got {list(tags)!s:.200}"
        )
    return wanted


def _variants(label: int, column: dict[str, int], scheme: str) -> list[Variant]:
    begin, inner = column["B"], column["I"]
    if scheme == "BIO":
        return [Variant(label, begin, begin, inner, inner)]
    if scheme in ("BIOES", "BILOU"):
        return [Variant(label, column["S"], begin, inner, column["E"])]
    # Under IOB1 a segment begins with B only where it touches one of its label.
    return [
        Variant(label, inner, inner, inner, inner, after_same=False),
        Variant(label, begin, begin, inner, inner, after_same=True),
    ]
