"""The semi-Markov model compiled for the CPU, and the best path of the linear chain, its case K = 1. NumPy in and out.

Sums run in float64 whatever the scores are; maxima run in the scores' own type, so that they are bit for bit those of
every other kernel.

With `skip` the sweeps are those of `dense_skip`, where a segment may begin anywhere after the one before it has ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.log_space import (
    LARGEST_SCALE,
    add_by_label,
    largest,
    log_sum,
    max_step,
    pair_counts,
    segment_marginals,
    sum_by_label,
    sum_step,
    transition_weights,
)


def semi_markov_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Segmental forward-backward. `scores[b, i, w, y]` is the segment at i of width w + 1 with label y.

    The transition is applied once per end position: O(L·K·Y + L·Y²) per sentence.
    """
    return span_sums(scores, transition, lengths, None, with_marginals, threads)


def span_sums(scores, transition, lengths, skip, with_marginals, threads) -> Sums:
    sums = Sums.allocated(scores, len(scores), len(transition), with_marginals)
    arguments = (scores, transition.astype(np.float64), lengths, skip, *sums, with_marginals)
    over_sentences(_sums, len(scores), threads, scores.size, *arguments)
    return sums.wanted(with_marginals)


def semi_markov_best(scores, transition, lengths, threads=1):
    """Segmental Viterbi: the best score (B,), and at the start of each of its segments the width and the label (B, L).

    The first predecessor in (start, label) order wins a tie. Widths are 0 where no segment starts.
    """
    max_score = np.empty(len(scores), scores.dtype)
    widths = np.zeros(scores.shape[:2], np.int64)
    labels = np.zeros(scores.shape[:2], np.int64)
    arguments = (scores, transition, lengths, max_score, widths, labels)
    over_sentences(_best, len(scores), threads, scores.size, *arguments)
    return max_score, widths, labels


def linear_chain_best(scores, transition, lengths, threads=1):
    """Viterbi: the best score (B,) and its tags (B, L), 0 beyond the length. The lowest tag wins a tie."""
    max_score, _, tags = semi_markov_best(scores[:, :, None], transition, lengths, threads)
    return max_score, tags


# ---- The workspace of one sentence -----------------------------------------------------------------------------------


class Forward(NamedTuple):
    """The workspace of the forward sweep over one sentence, by position 0 … L. R is K·Y; with skipping (K + 1)·Y, since
    what had ended before is one more of the segments there."""

    before: np.ndarray  # (L + 1, Y): ⊕ over all that may come before a segment of each label
    ended: np.ndarray  # (L + 1, Y): ⊕ over all whose last segment has each label and ends there; with skipping, by then
    row: np.ndarray  # (R,): for maxima a row of `before` K times; for sums exponentials of the segments
    # For sums alone:
    by_end: np.ndarray  # (K, R): a ring; row m % K holds the segments that end at m
    totals: np.ndarray  # (Y,)
    ended_exps: np.ndarray  # (L + 1, Y): exp(ended - ended_top)
    ended_top: np.ndarray  # (L + 1,)


class Backward(NamedTuple):
    """The workspace of the backward sweep, which is for sums."""

    beta: np.ndarray  # (L + 1, Y): ⊕ over all that may follow a segment of each label
    ahead: np.ndarray  # (L + 1, Y): ⊕ over all that begins right there, with a segment of each label
    ahead_exps: np.ndarray  # (L + 1, Y): exp(ahead - ahead_top)
    ahead_top: np.ndarray  # (L + 1,)
    # With skipping, where `ahead` is there only for positions whose `ahead_exps` are out of reach:
    carried: np.ndarray  # (Y,): ⊕ over all whose first segment has each label, wherever from here on that begins
    carried_exps: np.ndarray  # (Y,)


@allocating
def new_forward(scores, skip, like):
    """Allocate for scores (B, L, K, Y). `like` has the type of the values: that of the scores, or float64 for sums."""
    num_tokens, max_width, num_labels = scores.shape[1:]
    shape, row = (num_tokens + 1, num_labels), (max_width + skip) * num_labels
    return Forward(
        np.empty(shape, like.dtype),
        np.empty(shape, like.dtype),
        np.empty(row, like.dtype),
        np.empty((max_width, row)),
        np.empty(num_labels),
        np.empty(shape),
        np.empty(num_tokens + 1),
    )


@allocating
def _new_backward(scores):
    num_tokens, _, num_labels = scores.shape[1:]
    shape = (num_tokens + 1, num_labels)
    tops, carried = np.empty(num_tokens + 1), np.empty(num_labels)
    return Backward(np.empty(shape), np.empty(shape), np.empty(shape), tops, carried, np.empty(num_labels))


# ---- The sweeps ------------------------------------------------------------------------------------------------------


@compiled
def _sum_forward(scores, transition, weights, offset, length, space, skip):
    """before[m, y] = ⊕_{y'} ended[m, y'] + transition[y', y]; ended[m, y] = ⊕_w before[m-w, y] + scores[m-w, w-1, y],
    and with `skip` ⊕ ended[m-1, y].

    Segments are scattered from their start, where the scores lie side by side, to the row of their end in the ring;
    with `skip` what had ended before is one more of them there.
    """
    max_width, num_labels = scores.shape[1:]
    before, ended = space.before, space.ended
    before[0] = 0.0
    if skip is not None:
        _only_nothing(ended[0])
    for i in range(length + 1):
        if i > 0:
            segments, count = space.by_end[i % max_width], min(i, max_width)
            if skip is not None:
                tile(ended[i - 1], 1, segments[count * num_labels :])
                count += 1
            sum_by_label(segments, count, ended[i], space.row, space.totals)
            space.ended_top[i] = sum_step(
                ended[i], transition, weights, offset, before[i], space.ended_exps[i], space.totals
            )
        if i < length:
            scatter(before[i], scores[i], i, min(max_width, length - i), space.by_end)


@compiled
def max_forward(scores, transition, length, space, skip):
    """The same for maxima, which are merged at once. With K = 1 and no skipping there is nothing to merge."""
    max_width, num_labels = scores.shape[1:]
    before, ended = space.before, space.ended
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_ended = ended.reshape(ended.size)
    before[0] = 0.0
    if skip is not None:
        _only_nothing(ended[0])
    if skip is not None or max_width > 1:
        ended[1 : length + 1] = -np.inf
    for i in range(length + 1):
        if i > 0:
            if skip is not None:
                for y in range(num_labels):
                    ended[i, y] = max(ended[i, y], ended[i - 1, y])
            max_step(ended[i], transition, before[i])
        count = min(max_width, length - i)
        if count == 0:
            break
        if skip is None and max_width == 1:
            add(before[i], scores[i, 0], ended[i + 1])
        else:
            tile(before[i], count, space.row)
            merge_max(space.row[: count * num_labels], flat_scores[i], flat_ended[(i + 1) * num_labels :])


@compiled
def _only_nothing(row):
    """The place of null, which is no segment with `skip`, stands for the empty path."""
    row[:] = -np.inf
    row[0] = 0.0


@allocating
def _sums(first, last, scores, transition, lengths, skip, *sums):
    # exp(transition) but for a factor, whose logarithm is the offset, both ways round
    weights = np.empty(transition.shape)
    offset = transition_weights(transition, weights)
    transposed = np.ascontiguousarray(transition.T), np.ascontiguousarray(weights.T)
    model = (scores, transition, weights, offset, lengths)
    pairs = (np.empty(scores.shape[1] + 1), np.empty_like(weights))
    spaces = (new_forward(scores, skip is not None, transition), _new_backward(scores))
    _both_ways(first, last, model, transposed, *spaces, pairs, skip, *sums)


@compiled
def _both_ways(
    first, last, model, transposed, forward, backward, pairs, skip,
    log_partition, marginals, counts, with_marginals,
):  # fmt: skip
    scores, transition, weights, offset, lengths = model
    scale, pair = pairs
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _sum_forward(scores[b], transition, weights, offset, length, forward, skip)
        total = log_sum(forward.ended[length])
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        _backward(scores[b], transposed, offset, length, total, forward, backward, skip, marginals[b])
        pair[:] = 0.0
        pair_counts(
            forward.ended, forward.ended_exps, forward.ended_top,
            backward.ahead, backward.ahead_exps, backward.ahead_top, length, model, total, scale, pair,
        )  # fmt: skip
        for y in range(0 if skip is None else 1, counts.shape[1]):
            for z in range(0 if skip is None else 1, counts.shape[2]):
                counts[b, y, z] = pair[y, z]


@compiled
def _backward(scores, transposed, offset, length, log_partition, forward, backward, skip, marginals):
    """ahead[i, y] = ⊕_w scores[i, w-1, y] + beta[i+w, y]; beta[i, y'] = ⊕_y transition[y', y] + onward[y], which is
    ahead[i, y], and with `skip` ⊕_{i' >= i} ahead[i', y]."""
    max_width, num_labels = scores.shape[1:]
    segments, exps, totals = forward.by_end[0], forward.row, forward.totals
    beta, ahead = backward.beta, backward.ahead
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_beta = beta.reshape(beta.size)
    beta[length] = 0.0
    if skip is not None:
        _only_nothing(backward.carried)
    for i in range(length - 1, -1, -1):
        count = min(max_width, length - i)
        add(flat_scores[i, : count * num_labels], flat_beta[(i + 1) * num_labels :], segments)
        if skip is not None:
            tile(backward.carried, 1, segments[count * num_labels :])
            top = sum_by_label(segments, count + 1, backward.carried, exps, totals)
        else:
            top = sum_by_label(segments, count, ahead[i], exps, totals)
        segment_marginals(segments, exps, top, forward.before[i], count, log_partition, marginals[i], totals)
        if i == 0:
            break
        if skip is None:
            backward.ahead_top[i] = sum_step(
                ahead[i], transposed[0], transposed[1], offset, beta[i], backward.ahead_exps[i], totals
            )
        else:
            add_by_label(exps, count, backward.ahead_exps[i])
            backward.ahead_top[i] = top
            if forward.ended_top[i] + top + offset - log_partition >= LARGEST_SCALE:
                for y in range(num_labels):
                    ahead[i, y] = log_sum(segments[y : count * num_labels : num_labels])
            sum_step(backward.carried, transposed[0], transposed[1], offset, beta[i], backward.carried_exps, totals)


@allocating
def _best(first, last, scores, *arguments):
    _trace(first, last, new_forward(scores, False, scores), scores, *arguments)


@compiled
def _trace(first, last, space, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        end = lengths[b]
        if end == 0:
            max_score[b] = 0.0
            continue
        max_forward(scores[b], transition, end, space, None)
        max_score[b] = largest(space.ended[end], space.ended.shape[1])
        if max_score[b] == -np.inf:
            continue
        following = -1
        while end > 0:
            start, label = _last_segment(scores[b], space.before, space.ended[end], transition, end, following)
            widths[b, start] = end - start
            labels[b, start] = label
            end, following = start, label


@compiled
def _last_segment(scores, before, ended, transition, end, following):
    """The first segment in (start, label) order that ends here and leads best to the label `following` (-1: none).

    Only labels whose ended attains the best value can hold it, so the widths of those alone are searched.
    """
    max_width, num_labels = scores.shape[1:]
    best = ended[0] + (transition[0, following] if following >= 0 else 0)
    for y in range(1, num_labels):
        value = ended[y] + (transition[y, following] if following >= 0 else 0)
        best = value if value > best else best
    best_start, best_label = end, 0
    for y in range(num_labels):
        onward = transition[y, following] if following >= 0 else 0
        if ended[y] + onward == best:
            for start in range(max(0, end - max_width), best_start):
                if before[start, y] + scores[start, end - start - 1, y] + onward == best:
                    best_start, best_label = start, y
                    break
    return best_start, best_label


@compiled
def scatter(before, scores, i, count, by_end):
    """Scatter the segments that start at i, of `count` widths, each to the row of its end in the ring."""
    num_labels = before.size
    for w in range(count):
        at = w * num_labels
        add(before, scores[w], by_end[(i + w + 1) % by_end.shape[0], at : at + num_labels])


@compiled
def tile(row, count, out):
    for w in range(count):
        for y in range(row.size):
            out[w * row.size + y] = row[y]


@compiled
def merge_max(left, right, out):
    for j in range(left.size):
        value = left[j] + right[j]
        out[j] = value if value > out[j] else out[j]


@compiled
def add(left, right, out):
    for j in range(left.size):
        out[j] = left[j] + right[j]
