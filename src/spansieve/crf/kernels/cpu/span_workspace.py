"""The workspace of the sweeps over every span of a sentence, and the steps that they share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.jit import allocating, compiled
from spansieve.crf.kernels.cpu.log_space import pair_counts, transition_weights


class Maxima(NamedTuple):
    """The workspace of the sweep for maxima over one sentence, by position 0 … L."""

    before: np.ndarray  # (L + 1, Y): ⊕ over all that may come before a segment of each label
    ended: np.ndarray  # (L + 1, Y): ⊕ over all whose last segment has each label and ends there; with skipping, by then
    tiled: np.ndarray  # (K·Y,): a row of `before` K times


class Forward(NamedTuple):
    """The workspace of the sweep for sums. R is K·Y; with skipping (K + 1)·Y, since what had ended before is one more
    of the segments there."""

    before: np.ndarray  # (L + 1, Y)
    ended: np.ndarray  # (L + 1, Y)
    by_end: np.ndarray  # (K, R): a ring; row m % K holds the segments that end at m
    exps: np.ndarray  # (R,)
    totals: np.ndarray  # (Y,)
    ended_exps: np.ndarray  # (L + 1, Y): exp(ended - ended_top)
    ended_top: np.ndarray  # (L + 1,)


class Backward(NamedTuple):
    beta: np.ndarray  # (L + 1, Y): ⊕ over all that may follow a segment of each label
    ahead: np.ndarray  # (L + 1, Y): ⊕ over all that begins right there, with a segment of each label
    ahead_exps: np.ndarray  # (L + 1, Y): exp(ahead - ahead_top)
    ahead_top: np.ndarray  # (L + 1,)
    # With skipping, where `ahead` is there only for positions whose `ahead_exps` are out of reach:
    carried: np.ndarray  # (Y,): ⊕ over all whose first segment has each label, wherever from here on that begins
    carried_exps: np.ndarray  # (Y,)


class Pairs(NamedTuple):
    """The workspace of the expected label pairs of one sentence."""

    scale: np.ndarray  # (L + 1,)
    counts: np.ndarray  # (Y, Y)


@allocating
def new_sums_workspace(scores, skip):
    """Allocate the workspaces of forward-backward. `scores` are a batch's, (B, L, K, Y)."""
    num_tokens, max_width, num_labels = scores.shape[1:]
    shape, row = (num_tokens + 1, num_labels), (max_width + skip) * num_labels
    forward = Forward(
        np.empty(shape),
        np.empty(shape),
        np.empty((max_width, row)),
        np.empty(row),
        np.empty(num_labels),
        np.empty(shape),
        np.empty(num_tokens + 1),
    )
    backward = Backward(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(num_tokens + 1),
        np.empty(num_labels),
        np.empty(num_labels),
    )
    return forward, backward, Pairs(np.empty(num_tokens + 1), np.empty((num_labels, num_labels)))


@allocating
def new_best_workspace(scores):
    num_tokens, max_width, num_labels = scores.shape[1:]
    return Maxima(
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        np.empty((num_tokens + 1, num_labels), scores.dtype),
        np.empty(max_width * num_labels, scores.dtype),
    )


@allocating
def with_weights(scores, transition, lengths):
    """The model with exp(transition) but for a factor, whose logarithm is the offset; and the transition and these
    weights for the sweep from right to left."""
    weights = np.empty(transition.shape)
    offset = transition_weights(transition, weights)
    transposed = np.ascontiguousarray(transition.T), np.ascontiguousarray(weights.T)
    return (scores, transition, weights, offset, lengths), transposed


@compiled
def count_pairs(length, model, total, forward, backward, pairs):
    """Write the expected number of times that y' is followed by y into `pairs.counts`."""
    pairs.counts[:] = 0.0
    pair_counts(
        forward.ended, forward.ended_exps, forward.ended_top,
        backward.ahead, backward.ahead_exps, backward.ahead_top,
        length, model, total, pairs.scale, pairs.counts,
    )  # fmt: skip


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
