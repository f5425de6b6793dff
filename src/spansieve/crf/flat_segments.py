"""Segments between Python and flat arrays, and exact overlap resolution for scored spans of any origin. No torch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """Sentences, starts, ends and labels."""
        return (self.sentence, *self[1:])

    def where(self, is_kept: np.ndarray) -> FlatSegments:
        """Select those that a mask keeps."""
        return self.at(np.flatnonzero(is_kept))

    def at(self, index: np.ndarray) -> FlatSegments:
        """Select those at some indices, which are in order."""
        return FlatSegments(np.searchsorted(index, self.offsets), *(column[index] for column in self[1:]))

    def ordered(self, order: np.ndarray) -> FlatSegments:
        """Put those of each sentence into another order."""
        return FlatSegments(self.offsets, *(column[order] for column in self[1:]))

    def in_order(self) -> FlatSegments:
        """Sort segments from left to right within each sentence, as a path goes."""
        return self.ordered(np.lexsort((self.start, self.sentence)))

    def outermost_first(self) -> FlatSegments:
        """Sort from left to right, a container before what it contains."""
        return self.ordered(self.outermost_order)

    @property
    def outermost_order(self) -> np.ndarray:
        return np.lexsort((-self.end, self.start, self.sentence))

    @property
    def previous_ends(self) -> np.ndarray:
        """The end of the segment before each, 0 for the first of a sentence."""
        ends = np.concatenate(([0], self.end))[:-1]
        ends[self.offsets[:-1][np.diff(self.offsets) > 0]] = 0
        return ends

    @property
    def last_ends(self) -> np.ndarray:
        """The end of the last segment of each sentence, (B,), 0 where there is none."""
        return np.where(np.diff(self.offsets) > 0, np.concatenate(([0], self.end))[self.offsets[1:]], 0)

    def by_sentence(self) -> list[tuple[Segment, ...]]:
        """Make one tuple of Segments per sentence."""
        triples = zip(self.start.tolist(), self.end.tolist(), self.label.tolist())
        # A named tuple's own constructor is Python code, and would take as long as the whole sweep.
        flat = tuple(map(tuple.__new__, repeat(Segment), triples))
        bounds = self.offsets.tolist()
        return [flat[a:z] for a, z in zip(bounds, bounds[1:])]

    def named(self, k: int) -> str:
        """Write segment k as errors name it."""
        return named([column[k] for column in self[1:]])

    def check(self, lengths: np.ndarray, max_width: int, num_labels: int | None, lowest_label: int = 1) -> None:
        """Check that each lies in its sentence, is not too wide and has a label, by default not null; name the first
        that does not."""
        is_wrong = (self.start < 0) | (self.start >= self.end) | (self.end > lengths[self.sentence])
        is_wrong |= (self.end - self.start > max_width) | (self.label < lowest_label)
        is_wrong |= self.label >= (np.inf if num_labels is None else num_labels)
        if not is_wrong.any():
            return
        at = int(is_wrong.argmax())
        b, start, end, label = (int(column[at]) for column in self.columns)
        which = f"{self.named(at)} of sentence {b}"
        if not 0 <= start < end <= lengths[b]:
            raise ValueError(f"{which} must lie within its {lengths[b]} tokens and not be empty")
        if end - start > max_width:
            raise ValueError(f"{which} is {end - start} wide, but the widest scored is {max_width}")
        highest = label if num_labels is None else num_labels - 1
        null = ", as 0 is null" if lowest_label else ""
        raise ValueError(f"label of {which} must lie between {lowest_label} and {highest}{null}")

    def check_disjoint(self) -> None:
        """Check that no two segments of gold, which are in order, share a token; name the first two that do."""
        if (is_overlap := self.start < self.previous_ends).any():
            at = int(is_overlap.argmax())
            pair = f"{self.named(at - 1)} and {self.named(at)}; NestedLayer takes segments within others"
            raise ValueError(f"gold of sentence {self.sentence[at]} must not overlap, got {pair}")

    def index_in(self, others: FlatSegments) -> np.ndarray:
        """The index of each segment in others sorted by (sentence, end, start, label), -1 where it is none of them."""
        keys, other_keys = keys_of(self, others)
        index = np.searchsorted(other_keys, keys)
        is_one = np.concatenate((other_keys, [-1]))[index] == keys
        # What is no segment at all may have the key of one that is.
        is_one &= (self.start >= 0) & (self.start < self.end) & (self.label > 0)
        return np.where(is_one, index, -1)

    def are_among(self, others: FlatSegments) -> np.ndarray:
        """Which of the segments are among the others, a mask."""
        keys, other_keys = keys_of(self, others)
        return np.isin(keys, other_keys)

    def token_depths(self, num_tokens: int) -> np.ndarray:
        """Count in how many of the segments each token lies, (B, L)."""
        change = np.zeros((len(self.offsets) - 1, num_tokens + 1), np.int64)
        np.add.at(change, (self.sentence, self.start), 1)
        np.add.at(change, (self.sentence, self.end), -1)
        return np.ascontiguousarray(change.cumsum(1)[:, :-1])

    def covered_tokens(self, num_tokens: int) -> np.ndarray:
        """Count how many of the tokens before i lie in a segment that is not null, (B, L + 1)."""
        covered = np.zeros((len(self.offsets) - 1, num_tokens + 1), np.int64)
        np.cumsum(self.where(self.label > 0).token_depths(num_tokens) > 0, axis=1, out=covered[:, 1:])
        return covered

    def covered_in_spans(self, num_tokens: int, max_width: int) -> np.ndarray:
        """Count the tokens of each span, as far as it goes, that lie in a segment that is not null, (B, L, K)."""
        covered, start = self.covered_tokens(num_tokens), np.arange(num_tokens)[:, None]
        return covered[:, np.minimum(start + np.arange(1, max_width + 1), num_tokens)] - covered[:, start]


def flat_segments(lists: Sequence[Sequence[Sequence[int]]]) -> FlatSegments:
    """Flatten one sequence of (start, end, label) per sentence."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(segments) for segments in lists], out=offsets[1:])
    triples = list(chain.from_iterable(lists))
    if triples and isinstance(triples[0], Integral):
        raise TypeError(f"segments must be one list per sentence, got {lists[0]} for one; put a single one in a list")
    if not {3}.issuperset(map(len, triples)):
        wrong = next(triple for triple in triples if len(triple) != 3)
        raise ValueError(f"a segment must be (start, end, label), got {tuple(wrong)}")
    numbers = integers(triples, "a segment must be (start, end, label), three integers")
    return FlatSegments(offsets, *np.ascontiguousarray(numbers.reshape(-1, 3).T))


def integers(rows: Sequence[Sequence[int]], wanted: str) -> np.ndarray:
    """Collect the integers of all rows in one array; name what is none, with what was wanted of it."""
    try:
        # np.array would look at each number for its type, which takes ten times as long.
        return np.fromiter(map(operator.index, chain.from_iterable(rows)), np.int64, sum(map(len, rows)))
    except TypeError:
        wrong, row = next((value, row) for row in rows for value in row if not isinstance(value, Integral))
        way_out = "; give a label by its number: 0 is null, the others count from 1" if isinstance(wrong, str) else ""
        raise TypeError(f"{wanted}, got {wrong!r} in {row!s:.60}{way_out}") from None


def covering(segments: Sequence[tuple[int, int, int]], length: int) -> list[Segment]:
    """Cover a sentence: add null segments of width 1 where there is nothing.

    >>> covering([(1, 3, 2)], 4)
    [Segment(start=0, end=1, label=0), Segment(start=1, end=3, label=2), Segment(start=3, end=4, label=0)]
    """
    covered: list[Segment] = []
    reached = 0
    for start, end, label in sorted(segments):
        covered += [Segment(i, i + 1, 0) for i in range(reached, start)]
        covered.append(Segment(start, end, label))
        reached = end
    return covered + [Segment(i, i + 1, 0) for i in range(reached, length)]


def named(segment: Sequence[int]) -> str:
    """Write a segment as errors name it."""
    return f"segment ({', '.join(str(int(x)) for x in segment)})"


class _Interned(dict[int, Segment]):
    """The segments of (L, K, Y) scores by their flat index, each made once.

    The same segments come up again and again, and to look one up takes a third of the time that making it does.
    """

    MAX_SIZE = 1 << 16

    def __init__(self, max_width: int, num_labels: int) -> None:
        super().__init__()
        self.max_width, self.num_labels = max_width, num_labels

    def __missing__(self, index: int) -> Segment:
        span, label = divmod(index, self.num_labels)
        start, width = divmod(span, self.max_width)
        if len(self) >= self.MAX_SIZE:
            self.clear()
        segment = self[index] = Segment(start, start + width + 1, label)
        return segment


_interned = functools.lru_cache(maxsize=16)(_Interned)


def segments_by_index(
    offsets: np.ndarray, index: np.ndarray, max_width: int, num_labels: int
) -> list[tuple[Segment, ...]]:
    """One tuple of Segments per sentence, given the flat index of each in the (L, K, Y) scores of its sentence."""
    flat = tuple(map(_interned(max_width, num_labels).__getitem__, index.tolist()))
    bounds = offsets.tolist()
    return [flat[a:z] for a, z in zip(bounds, bounds[1:])]


def segments_of_starts(widths: np.ndarray, labels: np.ndarray) -> FlatSegments:
    """The segments that are not null, given their width and label where they start, (B, L)."""
    sentence, start = index = labels.nonzero()
    return FlatSegments(offsets_of(sentence, len(labels)), start, start + widths[index], labels[index])


def first_clash(segments: Iterable[Segment], nested: bool) -> tuple[Segment, Segment] | None:
    """Find two that overlap or, if nested, cross or have one span."""
    around: list[Segment] = []  # those that the next one lies within: it need not be held against any other
    for segment in sorted(segments, key=lambda s: (s.start, -s.end)):
        while around and around[-1].end <= segment.start:
            around.pop()
        if around and not (nested and around[-1].contains(segment) and around[-1].width != segment.width):
            return around[-1], segment
        around.append(segment)
    return None


def segments_by_start(widths: np.ndarray, labels: np.ndarray, shape: Sequence[int]) -> list[tuple[Segment, ...]]:
    """One tuple of Segments per sentence, given their width and label where they start, (B, L), for (B, L, K, Y)
    scores. A width of 0 is no segment."""
    sentence, start = where = widths.nonzero()
    index = (start * shape[2] + widths[where] - 1) * shape[3] + labels[where]
    return segments_by_index(offsets_of(sentence, len(widths)), index, *shape[2:])


def offsets_of(sentence: np.ndarray, num_sentences: int) -> np.ndarray:
    """The offset of each sentence in a list sorted by sentence, and behind them the end of the last one."""
    return np.searchsorted(sentence, np.arange(num_sentences + 1))


def segments_at(index: np.ndarray, shape: Sequence[int]) -> tuple[FlatSegments, np.ndarray]:
    """The segments at ascending flat indices in (B, L, K, Y), sorted by (sentence, end, start, label), and which of the
    indices each is of."""
    sentence, start, width, label = np.unravel_index(index, shape)
    return sorted_by_end([(sentence, start, start + width + 1, label)], shape[0])


def dense_index(segments: Any, shape: Sequence[int]) -> Any:
    """The flat index of segments in (B, L, K, Y): an array for FlatSegments, a tensor for Candidates."""
    _, num_tokens, max_width, num_labels = shape
    span = (segments.sentence * num_tokens + segments.start) * max_width + segments.end - segments.start - 1
    return span * num_labels + segments.label


def keys_of(*several: FlatSegments) -> list[np.ndarray]:
    """A number for each segment that is the same for the same ones, and sorts by (sentence, end, start, label)."""
    size = 1 + max(int(segments.end.max(initial=0)) for segments in several)
    num_labels = 1 + max(int(segments.label.max(initial=0)) for segments in several)
    if (len(several[0].offsets) * size * size * num_labels) >> 63:
        raise ValueError(f"segments must have smaller positions and labels, got up to {size - 1} and {num_labels - 1}")
    return [((s.sentence * size + s.end) * size + s.start) * num_labels + s.label for s in several]


def sorted_by_end(
    parts: Sequence[Sequence[np.ndarray] | np.ndarray], num_sentences: int
) -> tuple[FlatSegments, np.ndarray]:
    """Join columns of sentences, starts, ends and labels, sorted by (sentence, end, start, label), and the order that
    this took."""
    columns = np.concatenate([np.zeros((4, 0), np.int64), *map(np.array, parts)], axis=1)
    order = np.lexsort((columns[3], columns[1], columns[2], columns[0]))
    sentence, *others = columns[:, order]
    return FlatSegments(offsets_of(sentence, num_sentences), *others), order


# ---- Overlaps --------------------------------------------------------------------------------------------------------


def best_disjoint(
    starts: ArrayLike, ends: ArrayLike, scores: ArrayLike, sentences: ArrayLike | None = None
) -> np.ndarray:
    """Choose the spans to keep so that no two overlap and their scores add up to the most: a mask in the order given.

    A span is [start, end): touching ones do not overlap. One with a score of 0 or less adds nothing and is left out. Of
    equally good sets the one whose last span comes first in (end, start) order is taken, then likewise the last but
    one. `sentences` gives each span's sentence, any integers, to resolve many at once. O(N log N), whatever the size of
    the positions: what counts is their order.

    >>> best_disjoint([0, 1, 3], [2, 4, 5], [2.0, 3.0, 2.0])
    array([ True, False,  True])
    """
    from spansieve.crf.kernels.cpu.filtered_sweeps import filtered_best  # which compiles, and nothing else here does

    starts, ends, scores = np.asarray(starts), np.asarray(ends), np.asarray(scores)
    sentences = np.zeros(starts.shape, np.int64) if sentences is None else np.asarray(sentences)
    _check_spans(starts, ends, scores, sentences)
    scores = scores.astype(np.float64)
    _, sentence = np.unique(sentences, return_inverse=True)
    # Positions become ranks: the sweep goes by position, and a span may start at character 10,000,000.
    _, rank = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    start, end = rank[: len(starts)], rank[len(starts) :]
    order = np.lexsort((start, end, sentence))
    counts = np.bincount(sentence, minlength=1)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    lengths = np.full(len(counts), rank.max(initial=0))
    first, last = (np.ascontiguousarray(x[order], dtype=np.int64) for x in (start, end))
    label, transition = np.zeros(len(starts), np.int64), np.zeros((1, 1))
    _, is_chosen = filtered_best(offsets, first, last, label, scores[order], transition, lengths, skip=True)
    result = np.empty_like(is_chosen)
    result[order] = is_chosen
    return result


def _check_spans(starts: np.ndarray, ends: np.ndarray, scores: np.ndarray, sentences: np.ndarray) -> None:
    for name, array in (("starts", starts), ("ends", ends), ("scores", scores), ("sentences", sentences)):
        if array.ndim != 1 or array.size != starts.size:
            raise ValueError(f"{name} must have shape ({starts.size},), one entry per span, got {array.shape}")
    for name, array in (("starts", starts), ("ends", ends), ("sentences", sentences)):
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"{name} must be integers, got {array.dtype}")
    if (starts >= ends).any():
        at = int((starts >= ends).argmax())
        raise ValueError(f"span {at} must end after it starts, got [{starts[at]}, {ends[at]})")
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise ValueError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")
