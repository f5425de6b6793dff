"""The filter compiled for the CPU, alone or fused with the best path. NumPy in, NumPy out.

`local_scores[b, i, w, y]` is the local score of the segment that starts at token i, has width w + 1 and label y. A span
is kept, with its best label, when that label is not null; null wins a tie. With `limits` it is kept with several of its
labels, those that stand above null, and of a sentence's candidates the best ones are. O(L·K·Y), the one part that looks
at every span: all else is proportional to what stands above null.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import PLAIN_FILTER, FilterLimits, ScoreError
from spansieve.crf.kernels.cpu.filtered_sweeps import Nodes, most_in_a_sentence, new_workspace, sweep
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.simd import any_above_2, any_above_4, any_above_8

USUAL = 16  # candidates a sentence; where there are more on average the filter runs again with arrays for all
NO_GOLD = np.zeros(0, np.int64), np.zeros((3, 0), np.int64)
# What stands for the number of candidates when there is none.
FULL, NOT_A_NUMBER, WRONG_TRANSITION, WRONG_LENGTH = -1, -2, -3, -4


class Kept(NamedTuple):
    """The candidates, flat and sorted by (sentence, end, start, label), and the best path where it was wanted.

    The arrays as the compiled code fills them; their rows have names, and become arrays of their own on demand.
    """

    bounds: np.ndarray  # (2, B + 1): of the candidates of each sentence, and of those on its best path
    nodes: np.ndarray  # (5, N): start, end, label, flat index in the scores, and sentence
    score: np.ndarray  # (N,): their global scores, where those were given
    chosen: np.ndarray  # (2, M): the candidates on the best path, and their flat index in the scores of their sentence
    max_score: np.ndarray  # (B,)

    @property
    def graph(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Offsets (B + 1,), and start, end and label (N,)."""
        return self.bounds[0], self.nodes[0], self.nodes[1], self.nodes[2]

    @property
    def index(self) -> np.ndarray:
        """The flat index of the candidates in (B, L, K, Y) scores, (N,)."""
        return self.nodes[3]

    @property
    def sentence(self) -> np.ndarray:
        return self.nodes[4]


class FilterWorkspace(NamedTuple):
    """The workspace of the filter for one sentence."""

    hits: np.ndarray  # (L·K,)
    spans: np.ndarray  # (3, N): start, end and label
    sorted: np.ndarray  # (3, N)
    covered: np.ndarray  # (L + 1,)
    tally: np.ndarray
    no_block: np.ndarray  # (N,): -1 for each candidate, with `skip`


def filter_spans(local_scores, lengths, gold=None, keep_all=False, limits=PLAIN_FILTER, threads=1) -> Kept:
    """Filter the spans. With gold (offsets, start, end, label), both training rules hold: what overlaps no gold segment
    is dropped (unless `keep_all`), and every gold segment is a candidate with its gold label."""
    no_scores, no_transition = np.empty((0, 0, 0, 0), local_scores.dtype), np.zeros((1, 1), local_scores.dtype)
    return segments_from_scores(local_scores, no_scores, no_transition, lengths, gold, keep_all, False, limits, threads)


def segments_from_scores(
    local_scores, global_scores, transition, lengths,
    gold=None, skip=False, find_best=True, limits=PLAIN_FILTER, threads=1,
) -> Kept:  # fmt: skip
    """Filter and find the best path in one pass over each sentence: dense scores in, segments out."""
    limits = limits.within(local_scores.shape[-1])
    if limits.budget is not None:
        local_scores = _within_budget(local_scores, lengths, limits, threads)
        limits = FilterLimits(local_scores.shape[-1])
    arguments = (local_scores, global_scores, transition, lengths, gold, skip, find_best, limits)
    runs = over_sentences(_filter_run, len(local_scores), threads, local_scores.size, *arguments)
    return Kept._make(runs[0] if len(runs) == 1 else _joined(runs))


def _within_budget(local_scores, lengths, limits, threads):
    """Local scores by which nothing stands above null but the best candidates of each sentence, as many as the budget
    has, by how far they stand above null; of equals the first in the order of the scores."""
    kept = filter_spans(local_scores, lengths, limits=limits._replace(budget=None), threads=threads)
    flat, budget = local_scores.reshape(-1), limits.budget
    above = flat[kept.index] - flat[kept.index - kept.nodes[2]]
    marked = np.full(local_scores.shape, -1, local_scores.dtype)
    marked[..., 0] = 0
    for low, high in pairwise(kept.bounds[0].tolist()):
        index, height = kept.index[low:high], above[low:high]
        if len(index) > budget:
            least = np.partition(height, -budget)[-budget] if budget else np.inf
            equal = np.sort(index[height == least])[: budget - np.count_nonzero(height > least)]
            index = np.concatenate((index[height > least], equal))
        marked.reshape(-1)[index] = 1
    return marked


def _filter_run(first, last, local_scores, global_scores, transition, lengths, gold, skip, find_best, limits):
    """Filter with arrays for the usual number of candidates, and where those are too small, for every span."""
    offsets, segments = NO_GOLD if gold is None else (gold[0], np.stack(gold[1:]))
    arguments = (local_scores, global_scores, transition, lengths, offsets, segments)
    num_tokens, max_width = local_scores.shape[1:3]
    options = (gold is not None, skip, find_best, limits.labels_per_span)
    for each in (USUAL, num_tokens * max_width * limits.labels_per_span):
        count, *kept = _filter(first, last, each * (last - first) + segments.shape[1], *arguments, options)
        if count != FULL:
            break
    if count < FULL:
        raise_wrong(count, num_tokens, lengths[first:last])
    return kept


def raise_wrong(why, num_tokens, lengths):
    if why == WRONG_LENGTH:
        wrong = lengths.min() if lengths.min() < 0 else lengths.max()
        raise ValueError(f"lengths must lie between 0 and {num_tokens}, the number of tokens, got {wrong}")
    name = "transition" if why == WRONG_TRANSITION else "scores"
    raise ScoreError(f"{name} must be numbers below +inf (-inf: impossible), got NaN or +inf")


def _joined(runs):
    """The runs of sentences one after the other: counts and positions go on where the last run ended."""
    bounds, nodes, score, chosen, max_score = zip(*runs)
    ends = np.cumsum([run[:, -1] for run in bounds], axis=0)  # candidates and chosen ones up to the end of each run
    before = np.vstack((np.zeros((1, 2), np.int64), ends[:-1]))
    bounds = [np.zeros((2, 1), np.int64), *(run[:, 1:] + low[:, None] for run, low in zip(bounds, before))]
    chosen = [run + np.array([[low[0]], [0]]) for run, low in zip(chosen, before)]
    return [np.concatenate(runs, axis=-1) for runs in (bounds, nodes, score, chosen, max_score)]


@allocating
def _filter(first, last, capacity, local_scores, global_scores, transition, lengths, offsets, gold, options):
    """The number of candidates, or why there is none, and of the sentences first … last - 1 what `Kept` holds.

    FULL where there are more than `capacity`.
    """
    num_sentences, num_tokens, max_width, num_labels = local_scores.shape
    shape = (num_tokens, max_width, num_labels)
    num_spans = num_tokens * max_width
    most = num_spans * options[3] + (most_in_a_sentence(offsets, first, last) if options[0] else 0)
    space = FilterWorkspace(
        np.empty(num_spans, np.int64),
        np.empty((3, most), np.int64),
        np.empty((3, most), np.int64),
        np.empty(num_tokens + 1, np.int64),
        np.empty(max(num_tokens, num_labels) + 2, np.int64),
        np.full(most if options[1] and options[2] else 0, -1),
    )
    path_space = new_workspace(num_tokens, most if options[2] else 0, num_labels, local_scores)
    out = Kept(
        np.zeros((2, last - first + 1), np.int64),
        np.empty((5, capacity), np.int64),
        np.empty(capacity, local_scores.dtype),
        np.empty((2, capacity), np.int64),
        np.empty(last - first, local_scores.dtype),
    )
    flat = local_scores.reshape(num_sentences, num_tokens * max_width * num_labels)
    model = (flat, global_scores.reshape(global_scores.size), transition, lengths)
    n = _filter_sentences(first, last, shape, model, offsets, gold, options, space, path_space, out)
    count = max(0, n)
    chosen = out.chosen[:, : out.bounds[1, last - first]]
    return n, out.bounds, out.nodes[:, :count], out.score[:count], chosen, out.max_score


@compiled
def _filter_sentences(first, last, shape, model, offsets, gold, options, space, path_space, out):
    local_scores, global_scores, transition, lengths = model
    has_gold, skip, find_best, labels_per_span = options
    num_tokens, max_width, num_labels = shape
    why = what_is_wrong(first, last, num_tokens, transition, lengths)
    if why < 0:
        return why
    total = 0
    chosen = 0
    for b in range(first, last):
        own = (b, shape, local_scores[b], lengths[b], offsets, gold)
        n = _filter_sentence(*own, has_gold, skip, labels_per_span, space)
        if n < 0:
            return NOT_A_NUMBER
        if total + n > out.score.size:
            return FULL
        for c in range(n):
            start, end, label = space.sorted[0, c], space.sorted[1, c], space.sorted[2, c]
            out.nodes[0, total + c], out.nodes[1, total + c], out.nodes[2, total + c] = start, end, label
            out.nodes[3, total + c] = ((b * num_tokens + start) * max_width + end - start - 1) * num_labels + label
            out.nodes[4, total + c] = b
        if global_scores.size > 0:
            for c in range(total, total + n):
                out.score[c] = global_scores[out.nodes[3, c]]
                if not out.score[c] < np.inf:
                    return NOT_A_NUMBER
        if find_best:
            block = space.no_block if skip else space.sorted[0]
            nodes = Nodes(space.sorted[0], space.sorted[1], space.sorted[2], out.score[total : total + n], block)
            out.max_score[b - first], c = sweep(nodes, n, lengths[b], transition, True, path_space)
            before = chosen
            chosen = _copy_path(path_space.origin, c, total, out.chosen[0], chosen)
            for k in range(before, chosen):
                out.chosen[1, k] = out.nodes[3, out.chosen[0, k]] - b * local_scores.shape[1]
        total += n
        out.bounds[0, b - first + 1] = total
        out.bounds[1, b - first + 1] = chosen
    return total


@compiled
def what_is_wrong(first, last, num_tokens, transition, lengths):
    """The lengths must be looked at before they are used; the transition is, since to do so elsewhere takes longer."""
    is_number = True
    for row in transition:
        for value in row:
            is_number &= value < np.inf
    if not is_number:
        return WRONG_TRANSITION
    for b in range(first, last):
        if lengths[b] < 0 or lengths[b] > num_tokens:
            return WRONG_LENGTH
    return 0


@compiled
def _copy_path(origin, c, base, path, count):
    """Append the path that ends in node c, from left to right; how many are there now."""
    first = count
    while c >= 0:
        path[count] = base + c
        count += 1
        c = origin[c]
    for k in range((count - first) // 2):
        path[first + k], path[count - 1 - k] = path[count - 1 - k], path[first + k]
    return count


def dense_expectations(gradient, marginals, counts, kept, shape):
    """gradient[b] · marginals of sentence b, scattered into dense scores, and Σ_b gradient[b] · counts[b]."""
    to_scores = np.zeros(shape, marginals.dtype)
    _scatter_weighted(gradient, kept.nodes, marginals, to_scores.reshape(-1))
    return to_scores, (gradient @ counts.reshape(len(counts), math.prod(counts.shape[1:]))).reshape(counts.shape[1:])


@compiled
def _scatter_weighted(gradient, nodes, marginals, to_scores):
    for c in range(marginals.size):
        to_scores[nodes[3, c]] = gradient[nodes[4, c]] * marginals[c]


# ---- One sentence ----------------------------------------------------------------------------------------------------
# `row` are the local scores of the sentence, flat: (L·K·Y,). `spans` are (3, N): start, end and label.


@compiled
def _filter_sentence(b, shape, row, length, offsets, gold, has_gold, skip, labels_per_span, space):
    """The candidates of one sentence, in order, into `space.sorted`; how many, or NOT_A_NUMBER."""
    _, max_width, num_labels = shape
    num_hits = _scan(row, length, max_width, num_labels, space.hits)
    n = _label_hits(row, space.hits, num_hits, shape, labels_per_span, space.spans)
    if n < 0:
        return n
    if not has_gold:
        _sort_by(space.spans, 1, n, length + 1, space.tally, space.sorted)
        return n
    _cover(gold, offsets[b], offsets[b + 1], length, space.covered)
    if not skip:
        n = _overlapping(space.spans, n, space.covered)
    for g in range(offsets[b], offsets[b + 1]):
        space.spans[0, n], space.spans[1, n], space.spans[2, n] = gold[0, g], gold[1, g], gold[2, g]
        n += 1
    _sort_by(space.spans, 2, n, num_labels, space.tally, space.sorted)
    _sort_by(space.sorted, 0, n, length, space.tally, space.spans)
    _sort_by(space.spans, 1, n, length + 1, space.tally, space.sorted)
    return _without_repeats(space.sorted, n)


@compiled
def _scan(row, length, max_width, num_labels, hits):
    """Find where in the sentence null is not the best label. A NaN is a hit too.

    Each span's labels are compared a vector at a time, the last one reaching back over what was seen.
    """
    count = 0
    for start in range(length):
        for s in range(start * max_width, start * max_width + min(max_width, length - start)):
            at = s * num_labels
            null = row[at]
            if num_labels > 8:
                is_hit = any_above_8(row, at + 1, null) | any_above_8(row, at + num_labels - 8, null)
                for y in range(9, num_labels - 8, 8):
                    is_hit |= any_above_8(row, at + y, null)
            elif num_labels > 4:
                is_hit = any_above_4(row, at + 1, null) | any_above_4(row, at + num_labels - 4, null)
            elif num_labels > 2:
                is_hit = any_above_2(row, at + 1, null) | any_above_2(row, at + num_labels - 2, null)
            else:
                is_hit = num_labels > 1 and not row[at + 1] <= null
            if is_hit:
                hits[count] = s
                count += 1
    return count


@compiled
def _label_hits(row, hits, num_hits, shape, labels_per_span, spans):
    """The hits as (start, end, label), in order; NOT_A_NUMBER if one is none."""
    _, max_width, num_labels = shape
    n = 0
    start = 0
    for h in range(num_hits):
        while hits[h] >= (start + 1) * max_width:
            start += 1
        end = hits[h] - start * (max_width - 1) + 1
        at = hits[h] * num_labels
        best = 0
        for y in range(num_labels):
            if not row[at + y] < np.inf:
                return NOT_A_NUMBER
            if row[at + y] > row[at + best]:
                best = y
        if labels_per_span == 1:
            spans[0, n], spans[1, n], spans[2, n] = start, end, best
            n += 1
            continue
        is_any = labels_per_span >= num_labels - 1  # that stands above null
        for y in range(1, num_labels):
            if row[at + y] > row[at] and (is_any or rank_of_label(row, at, y, num_labels) < labels_per_span):
                spans[0, n], spans[1, n], spans[2, n] = start, end, y
                n += 1
    return n


@compiled
def rank_of_label(row, at, y, num_labels):
    """How many labels of the span at this index of `row` are better than y; of equals the first is better."""
    rank = 0
    for other in range(1, num_labels):
        rank += row[at + other] > row[at + y] or (row[at + other] == row[at + y] and other < y)
    return rank


@compiled
def _overlapping(spans, n, covered):
    """Keep those of the first n columns that share a token with what is covered; how many there are."""
    kept = 0
    for c in range(n):
        if covered[spans[1, c]] > covered[spans[0, c]]:
            kept = _keep(spans, c, kept)
    return kept


@compiled
def _cover(gold, first, last, length, covered):
    """covered[i]: how many of the tokens before i lie in a gold segment."""
    covered[: length + 1] = 0
    for g in range(first, last):
        for i in range(gold[0, g], gold[1, g]):
            covered[i + 1] = 1
    for i in range(length):
        covered[i + 1] += covered[i]


@compiled
def _sort_by(spans, key, n, num_keys, tally, out):
    """Counting sort of the columns by one row, stable."""
    tally[: num_keys + 1] = 0
    for c in range(n):
        tally[spans[key, c] + 1] += 1
    for k in range(1, num_keys + 1):
        tally[k] += tally[k - 1]
    for c in range(n):
        at = tally[spans[key, c]]
        tally[spans[key, c]] += 1
        for row in range(3):
            out[row, at] = spans[row, c]


@compiled
def _without_repeats(spans, n):
    kept = 0
    for c in range(n):
        is_repeat = kept > 0
        for row in range(3):
            is_repeat = is_repeat and spans[row, c] == spans[row, kept - 1]
        if not is_repeat:
            kept = _keep(spans, c, kept)
    return kept


@compiled
def _keep(spans, c, kept):
    """Move column c behind those kept so far; how many are kept now."""
    for row in range(3):
        spans[row, kept] = spans[row, c]
    return kept + 1
