"""The semi-Markov model compiled for the CPU, and the best path of the linear chain, its case K = 1. NumPy in and out.

Sums run in float64 whatever the scores are; maxima run in the scores' own type, so that they are bit for bit those of
every other kernel.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.log_space import largest, log_sum, max_step, segment_marginals, sum_by_label, sum_step
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


def semi_markov_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Segmental forward-backward. `scores[b, i, w, y]` is the segment at i of width w + 1 with label y.

    The transition is applied once per end position: O(L·K·Y + L·Y²) per sentence.
    """
    sums = new_sums(scores, len(scores), len(transition), with_marginals)
    over_sentences(_sums, len(scores), threads, scores.size, scores, transition, lengths, *sums, with_marginals)
    return asked_for(sums, with_marginals)


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


@compiled
def _forward(scores, transition, weights, offset, length, space, take_max):
    """before[m, y] = ⊕_{y'} ended[m, y'] + transition[y', y]; ended[m, y] = ⊕_w before[m-w, y] + scores[m-w, w-1, y].

    Segments are scattered from their start, where the scores lie side by side. Maxima are merged at once; for sums the
    ring holds the segments of each coming end until all are there. With K = 1 there is nothing to merge.
    """
    max_width, num_labels = scores.shape[1:]
    before, ended = space.before, space.ended
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_ended = ended.reshape(ended.size)
    before[0] = 0.0
    if take_max and max_width > 1:
        ended[1 : length + 1] = -np.inf
    for i in range(length + 1):
        if i > 0:
            if take_max:
                max_step(ended[i], transition, before[i])
            else:
                if max_width > 1:
                    sum_by_label(space.by_end[i % max_width], min(i, max_width), ended[i], space.exps, space.totals)
                space.ended_top[i] = sum_step(
                    ended[i], transition, weights, offset, before[i], space.ended_exps[i], space.totals
                )
        count = min(max_width, length - i)
        if count == 0:
            break
        if max_width == 1:
            add(before[i], scores[i, 0], ended[i + 1])
        elif take_max:
            tile(before[i], count, space.tiled)
            merge_max(space.tiled[: count * num_labels], flat_scores[i], flat_ended[(i + 1) * num_labels :])
        else:
            scatter(before[i], scores[i], i, count, space.by_end)


@allocating
def _sums(first, last, scores, transition, lengths, *sums):
    model, transposed = with_weights(scores, transition.astype(np.float64), lengths)
    _both_ways(first, last, model, transposed, new_sums_workspace(scores, False), *sums)


@compiled
def _both_ways(first, last, model, transposed, space, log_partition, marginals, counts, with_marginals):
    scores, transition, weights, offset, lengths = model
    forward, backward, pairs = space
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _forward(scores[b], transition, weights, offset, length, forward, False)
        total = log_sum(forward.ended[length])
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        _backward(scores[b], transposed, offset, length, total, forward, backward, marginals[b])
        count_pairs(length, model, total, forward, backward, pairs)
        for y in range(counts.shape[1]):
            for z in range(counts.shape[2]):
                counts[b, y, z] = pairs.counts[y, z]


@compiled
def _backward(scores, transposed, offset, length, log_partition, forward, backward, marginals):
    """ahead[i, y] = ⊕_w scores[i, w-1, y] + beta[i+w, y]; beta[i, y'] = ⊕_y transition[y', y] + ahead[i, y]."""
    max_width, num_labels = scores.shape[1:]
    segments, exps, totals = forward.by_end[0], forward.exps, forward.totals
    beta, ahead = backward.beta, backward.ahead
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_beta = beta.reshape(beta.size)
    beta[length] = 0.0
    for i in range(length - 1, -1, -1):
        count = min(max_width, length - i)
        add(flat_scores[i, : count * num_labels], flat_beta[(i + 1) * num_labels :], segments)
        top = sum_by_label(segments, count, ahead[i], exps, totals)
        segment_marginals(segments, exps, top, forward.before[i], count, log_partition, marginals[i], totals)
        if i > 0:
            backward.ahead_top[i] = sum_step(
                ahead[i], transposed[0], transposed[1], offset, beta[i], backward.ahead_exps[i], totals
            )


@allocating
def _best(first, last, scores, *arguments):
    _trace(first, last, new_best_workspace(scores), scores, *arguments)


@compiled
def _trace(first, last, space, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        end = lengths[b]
        if end == 0:
            max_score[b] = 0.0
            continue
        _forward(scores[b], transition, transition, 0.0, end, space, True)
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
