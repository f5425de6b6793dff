"""The scores of any token classifier: what its tags spell, and all segments as one graph, with its best path, its k
best and every marginal. No torch here.

A segment's score is the sum of its tags' scores and of the transitions within it, and what may follow what depends on
how its label is written as tags. Several models on one graph are the sum of theirs.

Axes: B sentences, L tokens, K widths, T tags, V variants of labels (that of null is 0), Y labels.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spansieve.crf.evidence import FlatKnown, Known, Pair
from spansieve.crf.flat_segments import FlatSegments, segments_of_starts
from spansieve.crf.kernels import ScoreError, cpu
from spansieve.decoding.constraints import ConstraintError, Constraints, Rules, Support
from spansieve.decoding.prediction import check_choice
from spansieve.decoding.tag_codec import ABSENT, TagScheme, Variant
from spansieve.segments import LabelSet, Segment

Join = Literal["first", "sum", "mean"]
MOST_NUMBERS = 1 << 18  # in the graph of a batch, unless it is of one sentence


class Learned(NamedTuple):
    """What was learned of tags beside their scores; None: nothing."""

    transition: np.ndarray | None  # (T, T): from the previous tag to the next
    start: np.ndarray | None  # (T,)
    end: np.ndarray | None  # (T,)

    @classmethod
    def checked(cls, size: int, **arrays: ArrayLike | None) -> Learned:
        """Check the arrays, by name, for so many tags."""
        for name, value in arrays.items():
            shape = (size, size) if name == "transition" else (size,)
            if value is not None and (np.shape(value) != shape or not np.max(value) < np.inf):
                raise ValueError(f"{name} must be numbers below +inf of shape {shape}, got shape {np.shape(value)}")
        return cls(**{name: None if value is None else np.asarray(value, float) for name, value in arrays.items()})


@dataclass(frozen=True, eq=False)
class SegmentGraph:
    """The scores of all segments of a batch, null ones of one token included, in variants of their labels."""

    scores: np.ndarray  # (B, L, K, V)
    transition: np.ndarray  # (V, V)
    lengths: np.ndarray  # (B,)
    label: np.ndarray  # (V,), ascending: the label of each variant

    @classmethod
    def from_tags(
        cls, scores: np.ndarray, lengths: np.ndarray, variants: Sequence[Variant], max_width: int, learned: Learned
    ) -> SegmentGraph:
        """Make the graph of scores of tags (B, L, T), up to a width of the segments."""
        num_tags = scores.shape[2]
        impossible = np.full((*scores.shape[:2], 1), -np.inf)
        padded = np.concatenate((scores, impossible), axis=2, dtype=np.float64)  # ABSENT is the last column
        step = np.zeros((num_tags + 1, num_tags + 1))
        step[:-1, :-1] = 0.0 if learned.transition is None else learned.transition
        start, end = (np.append(np.zeros(num_tags) if x is None else x, 0.0) for x in (learned.start, learned.end))
        single, first, inner, last = (np.array([v[k] for v in variants]) for k in range(1, 5))
        dense = _segment_scores(padded, step, (single, first, inner, last), max_width)
        dense[:, :1, :1] += start[single]
        dense[:, :1, 1:] += start[first]
        for b, length in enumerate([] if learned.end is None else lengths.tolist()):
            width = np.arange(1, min(max_width, length) + 1)
            dense[b, length - width, width - 1] += np.where(width[:, None] == 1, end[single], end[last])
        dense[:, :1, :, [v.after_same is True for v in variants]] = -np.inf
        # Of a variant with both, singles and wider ones, no transition is learned.
        entry, exit_ = np.where(single == ABSENT, first, single), np.where(single == ABSENT, last, single)
        may_follow = [[after.may_follow(before) for after in variants] for before in variants]
        transition = np.where(may_follow, step[np.ix_(exit_, entry)], -np.inf)
        return cls(dense, transition, lengths, np.array([v.label for v in variants]))

    def scaled(self, weight: float) -> SegmentGraph:
        """Multiply all scores by a weight above 0."""
        return self if weight == 1 else replace(self, scores=self.scores * weight, transition=self.transition * weight)

    def plus(self, other: SegmentGraph) -> SegmentGraph:
        """Add the scores of another graph of the same sentences and labels: every variant of a label with every one."""
        mine, others = np.nonzero(self.label[:, None] == other.label)
        transition = self.transition[np.ix_(mine, mine)] + other.transition[np.ix_(others, others)]
        scores = np.take(self.scores, mine, axis=-1) + np.take(other.scores, others, axis=-1)
        return replace(self, scores=scores, transition=transition, label=self.label[mine])

    def given(self, known: Sequence[Known], banned: Collection[Pair]) -> SegmentGraph:
        """Restrict the graph to what agrees with what is known of each sentence."""
        shape = (*self.scores.shape[:3], int(self.label[-1]) + 1)
        is_impossible = FlatKnown.of(known, self.lengths, shape[3], shape[2]).impossible_segments(shape)
        transition = self.transition.copy()
        for first, second in banned:
            transition[np.ix_(self.label == first, self.label == second)] = -np.inf
        scores = self.scores.copy()
        scores[np.take(is_impossible, self.label, axis=-1)] = -np.inf
        return replace(self, scores=scores, transition=transition)

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        """Return the score of the best path, (B,), and its segments, null ones left out."""
        max_score, widths, variants = cpu.semi_markov_best(self.scores, self.transition, self.lengths)
        segments = segments_of_starts(widths, variants)
        return max_score, segments._replace(label=self.label[segments.label])

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z, (B,), and the probability of each segment, (B, L, K, Y), 0 for null."""
        sums = cpu.semi_markov_sums(self.scores, self.transition, self.lengths)
        marginals, first = sums.marginals, np.flatnonzero(np.diff(self.label, prepend=-1))
        if len(first) < len(self.label):
            marginals = np.add.reduceat(marginals, first, axis=-1)
        marginals[..., 0] = 0.0
        return sums.log_partition, marginals

    def k_best(self, b: int, k: int) -> list[tuple[float, list[Segment]]]:
        """Return the k best paths of a sentence with their log-probabilities, best first: by best-first search with the
        exact score of what is left (A*), which extends nothing but beginnings of these paths."""
        length, max_width, num_variants = int(self.lengths[b]), *self.scores.shape[2:]
        ahead = np.zeros((length + 1, num_variants))  # the best that may follow a variant which ends here
        onward = [np.zeros((0, 0))] * length  # (K, V): the best path from each segment that starts here
        for i in range(length - 1, -1, -1):
            width = min(max_width, length - i)
            onward[i] = self.scores[b, i, :width] + ahead[i + 1 : i + 1 + width]
            ahead[i] = (self.transition + onward[i].max(0)).max(1)
        one = slice(b, b + 1)
        total = cpu.semi_markov_sums(self.scores[one], self.transition, self.lengths[one], False).log_partition[0]
        best: list[tuple[float, list[Segment]]] = []
        order = count()  # of equals the first that was found
        heap: list[tuple[Any, ...]] = [(0.0, next(order), 0, 0.0, (), np.zeros(num_variants))]
        while heap and len(best) < k:
            cost, _, i, score, path, into = heapq.heappop(heap)
            if i == length:
                best.append((-cost - float(total), _unrolled(path)))
                continue
            values = (onward[i] + into).reshape(-1)
            for at in np.argsort(-values, kind="stable")[: k - len(best)].tolist():
                if values[at] == -np.inf:
                    break
                width, v = divmod(at, num_variants)
                end, value = i + width + 1, score + float(values[at])
                path_on = (path, Segment(i, end, int(self.label[v]))) if v else path
                item = (end, value - float(ahead[end, v]), path_on, self.transition[v])
                heapq.heappush(heap, (-value, next(order), *item))
        return best


def _segment_scores(
    scores: np.ndarray, step: np.ndarray, columns: tuple[np.ndarray, ...], max_width: int
) -> np.ndarray:
    """Add up the scores of the tags of each segment and the transitions between them, (B, L, K, V). O(L·K·V)."""
    num_sentences, num_tokens, _ = scores.shape
    single, first, inner, last = columns
    dense = np.full((num_sentences, num_tokens, max_width, len(single)), -np.inf)
    dense[:, :, :1] = scores[:, :, None, single]
    between = scores[:, :, inner]
    is_impossible = between == -np.inf  # counted apart, since a difference of sums cannot hold it
    no_tokens = np.zeros((num_sentences, 1, len(single)))
    total = np.concatenate((no_tokens, np.where(is_impossible, 0.0, between).cumsum(1)), axis=1)
    gaps = np.concatenate((no_tokens, is_impossible.cumsum(1)), axis=1)
    for w in range(1, min(max_width, num_tokens)):
        starts, within = num_tokens - w, (slice(None), slice(w, num_tokens))
        before = (slice(None), slice(1, starts + 1))
        value = scores[:, :starts, first] + (total[within] - total[before]) + scores[:, w:, last]
        value += step[first, last] if w == 1 else step[first, inner] + step[inner, last]
        if w > 2:
            value += (w - 2) * step[inner, inner]
        dense[:, :starts, w] = np.where(gaps[within] > gaps[before], -np.inf, value)
    return dense


def _unrolled(path: tuple[Any, ...]) -> list[Segment]:
    """Put the segments of a path, each behind all before it, into a list."""
    segments: list[Segment] = []
    while path:
        path, segment = path
        segments.append(segment)
    return segments[::-1]


@dataclass(frozen=True, eq=False)
class TokenScores:
    """The scores of a batch of tags, as one classifier has them."""

    scheme: TagScheme
    scores: np.ndarray  # (B, L, T)
    lengths: np.ndarray  # (B,)
    learned: Learned
    max_width: int

    def graph(self, index: list[int], width: int, labels: LabelSet) -> SegmentGraph:
        """Make the graph of some sentences, up to a width, with these labels."""
        lengths = self.lengths[index]
        variants = self.scheme.variants_of(labels, split=self.learned.transition is not None)
        scores = self.scores[index, : lengths.max()]
        graph = SegmentGraph.from_tags(scores, lengths, variants, min(width, self.max_width), self.learned)
        missing = width - graph.scores.shape[2]
        if not missing:
            return graph
        wider = np.pad(graph.scores, ((0, 0), (0, 0), (0, missing), (0, 0)), constant_values=-np.inf)
        return replace(graph, scores=wider)

    def best(self) -> tuple[np.ndarray, FlatSegments]:
        """Return the score of the best tags of each sentence, (B,), and the segments that they spell: by the linear
        chain, which has no limit of width and is many times as fast as the graph."""
        scheme, (transition, start, end) = self.scheme, self.learned
        number, scores = self.scores.dtype.type, self.scores
        if start is not None or end is not None or transition is not None:
            scores = scores.copy()
            scores[:, :1] += np.where(scheme.can_start, 0.0 if start is None else start, -np.inf).astype(number)
            rows = np.flatnonzero(self.lengths)
            last = np.where(scheme.can_end, 0.0 if end is None else end, -np.inf)
            scores[rows, self.lengths[rows] - 1] += last.astype(number)
        if transition is None:
            max_score, tags = cpu.allowed_chain_best(scores, scheme.predecessors, self.lengths)
        else:
            step = np.where(scheme.is_allowed, transition, -np.inf).astype(number)
            max_score, tags = cpu.linear_chain_best(scores, step, self.lengths)
        return max_score, scheme.segments(tags, self.lengths)


@dataclass(frozen=True, eq=False)
class GraphScores:
    """The scores of classifiers of the same sentences, which add up, and of spans of these, where there are any."""

    labels: LabelSet
    classifiers: Sequence[tuple[TokenScores, float]]  # with their weights
    spans: FlatSegments | None = None  # with the ids of `labels`
    span_scores: np.ndarray | None = None  # (M,): log-odds
    unlisted: np.ndarray | None = None  # (Y,): log-odds of all other spans, by label

    @property
    def lengths(self) -> np.ndarray:
        return self.classifiers[0][0].lengths

    def chain(self, constraints: Sequence[Constraints | None]) -> TokenScores | None:
        """Return the classifier, where it is the only one and its best tags need not be looked for among others."""
        is_free = not any(constraints) or not any(rule.is_knowledge for rule in self._rules(constraints))
        return self.classifiers[0][0] if is_free and len(self.classifiers) == 1 and self.spans is None else None

    @cached_property
    def max_width(self) -> int:
        widest = max(tokens.max_width for tokens, _ in self.classifiers)
        return widest if self.spans is None else max(widest, int((self.spans.end - self.spans.start).max(initial=1)))

    def _rules(self, constraints: Sequence[Constraints | None]) -> list[Rules]:
        support, lengths = Support(self.labels, self.max_width, takes_nested=False), self.lengths.tolist()
        rules = [support.rules(one, [str(i) for i in range(n)]) for one, n in zip(constraints, lengths)]
        return rules or [Rules()] * len(lengths)

    def graphs(self, constraints: Sequence[Constraints | None]) -> Iterator[tuple[list[int], SegmentGraph]]:
        """Yield the graphs of sentences that have tokens, under the constraints of each sentence or none at all, in
        batches of like length with the same banned pairs."""
        rules, lengths = self._rules(constraints), self.lengths.tolist()
        banned = [sorted(rule.banned) for rule in rules]
        batch: list[int] = []
        for b in sorted((b for b in range(len(lengths)) if lengths[b]), key=lambda b: (banned[b], lengths[b])):
            numbers = (len(batch) + 1) * lengths[b] * min(lengths[b], self.max_width) * len(self.labels)
            if batch and (numbers > MOST_NUMBERS or banned[b] != banned[batch[0]]):
                yield batch, self._graph(batch, [rules[k] for k in batch])
                batch = []
            batch.append(b)
        if batch:
            yield batch, self._graph(batch, [rules[k] for k in batch])

    def _graph(self, index: list[int], rules: Sequence[Rules]) -> SegmentGraph:
        width = min(self.max_width, int(self.lengths[index].max()))
        total, *others = (tokens.graph(index, width, self.labels).scaled(w) for tokens, w in self.classifiers)
        if self.spans is not None:
            others.append(self._span_graph(index, total.scores.shape, self.spans))
        for graph in others:
            total = total.plus(graph)
        is_known = any(rule.is_knowledge for rule in rules)
        return total.given([rule.known for rule in rules], rules[0].banned) if is_known else total

    def _span_graph(self, index: list[int], shape: tuple[int, ...], spans: FlatSegments) -> SegmentGraph:
        assert self.span_scores is not None
        num_labels = len(self.labels)
        scores = np.empty((*shape[:3], num_labels))
        scores[:] = self.unlisted
        scores[..., 0] = -np.inf
        scores[:, :, 0, 0] = 0.0
        for row, b in enumerate(index):
            here = slice(*spans.offsets[b : b + 2])
            start, end, label = (column[here] for column in spans[1:])
            scores[row, start, end - start - 1, label] = self.span_scores[here]
        return SegmentGraph(scores, np.zeros((num_labels, num_labels)), self.lengths[index], np.arange(num_labels))


def check_possible(totals: np.ndarray, index: Sequence[int], constraints: Sequence[Constraints | None]) -> None:
    """Check that each of the sentences with these scores, (B,), has a segmentation."""
    if totals.min(initial=0.0) == -np.inf:
        b = index[int((totals == -np.inf).argmax())]
        if any(constraints):
            raise ConstraintError(f"no segmentation of sentence {b} agrees with its constraints")
        raise ScoreError(f"sentence {b} has no possible segmentation: all have a score of -inf")


# ---- What a classifier returns ---------------------------------------------------------------------------------------


def join_subwords(
    logits: ArrayLike, word_ids: Sequence[int | None], how: Join = "first", null: int | None = None
) -> np.ndarray:
    """Join the logits of subwords (S, T) to those of words: the first subword's, or their sum or mean.

    `word_ids` has the word of each subword, None for what is none, as a fast tokenizer's `word_ids()`. A word without
    subwords is in no entity: all but the column `null` is impossible.
    """
    check_choice("join", how, Join)
    rows = np.asarray(logits)
    ids = np.array([-1 if word is None else word for word in word_ids], np.int64)
    if rows.ndim != 2 or len(ids) != len(rows):
        raise ValueError(f"word_ids must be one per row of the logits, {rows.shape}, got {len(ids)}")
    rows, ids = rows[ids >= 0], ids[ids >= 0]
    words = np.zeros((int(ids.max(initial=-1)) + 1, rows.shape[1]), rows.dtype)
    seen, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if how == "first":
        words[seen] = rows[first]
    else:
        np.add.at(words, ids, rows)
        words[seen] /= counts[:, None] if how == "mean" else 1
    if len(seen) < len(words):
        is_unseen = np.isin(np.arange(len(words)), seen, invert=True)
        words[is_unseen] = np.where(np.arange(rows.shape[1]) == null, 0.0, -np.inf)
    return words


def padded_scores(
    logits: Any, lengths: ArrayLike | None, word_ids: Sequence[Any] | None, join: Join, scheme: TagScheme
) -> tuple[np.ndarray, np.ndarray]:
    """Put the rows of all sentences into one array (B, L, T) of float32 or float64, whose numbers are checked, and
    return it with their lengths, (B,)."""
    is_batch = isinstance(logits, np.ndarray) and logits.ndim == 3  # as it comes most often
    if not is_batch and len(logits) and np.ndim(logits[0]) == 1:
        logits, word_ids = [logits], None if word_ids is None else [word_ids]
    if word_ids is not None:
        if len(word_ids) != len(logits) or lengths is not None:
            raise ValueError(f"word_ids must be one list per sentence, {len(logits)}, and without lengths")
        logits = [join_subwords(rows, ids, join, scheme.null) for rows, ids in zip(logits, word_ids)]
    is_list = isinstance(logits, (list, tuple))
    arrays = [np.asarray(rows) for rows in (logits if is_list else [logits])]
    if any(array.shape[-1:] != (len(scheme),) or array.ndim != 3 - is_list for array in arrays):
        came = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"logits must have a row per token and a column per label, {len(scheme)}, got {came:.200}")
    if is_list:
        dtype = np.result_type(np.float32, *{array.dtype for array in arrays})
        lengths = list(map(len, arrays)) if lengths is None else lengths
        scores = np.zeros((len(arrays), max(map(len, arrays), default=0), len(scheme)), dtype)
        for array, sentence in zip(arrays, scores):
            sentence[: len(array)] = array
    else:
        scores = np.ascontiguousarray(arrays[0], np.promote_types(np.float32, arrays[0].dtype))
    num_sentences, num_tokens, _ = scores.shape
    counts = np.full(num_sentences, num_tokens) if lengths is None else np.asarray(lengths, np.int64)
    each = counts.reshape(-1).tolist()  # a few numbers, which Python compares sooner than an array does
    if counts.shape != (num_sentences,) or min(each, default=0) < 0 or max(each, default=0) > num_tokens:
        raise ValueError(f"lengths must be {num_sentences} numbers up to {num_tokens}, got {lengths!s:.200}")
    if not scores.max(initial=-np.inf) < np.inf:
        scores = np.where(np.arange(num_tokens)[:, None] < counts[:, None, None], scores, scores.dtype.type(0))
        if not scores.max(initial=-np.inf) < np.inf:
            b, i, _ = np.argwhere(~(scores < np.inf))[0]
            where = f"token {i} of sentence {b}"
            raise ScoreError(f"logits must be numbers below +inf (-inf: impossible), got NaN or +inf at {where}")
    return scores, counts
