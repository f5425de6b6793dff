"""The filter compiled for the CPU, alone or fused with the best path. NumPy in, NumPy out.

`local_scores[b, i, w, y]` is the local score of the segment that starts at token i, has width w + 1 and label y. A span
is kept, with its best label, when that label is not null; null wins a tie. With `limits` it is kept with several of its
labels, those that stand above null, and of a sentence's candidates the best ones are. O(L·K·Y), the one part that looks
at every span: all else is proportional to what stands above null.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import NO_BUDGET, PLAIN_FILTER, ScoreError
from spansieve.crf.kernels.cpu.filtered_sweeps import Nodes, most_in_a_sentence, new_workspace, sweep
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.sentence_filter import NOT_A_NUMBER, FilterWorkspace, filter_sentence

USUAL = 16  # candidates a sentence; where there are more on average the filter runs again with arrays for all
NO_GOLD = np.zeros(0, np.int64), np.zeros((3, 0), np.int64)
# What stands for the number of candidates when there is none.
FULL, WRONG_TRANSITION, WRONG_LENGTH = -1, -3, -4


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
        nodes = self.nodes
        return self.bounds[0], nodes[0], nodes[1], nodes[2]

    @property
    def index(self) -> np.ndarray:
        """The flat index of the candidates in (B, L, K, Y) scores, (N,)."""
        return self.nodes[3]

    @property
    def sentence(self) -> np.ndarray:
        return self.nodes[4]


def filter_spans(local_scores, lengths, gold=None, keep_all=False, limits=PLAIN_FILTER, threads=1) -> Kept:
    """Filter the spans. With gold (offsets, start, end, label), both training rules hold: what overlaps no gold segment
    is dropped (unless `keep_all`), and every gold segment is a candidate with its gold label."""
    no_scores, no_transition = np.empty((0, 0, 0, 0), local_scores.dtype), np.zeros((1, 1), local_scores.dtype)
    options = (gold, keep_all, False, limits, threads)
    return segments_from_scores(local_scores, no_scores, no_transition, lengths, *options)


def segments_from_scores(
    local_scores,
    global_scores,
    transition,
    lengths,
    gold=None,
    skip=False,
    find_best=True,
    limits=PLAIN_FILTER,
    threads=1,
) -> Kept:
    """Filter and find the best path in one pass over each sentence: dense scores in, segments out."""
    arguments = (local_scores, global_scores, transition, lengths, gold, skip, find_best, limits)
    runs = over_sentences(_filter_run, len(local_scores), threads, local_scores.size, *arguments)
    return Kept._make(runs[0] if len(runs) == 1 else _joined(runs))


def _filter_run(first, last, local_scores, global_scores, transition, lengths, gold, skip, find_best, limits):
    """Filter with arrays for the usual number of candidates, and where those are too small, for every span."""
    offsets, segments = NO_GOLD if gold is None else (gold[0], np.stack(gold[1:]))
    arguments = (local_scores, global_scores, transition, lengths, offsets, segments)
    _, num_tokens, max_width, num_labels = local_scores.shape
    limits = limits.within(num_labels)
    budget = NO_BUDGET if limits.budget is None else limits.budget
    options = (gold is not None, skip, find_best, limits.labels_per_span, budget)
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
        np.empty((2, most if options[4] < most else 0), local_scores.dtype),
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
    has_gold, skip, find_best, labels_per_span, budget = options
    why = what_is_wrong(first, last, shape[0], transition, lengths)
    if why < 0:
        return why
    total = 0
    chosen = 0
    for b in range(first, last):
        limits = (labels_per_span, budget)
        n = filter_sentence(b, shape, local_scores[b], lengths[b], offsets, gold, has_gold, skip, limits, space)
        if n < 0:
            return NOT_A_NUMBER
        if total + n > out.score.size:
            return FULL
        _copy_out(b, n, shape, space.sorted, out.nodes[:, total:])
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


@compiled
def _copy_out(b, n, shape, spans, kept):
    num_tokens, max_width, num_labels = shape
    for c in range(n):
        start, end, label = spans[0, c], spans[1, c], spans[2, c]
        kept[0, c], kept[1, c], kept[2, c] = start, end, label
        kept[3, c] = ((b * num_tokens + start) * max_width + end - start - 1) * num_labels + label
        kept[4, c] = b


def dense_expectations(gradient, marginals, counts, kept, shape):
    """gradient[b] · marginals of sentence b, scattered into dense scores, and Σ_b gradient[b] · counts[b]."""
    to_scores = np.zeros(shape, marginals.dtype)
    to_transition = np.zeros(counts.shape[1:], counts.dtype)
    _scatter_weighted(gradient, kept.nodes, marginals, counts, to_scores.reshape(-1), to_transition)
    return to_scores, to_transition


@compiled
def _scatter_weighted(gradient, nodes, marginals, counts, to_scores, to_transition):
    for c in range(marginals.size):
        to_scores[nodes[3, c]] = gradient[nodes[4, c]] * marginals[c]
    for b in range(counts.shape[0]):
        for p in range(counts.shape[1]):
            for y in range(counts.shape[2]):
                to_transition[p, y] += gradient[b] * counts[b, p, y]
