"""The semi-Markov model compiled for the CPU, and the best path of the linear chain, its case K = 1. NumPy in and out.

Sums run in float64 whatever the scores are; maxima run in the scores' own type, so that they are bit for bit those of
every other kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.compiled import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.steps import (
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
    """Segmental forward and backward. `scores[b, i, w, y]` is the segment at i of width w + 1 with label y.

    The transition is applied once per end position: O(L·K·Y + L·Y²) per sentence.
    """
    num_sentences, num_labels = len(scores), len(transition)
    sums = Sums(
        np.empty(num_sentences, scores.dtype),
        np.zeros(scores.shape if with_marginals else (0, 0, 0, 0), scores.dtype),
        np.zeros((num_sentences if with_marginals else 0, num_labels, num_labels), scores.dtype),
    )
    over_sentences(_sums, num_sentences, threads, scores.size, scores, transition, lengths, *sums, with_marginals)
    return sums if with_marginals else Sums(sums.log_partition, None, None)


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


class _Forward(NamedTuple):
    """Room for the sweep over one sentence, by position 0 … L."""

    before: np.ndarray  # (L + 1, Y): ⊕ over all that may come before a segment of each label
    alpha: np.ndarray  # (L + 1, Y): ⊕ over all that ends with a segment of each label
    tiled: np.ndarray  # (K·Y,): a row of `before` K times
    # For sums:
    by_end: np.ndarray  # (K, K·Y): a ring; row m % K holds the segments that end at m
    exps: np.ndarray  # (K·Y,)
    totals: np.ndarray  # (Y,)
    alpha_exps: np.ndarray  # (L + 1, Y): exp(alpha - alpha_top)
    alpha_top: np.ndarray  # (L + 1,)


class _Backward(NamedTuple):
    beta: np.ndarray  # (L + 1, Y): ⊕ over all that may follow a segment of each label
    ahead: np.ndarray  # (L + 1, Y): ⊕ over all that begins with a segment of each label
    ahead_exps: np.ndarray
    ahead_top: np.ndarray
    scale: np.ndarray  # (L + 1,)
    pairs: np.ndarray  # (Y, Y)


@compiled
def _forward(scores, transition, weights, offset, length, room, take_max):
    """before[m, y] = ⊕_{y'} alpha[m, y'] + transition[y', y]; alpha[m, y] = ⊕_w before[m-w, y] + scores[m-w, w-1, y].

    Segments are scattered from their start, where the scores lie side by side. Maxima are merged at once; for sums the
    ring holds the segments of each coming end until all are there. With K = 1 there is nothing to merge.
    """
    max_width, num_labels = scores.shape[1:]
    before, alpha = room.before, room.alpha
    flat_scores = scores.reshape(scores.shape[0], max_width * num_labels)
    flat_alpha = alpha.reshape(alpha.size)
    before[0] = 0.0
    if take_max and max_width > 1:
        alpha[1 : length + 1] = -np.inf
    for i in range(length + 1):
        if i > 0:
            if take_max:
                max_step(alpha[i], transition, before[i])
            else:
                if max_width > 1:
                    sum_by_label(room.by_end[i % max_width], min(i, max_width), alpha[i], room.exps, room.totals)
                room.alpha_top[i] = sum_step(
                    alpha[i], transition, weights, offset, before[i], room.alpha_exps[i], room.totals
                )
        count = min(max_width, length - i)
        if count == 0:
            break
        if max_width == 1:
            add(before[i], scores[i, 0], alpha[i + 1])
        elif take_max:
            tile(before[i], count, room.tiled)
            merge_max(room.tiled[: count * num_labels], flat_scores[i], flat_alpha[(i + 1) * num_labels :])
        else:
            for w in range(count):
                at = w * num_labels
                add(before[i], scores[i, w], room.by_end[(i + w + 1) % max_width, at : at + num_labels])


@allocating
def _sums(first, last, scores, transition, lengths, *sums):
    num_tokens, max_width, num_labels = scores.shape[1:]
    shape = (num_tokens + 1, num_labels)
    transition = transition.astype(np.float64)
    weights = np.empty((num_labels, num_labels))
    offset = transition_weights(transition, weights)
    transposed = np.ascontiguousarray(transition.T), np.ascontiguousarray(weights.T)
    forward = _Forward(
        np.empty(shape),
        np.empty(shape),
        np.empty(1),
        np.empty((max_width, max_width * num_labels)),
        np.empty(max_width * num_labels),
        np.empty(num_labels),
        np.empty(shape),
        np.empty(num_tokens + 1),
    )
    backward = _Backward(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(num_tokens + 1),
        np.empty(num_tokens + 1),
        np.empty((num_labels, num_labels)),
    )
    model = (scores, transition, weights, offset, lengths)
    _both_ways(first, last, model, transposed, forward, backward, *sums)


@compiled
def _both_ways(first, last, model, transposed, forward, backward, log_partition, marginals, counts, with_marginals):
    scores, transition, weights, offset, lengths = model
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _forward(scores[b], transition, weights, offset, length, forward, False)
        total = log_sum(forward.alpha[length])
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        _backward(scores[b], transposed, offset, length, total, forward, backward, marginals[b])
        pairs = backward.pairs
        pairs[:] = 0.0
        pair_counts(
            forward.alpha, forward.alpha_exps, forward.alpha_top,
            backward.ahead, backward.ahead_exps, backward.ahead_top,
            length, model, total, backward.scale, pairs,
        )  # fmt: skip
        for y in range(pairs.shape[0]):
            for z in range(pairs.shape[1]):
                counts[b, y, z] = pairs[y, z]


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
    num_tokens, max_width, num_labels = scores.shape[1:]
    unused = np.empty((1, 1))
    room = _Forward(
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        np.empty(max_width * num_labels, scores.dtype),
        unused,
        unused[0],
        unused[0],
        unused,
        unused[0],
    )
    _trace(first, last, room, scores, *arguments)


@compiled
def _trace(first, last, room, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        end = lengths[b]
        if end == 0:
            max_score[b] = 0.0
            continue
        _forward(scores[b], transition, transition, 0.0, end, room, True)
        max_score[b] = largest(room.alpha[end], room.alpha.shape[1])
        if max_score[b] == -np.inf:
            continue
        following = -1
        while end > 0:
            start, label = _last_segment(scores[b], room.before, room.alpha[end], transition, end, following)
            widths[b, start] = end - start
            labels[b, start] = label
            end, following = start, label


@compiled
def _last_segment(scores, before, alpha, transition, end, following):
    """The first segment in (start, label) order that ends here and leads best to the label `following` (-1: none).

    Only labels whose alpha attains the best value can hold it, so the widths of those alone are searched.
    """
    max_width, num_labels = scores.shape[1:]
    best = alpha[0] + (transition[0, following] if following >= 0 else 0)
    for y in range(1, num_labels):
        value = alpha[y] + (transition[y, following] if following >= 0 else 0)
        best = value if value > best else best
    best_start, best_label = end, 0
    for y in range(num_labels):
        onward = transition[y, following] if following >= 0 else 0
        if alpha[y] + onward == best:
            for start in range(max(0, end - max_width), best_start):
                if before[start, y] + scores[start, end - start - 1, y] + onward == best:
                    best_start, best_label = start, y
                    break
    return best_start, best_label


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
