"""Compiled sweeps for the CPU: NumPy in, NumPy out, no torch, no GIL, sentences in parallel.

Axes: B sentences, L tokens, K widths, Y labels (or tags). Each function takes `threads`, and uses them only where the
work outweighs the cost of starting them.

Sums run in float64 whatever the scores are, in log space; maxima run in the scores' own type, so that they are bit for
bit those of every other kernel. A sum over predecessors is a product with exp(transition), and where that product
underflows the entry is summed again in log space: scores of any size, -inf included, come out exact.

The filtered model has a file of its own, `cpu_filtered.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.compiled import allocating, compiled, over_sentences, reduction, vectorised
from spansieve.crf.kernels.vector_math import exp, log

UNDERFLOW = 1e-290  # a sum of exponentials below this may have lost terms that count
LARGEST_SCALE = 600.0  # exp of more than this leaves no room for further factors


# ---- Linear chain -------------------------------------------------------------------------------------------------


def linear_chain_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Forward and backward algorithm. `scores[b, i, y]` is the score of tag y at token i. O(L·Y²) per sentence."""
    return _sums(_linear_chain_sums, scores, transition, lengths, with_marginals, threads)


def linear_chain_best(scores, transition, lengths, threads=1):
    """Viterbi: the best score (B,) and its tags (B, L), 0 beyond the length. The lowest tag wins a tie."""
    max_score = np.empty(scores.shape[0], scores.dtype)
    tags = np.zeros(scores.shape[:2], np.int64)
    over_sentences(_linear_chain_best, len(scores), threads, scores.size, scores, transition, lengths, max_score, tags)
    return max_score, tags


@compiled
def _linear_chain_forward(scores, transition, weights, offset, length, alpha, scratch, take_max):
    """alpha[i, y] = ⊕_{y'} alpha[i-1, y'] + transition[y', y], plus scores[i, y]; ⊕ is max or log-sum."""
    _copy(scores[0], alpha[0])
    for i in range(1, length):
        if take_max:
            _max_step(alpha[i - 1], transition, alpha[i])
        else:
            _sum_step(alpha[i - 1], transition, weights, offset, alpha[i], scratch)
        for y in range(alpha.shape[1]):
            alpha[i, y] += scores[i, y]


@allocating
def _linear_chain_sums(first, last, scores, transition, weights, offset, lengths, *sums):
    num_tokens, num_tags = scores.shape[1:]
    transposed = np.ascontiguousarray(transition.T), np.ascontiguousarray(weights.T)
    alpha = np.empty((num_tokens, num_tags))
    rows = np.empty((4, num_tags))
    pairs = np.empty((num_tags, num_tags))
    model = (scores, transition, weights, offset, lengths)
    _linear_chain_both_ways(first, last, model, transposed, alpha, rows, pairs, *sums)


@compiled
def _linear_chain_both_ways(
    first, last, model, transposed, alpha, rows, pairs, log_partition, marginals, counts, with_marginals
):
    scores, transition, weights, offset, lengths = model
    beta, ahead, scratch = rows[0], rows[1], rows[2:]
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _linear_chain_forward(scores[b], transition, weights, offset, length, alpha, scratch, False)
        total = _log_sum(alpha[length - 1])
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        pairs[:] = 0.0
        beta[:] = 0.0
        for i in range(length - 1, -1, -1):
            _marginals(alpha[i], beta, total, marginals[b, i])
            if i > 0:
                for y in range(beta.size):
                    ahead[y] = scores[b, i, y] + beta[y]
                _add_pairs(alpha[i - 1], ahead, transition, weights, offset, total, pairs, scratch)
                _sum_step(ahead, *transposed, offset, beta, scratch)
        for y in range(pairs.shape[0]):
            _copy(pairs[y], counts[b, y])


@allocating
def _linear_chain_best(first, last, scores, *arguments):
    alpha = np.empty(scores.shape[1:], scores.dtype)
    _viterbi(first, last, alpha, np.empty((2, 1)), scores, *arguments)


@compiled
def _viterbi(first, last, alpha, scratch, scores, transition, lengths, max_score, tags):
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            max_score[b] = 0.0
            continue
        _linear_chain_forward(scores[b], transition, transition, 0.0, length, alpha, scratch, True)
        tag = 0
        for y in range(1, alpha.shape[1]):
            if alpha[length - 1, y] > alpha[length - 1, tag]:
                tag = y
        max_score[b] = alpha[length - 1, tag]
        if max_score[b] == -np.inf:
            continue
        tags[b, length - 1] = tag
        for i in range(length - 1, 0, -1):
            tag = _best_before(alpha[i - 1], transition, tag)
            tags[b, i - 1] = tag


# ---- Semi-Markov --------------------------------------------------------------------------------------------------


def semi_markov_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Segmental forward and backward. `scores[b, i, w, y]` is the segment at i of width w + 1 with label y.

    The transition is applied once per end position: O(L·K·Y + L·Y²) per sentence.
    """
    return _sums(_semi_markov_sums, scores, transition, lengths, with_marginals, threads)


def semi_markov_best(scores, transition, lengths, threads=1):
    """Segmental Viterbi: the best score (B,), and at the start of each of its segments the width and the label (B, L).

    The first predecessor in (start, label) order wins a tie. Widths are 0 where no segment starts.
    """
    max_score = np.empty(scores.shape[0], scores.dtype)
    widths = np.zeros(scores.shape[:2], np.int64)
    labels = np.zeros(scores.shape[:2], np.int64)
    over_sentences(
        _semi_markov_best, len(scores), threads, scores.size, scores, transition, lengths, max_score, widths, labels
    )
    return max_score, widths, labels


class _Sweep(NamedTuple):
    """Room for one sentence."""

    before: np.ndarray  # (L + 1, Y)
    alpha: np.ndarray  # (L + 1, Y)
    by_end: np.ndarray  # (K, K·Y): a ring; row m % K holds the segments that end at m
    exps: np.ndarray  # (K·Y,)
    rows: np.ndarray  # (5, Y)


@compiled
def _semi_markov_forward(scores, transition, weights, offset, length, room, take_max):
    """before[m, y] = ⊕_{y'} alpha[m, y'] + transition[y', y]; alpha[m, y] = ⊕_w before[m-w, y] + scores[m-w, w-1, y].

    Segments are scattered from their start, where the scores lie side by side. Maxima are merged at once; for sums the
    ring holds the segments of each coming end until all are there.
    """
    max_width, num_labels = scores.shape[1:]
    before, alpha = room.before, room.alpha
    before[0] = 0.0
    if take_max:
        alpha[1 : length + 1] = -np.inf
    for i in range(length + 1):
        if i > 0:
            if take_max:
                _max_step(alpha[i], transition, before[i])
            else:
                _sum_by_label(room.by_end[i % max_width], min(i, max_width), alpha[i], room.exps, room.rows[0])
                _sum_step(alpha[i], transition, weights, offset, before[i], room.rows)
        for w in range(min(max_width, length - i)):
            if take_max:
                _merge_max(before[i], scores[i, w], alpha[i + w + 1])
            else:
                _add(before[i], scores[i, w], room.by_end[(i + w + 1) % max_width, w * num_labels :])


@allocating
def _semi_markov_sums(first, last, scores, transition, weights, offset, lengths, *sums):
    num_tokens, max_width, num_labels = scores.shape[1:]
    transposed = np.ascontiguousarray(transition.T), np.ascontiguousarray(weights.T)
    room = _Sweep(
        np.empty((num_tokens + 1, num_labels)),
        np.empty((num_tokens + 1, num_labels)),
        np.empty((max_width, max_width * num_labels)),
        np.empty(max_width * num_labels),
        np.empty((5, num_labels)),
    )
    beta = np.empty((num_tokens + 1, num_labels))
    pairs = np.empty((num_labels, num_labels))
    model = (scores, transition, weights, offset, lengths)
    _semi_markov_both_ways(first, last, model, transposed, room, beta, pairs, *sums)


@compiled
def _semi_markov_both_ways(
    first, last, model, transposed, room, beta, pairs, log_partition, marginals, counts, with_marginals
):
    scores, transition, weights, offset, lengths = model
    max_width, num_labels = scores.shape[2:]
    segments, exps, ahead, rows = room.by_end[0], room.exps, room.rows[4], room.rows
    flat_beta = beta.reshape(beta.size)
    for b in range(first, last):
        length = lengths[b]
        if length == 0:
            log_partition[b] = 0.0
            continue
        _semi_markov_forward(scores[b], transition, weights, offset, length, room, False)
        total = _log_sum(room.alpha[length])
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        pairs[:] = 0.0
        beta[length] = 0.0
        flat_scores = scores[b].reshape(scores.shape[1], max_width * num_labels)
        for i in range(length - 1, -1, -1):
            count = min(max_width, length - i)
            _add(flat_scores[i, : count * num_labels], flat_beta[(i + 1) * num_labels :], segments)
            top = _sum_by_label(segments, count, ahead, exps, rows[0])
            _segment_marginals(segments, exps, top, room.before[i], count, total, marginals[b, i], rows[0])
            if i > 0:
                _add_pairs(room.alpha[i], ahead, transition, weights, offset, total, pairs, rows)
                _sum_step(ahead, *transposed, offset, beta[i], rows)
        for y in range(pairs.shape[0]):
            _copy(pairs[y], counts[b, y])


@allocating
def _semi_markov_best(first, last, scores, *arguments):
    num_tokens, _, num_labels = scores.shape[1:]
    unused = np.empty((1, 1))
    room = _Sweep(
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        unused,
        unused[0],
        unused,
    )
    _segmental_viterbi(first, last, room, scores, *arguments)


@compiled
def _segmental_viterbi(first, last, room, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        end = lengths[b]
        if end == 0:
            max_score[b] = 0.0
            continue
        _semi_markov_forward(scores[b], transition, transition, 0.0, end, room, True)
        max_score[b] = _largest(room.alpha[end], room.alpha.shape[1])
        if max_score[b] == -np.inf:
            continue
        following = -1
        while end > 0:
            start, label = _best_segment_ending(scores[b], room.before, room.alpha[end], transition, end, following)
            widths[b, start] = end - start
            labels[b, start] = label
            end, following = start, label


@compiled
def _best_segment_ending(scores, before, alpha, transition, end, following):
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


# ---- Steps shared by the sweeps -----------------------------------------------------------------------------------


@compiled
def _max_step(values, transition, out):
    """out[y] = max_{y'} values[y'] + transition[y', y]."""
    num_labels = values.size
    for y in range(num_labels):
        out[y] = values[0] + transition[0, y]
    for previous in range(1, num_labels):
        value = values[previous]
        row = transition[previous]
        for y in range(num_labels):
            candidate = value + row[y]
            out[y] = candidate if candidate > out[y] else out[y]


@vectorised
def _sum_step(values, transition, weights, offset, out, scratch):
    """out[y] = log Σ_{y'} exp(values[y'] + transition[y', y]), with weights = exp(transition - offset)."""
    num_labels = values.size
    top = _largest(values, num_labels)
    if top == -np.inf:
        out[:] = -np.inf
        return
    exps, totals = scratch[0], scratch[1]
    for y in range(num_labels):
        exps[y] = exp(values[y] - top)
        totals[y] = 0.0
    for previous in range(num_labels):
        value = exps[previous]
        for y in range(num_labels):
            totals[y] += value * weights[previous, y]
    underflows = 0
    for y in range(num_labels):
        underflows += totals[y] < UNDERFLOW
        out[y] = top + offset + log(totals[y] if totals[y] > UNDERFLOW else UNDERFLOW)
    if underflows > 0:
        for y in range(num_labels):
            if totals[y] < UNDERFLOW:
                for previous in range(num_labels):
                    exps[previous] = values[previous] + transition[previous, y]
                out[y] = _log_sum(exps)


@compiled
def _merge_max(before, scores, alpha):
    for y in range(before.size):
        value = before[y] + scores[y]
        alpha[y] = value if value > alpha[y] else alpha[y]


@compiled
def _copy(values, out):
    for j in range(values.size):
        out[j] = values[j]


@compiled
def _add(left, right, out):
    for j in range(left.size):
        out[j] = left[j] + right[j]


@vectorised
def _sum_by_label(segments, count, out, exps, totals):
    """out[y] = log Σ_w exp(segments[w·Y + y]) over `count` rows; returns the shift that `exps` was made with."""
    num_labels = out.size
    top = _largest(segments, count * num_labels)
    if top == -np.inf:
        out[:] = -np.inf
        exps[:] = 0.0
        return 0.0
    for j in range(count * num_labels):
        exps[j] = exp(segments[j] - top)
    totals[:] = 0.0
    for w in range(count):
        at = w * num_labels
        for y in range(num_labels):
            totals[y] += exps[at + y]
    underflows = 0
    for y in range(num_labels):
        underflows += totals[y] < UNDERFLOW
        out[y] = top + log(totals[y] if totals[y] > UNDERFLOW else UNDERFLOW)
    if underflows > 0:
        for y in range(num_labels):
            if totals[y] < UNDERFLOW:
                out[y] = _log_sum(segments[y : count * num_labels : num_labels])
    return top


@vectorised
def _marginals(alpha, beta, log_partition, out):
    for y in range(alpha.size):
        out[y] = exp(alpha[y] + beta[y] - log_partition)


@vectorised
def _segment_marginals(segments, exps, top, before, room, log_partition, out, scale):
    """out[w, y] = P(segment) = exp(before[y] + segments[w, y] - log Z), from the exponentials already at hand."""
    num_labels = before.size
    for y in range(num_labels):
        scale[y] = before[y] + top - log_partition
    if _largest(scale, num_labels) < LARGEST_SCALE:
        for y in range(num_labels):
            scale[y] = exp(scale[y])
        for w in range(room):
            at = w * num_labels
            for y in range(num_labels):
                out[w, y] = exps[at + y] * scale[y]
    else:
        for w in range(room):
            for y in range(num_labels):
                out[w, y] = exp(before[y] + segments[w * num_labels + y] - log_partition)


@vectorised
def _add_pairs(left, right, transition, weights, offset, log_partition, pairs, scratch):
    """pairs[y', y] += P(y' ends and y begins here) = exp(left[y'] + transition[y', y] + right[y] - log Z)."""
    num_labels = left.size
    left_top = _largest(left, num_labels)
    right_top = _largest(right, num_labels)
    if left_top == -np.inf or right_top == -np.inf:
        return
    scale = left_top + right_top + offset - log_partition
    if scale < LARGEST_SCALE:
        exps = scratch[0]
        for y in range(num_labels):
            exps[y] = exp(right[y] - right_top)
        for previous in range(num_labels):
            value = exp(left[previous] - left_top) * exp(scale)
            for y in range(num_labels):
                pairs[previous, y] += value * (weights[previous, y] * exps[y])
    else:
        for previous in range(num_labels):
            for y in range(num_labels):
                pairs[previous, y] += exp(left[previous] + transition[previous, y] + right[y] - log_partition)


@reduction
def _largest(values, count):
    top = -np.inf
    for j in range(count):
        top = values[j] if values[j] > top else top
    return top


@reduction
def _log_sum(values):
    top = _largest(values, values.size)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += exp(value - top)
    return top + np.log(total)


@compiled
def _best_before(alpha, transition, tag):
    best = 0
    for previous in range(1, alpha.size):
        if alpha[previous] + transition[previous, tag] > alpha[best] + transition[best, tag]:
            best = previous
    return best


# ---- Around the sweeps --------------------------------------------------------------------------------------------


def _sums(sweep, scores, transition, lengths, with_marginals, threads) -> Sums:
    num_sentences, num_labels = len(scores), len(transition)
    sums = Sums(
        np.empty(num_sentences, scores.dtype),
        np.zeros(scores.shape if with_marginals else (0,) * scores.ndim, scores.dtype),
        np.zeros((num_sentences if with_marginals else 0, num_labels, num_labels), scores.dtype),
    )
    transition = transition.astype(np.float64)
    offset = float(transition.max())
    offset = offset if np.isfinite(offset) else 0.0
    model = (scores, transition, np.exp(transition - offset), offset, lengths)
    over_sentences(sweep, num_sentences, threads, scores.size, *model, *sums, with_marginals)
    return sums if with_marginals else Sums(sums.log_partition, None, None)
