"""The filtered semi-Markov model with skipping, swept over every span: for filters that keep nearly all of them.

`scores[b, i, w, y]` is the segment at i of width w + 1 with label y; it is -inf for what is no candidate. Any set of
disjoint candidates is a path, and the one before a segment may have ended anywhere to its left. So what has ended is
carried along, in O(L·K·Y + L·Y²) as in the semi-Markov model:

    ended[m, y]  = ended[m-1, y] ⊕ (⊕_w before[m-w, y] + scores[m-w, w-1, y])
    before[m, y] = ⊕_{y'} ended[m, y'] + transition[y', y]

Null is no segment, so its place stands for the empty path: ended[m, 0] = 0, and its transitions are 0. From right to
left the same place stands for the end.

Sums run in float64 whatever the scores are; maxima run in the scores' own type. NumPy in, NumPy out.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.log_space import (
    LARGEST_SCALE,
    add_by_label,
    log_sum,
    max_step,
    segment_marginals,
    sum_by_label,
    sum_step,
)
from spansieve.crf.kernels.cpu.span_workspace import (
    add,
    count_pairs,
    merge_max,
    new_best_workspace,
    new_sums_workspace,
    scatter,
    tile,
    with_weights,
)
from spansieve.crf.kernels.cpu.sums import asked_for, new_sums


def dense_skip_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Forward-backward: log Z (B,) and, if wanted, P(segment) (B, L, K, Y) and the expected label pairs (B, Y, Y)."""
    sums = new_sums(scores, len(scores), len(transition), with_marginals)
    transition = _free_of_null(transition).astype(np.float64)
    over_sentences(_sums, len(scores), threads, scores.size, scores, transition, lengths, *sums, with_marginals)
    return asked_for(sums, with_marginals)


def dense_skip_best(scores, transition, lengths, threads=1):
    """Viterbi: the best score (B,), and at the start of each segment of the best path the width and the label (B, L).

    Ties go as in `filtered_best`: the empty path wins, then the first predecessor in (end, start, label) order. Widths
    are 0 where no segment starts.
    """
    max_score = np.empty(len(scores), scores.dtype)
    widths, labels = np.zeros((2, *scores.shape[:2]), np.int64)
    arguments = (scores, _free_of_null(transition), lengths, max_score, widths, labels)
    over_sentences(_best, len(scores), threads, scores.size, *arguments)
    return max_score, widths, labels


def _free_of_null(transition):
    """What comes before the first segment and after the last adds nothing."""
    transition = transition.copy()
    transition[0] = transition[:, 0] = 0.0
    return transition


# ---- Sums ---------------------------------------------------------------------------------------------------------


@allocating
def _sums(first, last, scores, transition, lengths, *sums):
    model, transposed = with_weights(scores, transition, lengths)
    _both_ways(first, last, model, transposed, new_sums_workspace(scores, True), *sums)


@compiled
def _both_ways(first, last, model, transposed, space, log_partition, marginals, counts, with_marginals):
    scores, transition, weights, offset, lengths = model
    forward, backward, pairs = space
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _sum_forward(scores[b], transition, weights, offset, length, forward)
        total = log_sum(forward.ended[length])
        log_partition[b] = total
        if not with_marginals:
            continue
        _sum_backward(scores[b], transposed, offset, length, total, forward, backward, marginals[b])
        count_pairs(length, model, total, forward, backward, pairs)
        for y in range(1, counts.shape[1]):
            for z in range(1, counts.shape[2]):
                counts[b, y, z] = pairs.counts[y, z]


@compiled
def _sum_forward(scores, transition, weights, offset, length, space):
    """Segments are scattered from their start, where the scores lie side by side, to the row of their end in the ring;
    what had ended before is one more of them there."""
    max_width, num_labels = scores.shape[1:]
    before, ended = space.before, space.ended
    before[0] = 0.0
    _only_nothing(ended[0])
    for i in range(length + 1):
        if i > 0:
            segments, count = space.by_end[i % max_width], min(i, max_width)
            tile(ended[i - 1], 1, segments[count * num_labels :])
            sum_by_label(segments, count + 1, ended[i], space.exps, space.totals)
            space.ended_top[i] = sum_step(
                ended[i], transition, weights, offset, before[i], space.ended_exps[i], space.totals
            )
        scatter(before[i], scores[i], i, min(max_width, length - i), space.by_end)


@compiled
def _sum_backward(scores, transposed, offset, length, log_partition, forward, backward, marginals):
    """ahead[i, y] = ⊕_w scores[i, w-1, y] + beta[i+w, y]; carried is ⊕_{i' >= i} ahead[i', y];
    beta[i, y'] = ⊕_y transition[y', y] + carried[y]."""
    max_width, num_labels = scores.shape[1:]
    segments, exps, totals = forward.by_end[0], forward.exps, forward.totals
    beta, carried = backward.beta, backward.carried
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_beta = beta.reshape(beta.size)
    beta[length] = 0.0
    _only_nothing(carried)
    for i in range(length - 1, -1, -1):
        count = min(max_width, length - i)
        add(flat_scores[i, : count * num_labels], flat_beta[(i + 1) * num_labels :], segments)
        tile(carried, 1, segments[count * num_labels :])
        top = sum_by_label(segments, count + 1, carried, exps, totals)
        segment_marginals(segments, exps, top, forward.before[i], count, log_partition, marginals[i], totals)
        if i > 0:
            add_by_label(exps, count, backward.ahead_exps[i])
            backward.ahead_top[i] = top
            if forward.ended_top[i] + top + offset - log_partition >= LARGEST_SCALE:
                for y in range(num_labels):
                    backward.ahead[i, y] = log_sum(segments[y : count * num_labels : num_labels])
            sum_step(carried, transposed[0], transposed[1], offset, beta[i], backward.carried_exps, totals)


@compiled
def _only_nothing(row):
    row[:] = -np.inf
    row[0] = 0.0


# ---- The best path ------------------------------------------------------------------------------------------------


@allocating
def _best(first, last, scores, *arguments):
    _trace(first, last, new_best_workspace(scores), scores, *arguments)


@compiled
def _trace(first, last, space, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        position, label = lengths[b], 0
        _max_forward(scores[b], transition, position, space)
        max_score[b] = space.before[position, 0]
        while space.before[position, label] != 0:  # the empty path comes first
            position, end, label = _segment_before(scores[b], space, transition, position, label)
            widths[b, position] = end - position
            labels[b, position] = label


@compiled
def _max_forward(scores, transition, length, space):
    """Segments are merged from their start, where the scores lie side by side, into what will have ended."""
    max_width, num_labels = scores.shape[1:]
    before, ended = space.before, space.ended
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_ended = ended.reshape(ended.size)
    before[0] = 0.0
    _only_nothing(ended[0])
    ended[1 : length + 1] = -np.inf
    for i in range(length + 1):
        if i > 0:
            for y in range(num_labels):
                ended[i, y] = max(ended[i, y], ended[i - 1, y])
            max_step(ended[i], transition, before[i])
        count = min(max_width, length - i)
        if count == 0:
            break
        tile(before[i], count, space.tiled)
        merge_max(space.tiled[: count * num_labels], flat_scores[i], flat_ended[(i + 1) * num_labels :])


@compiled
def _segment_before(scores, space, transition, position, following):
    """Start, end and label of the first segment in (end, start, label) order that leads best to a segment with the
    label `following` at this position, or with 0 to the end."""
    max_width, num_labels = scores.shape[1:]
    best = space.before[position, following]
    end = position
    for y in range(1, num_labels):
        if space.ended[end, y] + transition[y, following] == best:
            end = _first_end(space.ended, y, transition[y, following], best, end)
    for start in range(max(0, end - max_width), end):
        for y in range(1, num_labels):
            value = space.before[start, y] + scores[start, end - start - 1, y]
            if value + transition[y, following] == best:
                return start, end, y
    return 0, 0, 0  # not reached: something attains the maximum


@compiled
def _first_end(ended, y, onward, best, last):
    """The first position by which what ended with label y attains the best, by halving: `ended` never falls."""
    first = 1
    while first < last:
        middle = (first + last) // 2
        if ended[middle, y] + onward == best:
            last = middle
        else:
            first = middle + 1
    return last
