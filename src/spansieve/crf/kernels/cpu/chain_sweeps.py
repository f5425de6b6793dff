"""The linear chain's sums compiled for the CPU, and its best tags where no transition is learned. NumPy in and out.

Forward and backward in probabilities, rescaled at each token: one exponential per score and one logarithm per token,
where sums in log space take five per score. This is exact as long as no factor is so small that a product of a few
could underflow. A sentence in which one is, gets its sums in log space instead, from the semi-Markov kernel with K = 1.
What is impossible, -inf, is 0 here as there and takes no sentence out of range.

Rows are padded with zeros, so that all products are of whole vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences, reduction, vectorised
from spansieve.crf.kernels.cpu.log_space import largest, transition_weights
from spansieve.crf.kernels.cpu.semi_markov_sweeps import semi_markov_sums
from spansieve.crf.kernels.cpu.simd import exp, log, weighted_rows_8, weighted_rows_16, weighted_rows_32

PADDING = 8  # rows of tags are padded to a multiple of this many
LEAST = 1e-60  # a product of five such numbers is still a normal float64
LOG_LEAST = -138.0


def linear_chain_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Forward-backward. `scores[b, i, y]` is the score of tag y at token i. O(L·Y²) per sentence."""
    num_sentences = len(scores)
    sums = Sums.allocated(scores, num_sentences, len(transition), with_marginals)
    is_scaled = np.zeros(num_sentences, np.bool_)
    arguments = (scores, transition, lengths, *sums, is_scaled, with_marginals)
    over_sentences(_sums, num_sentences, threads, scores.size, *arguments)
    if not is_scaled.all():
        _sum_in_log_space(np.flatnonzero(~is_scaled), scores, transition, lengths, sums, with_marginals, threads)
    return sums.wanted(with_marginals)


def _sum_in_log_space(which, scores, transition, lengths, sums, with_marginals, threads) -> None:
    found = semi_markov_sums(scores[which][:, :, None], transition, lengths[which], with_marginals, threads)
    sums.log_partition[which] = found.log_partition
    if with_marginals:
        sums.marginals[which] = found.marginals[:, :, 0]
        sums.transition_counts[which] = found.transition_counts


class _Workspace(NamedTuple):
    """The workspace for one sentence; rows of tags are padded."""

    exps: np.ndarray  # (L, Y): exp(scores - their largest)
    alpha: np.ndarray  # (L, Y): P(tag and all before it), but for a factor
    ahead: np.ndarray  # (L, Y): P(tag and all after it | the tag before), but for a factor
    product: np.ndarray  # (Y,)
    scale: np.ndarray  # (L,): what alpha adds up to


@allocating
def _sums(first, last, scores, transition, lengths, *sums):
    num_tokens, num_tags = scores.shape[1:]
    padded = (num_tags + PADDING - 1) // PADDING * PADDING
    weights, transposed = np.zeros((num_tags, padded)), np.zeros((num_tags, padded))
    space = _Workspace(
        np.zeros((num_tokens, padded)),
        np.empty((num_tokens, padded)),
        np.empty((num_tokens, padded)),
        np.empty(padded),
        np.empty(num_tokens),
    )
    offset = transition_weights(transition, weights)
    transposed[:, :num_tags] = weights[:, :num_tags].T
    if not any_between(transition.ravel(), -np.inf, offset + LOG_LEAST):
        _both_ways(first, last, scores, offset, weights, transposed, lengths, space, *sums)


@vectorised
def _exponentials(values, top, exps):
    """exps = exp(values - top); whether each is 0, for the impossible, or not too small."""
    if top == -np.inf or any_between(values, -np.inf, top + LOG_LEAST):
        return False
    for y in range(values.size):
        exps[y] = exp(values[y] - top)
    return True


@reduction
def any_between(values, low, high):
    """Whether one is above `low` and below `high`. Counted in the values' own type: that is how it becomes vectors."""
    number = values.dtype.type
    low, high = number(low), number(high)
    count = number(0)
    for y in range(values.size):
        count += number(1) if (values[y] > low) & (values[y] < high) else number(0)
    return count > 0


@compiled
def _both_ways(
    first, last, scores, offset, weights, transposed, lengths, space,
    log_partition, marginals, counts, is_scaled, with_marginals,
):  # fmt: skip
    for b in range(first, last):
        length = lengths[b]
        log_partition[b] = 0.0
        is_scaled[b] = length == 0
        if length == 0:
            continue
        total, is_in_range = _forward(scores[b], length, weights, space)
        if is_in_range and with_marginals:
            is_in_range = _backward(length, transposed, space, marginals[b])
        if is_in_range:
            log_partition[b] = total + offset * (length - 1)
            is_scaled[b] = True
            if with_marginals:
                _count_pairs(length, weights, space, counts[b])


@compiled
def _forward(scores, length, weights, space):
    """alpha[i, y] = exps[i, y] · Σ_{y'} alpha[i-1, y'] · weights[y', y], over what alpha[i-1] adds up to.

    log Z, but for the transition's offset, and whether all is in range.
    """
    alpha = space.alpha
    log_total = 0.0
    for i in range(length):
        top = largest(scores[i], scores.shape[1])
        if not _exponentials(scores[i], top, space.exps[i]):
            return 0.0, False
        log_total += top
        if i > 0:
            _multiply(alpha[i - 1], weights, space.product)
        else:
            space.product[:] = 1.0
        _weighted(space.exps[i], space.product, 1.0 / space.scale[i - 1] if i > 0 else 1.0, alpha[i])
        space.scale[i] = total = _sum(alpha[i])
        if total == 0.0 or any_between(alpha[i], 0.0, LEAST * total):
            return 0.0, False
    return log_total + _log_product(space.scale, length), True


@vectorised
def _log_product(values, count):
    """Σ log(values)."""
    total = 0.0
    for i in range(count):
        total += log(values[i])
    return total


@compiled
def _backward(length, transposed, space, marginals):
    """beta[i, y'] = Σ_y weights[y', y] · ahead[i+1, y]; ahead[i, y] = exps[i, y] · beta[i, y].

    Both are scaled so that alpha · beta are the marginals, which add up to 1. Whether all is in range.
    """
    alpha, ahead, beta = space.alpha, space.ahead, space.product
    for i in range(length - 1, -1, -1):
        if i < length - 1:
            _multiply(ahead[i + 1], transposed, beta)
        else:
            beta[:] = 1.0
        total = _dot(alpha[i], beta)
        if total == 0.0:
            return False
        if i < length - 1:  # the pairs of i and i + 1 add up to 1 as well
            _scale(ahead[i + 1], 1.0 / total)
        _scale(beta, 1.0 / total)
        if any_between(beta, 0.0, LEAST) or any_between(beta, 1.0 / LEAST, np.inf):
            return False
        _weighted(space.exps[i], beta, 1.0, ahead[i])
        for y in range(marginals.shape[1]):
            marginals[i, y] = alpha[i, y] * beta[y]
    return True


@compiled
def _count_pairs(length, weights, space, counts):
    """counts[y', y] = Σ_i alpha[i-1, y'] · weights[y', y] · ahead[i, y]: a product of two matrices."""
    num_tags, padded = weights.shape
    alpha, ahead = space.alpha.reshape(space.alpha.size), space.ahead.reshape(space.ahead.size)
    for p in range(num_tags):
        _add_rows(alpha, p, padded, ahead[padded:], length - 1, space.product)
        for y in range(num_tags):
            counts[p, y] = space.product[y] * weights[p, y]


@compiled
def _multiply(values, weights, out):
    """out[y] = Σ_{y'} values[y'] · weights[y', y]."""
    _add_rows(values, 0, 1, weights.reshape(weights.size), weights.shape[0], out)


@compiled
def _add_rows(values, at, step, rows, count, out):
    """out = Σ_p values[at + p·step] · rows[p]."""
    padded = out.size
    k = 0
    while k + 32 <= padded:
        weighted_rows_32(values, at, step, rows, k, padded, count, out, k)
        k += 32
    if k + 16 <= padded:
        weighted_rows_16(values, at, step, rows, k, padded, count, out, k)
        k += 16
    if k < padded:
        weighted_rows_8(values, at, step, rows, k, padded, count, out, k)


@compiled
def _scale(values, factor):
    for y in range(values.size):
        values[y] *= factor


@compiled
def _weighted(left, right, factor, out):
    """out = left · right · factor."""
    for y in range(out.size):
        out[y] = left[y] * right[y] * factor


# Reductions write to no array: a loop that does is made of vectors only where the arrays are far enough apart, and the
# order of summation would depend on where they happen to lie.


@reduction
def _sum(values):
    total = 0.0
    for y in range(values.size):
        total += values[y]
    return total


@reduction
def _dot(left, right):
    total = 0.0
    for y in range(left.size):
        total += left[y] * right[y]
    return total


# ---- The best tags where transitions are allowed or not, and nothing else ------------------------------------------


class Predecessors(NamedTuple):
    """What each tag may follow: tags that may follow the same ones are a group; and which may be first or last."""

    offsets: np.ndarray  # (G + 1,): of each group in the members
    members: np.ndarray
    group: np.ndarray  # (Y,)
    can_start: np.ndarray  # (Y,)
    can_end: np.ndarray  # (Y,)

    @classmethod
    def of(cls, is_allowed: np.ndarray, can_start: np.ndarray, can_end: np.ndarray) -> Predecessors:
        """Group by columns: `is_allowed[y', y]` is whether y may follow y'."""
        columns, group = np.unique(is_allowed, axis=1, return_inverse=True)  # (Y, G)
        which, members = np.ascontiguousarray(columns.T).nonzero()
        offsets = np.searchsorted(which, np.arange(columns.shape[1] + 1))
        return cls(offsets, members, group.reshape(-1), can_start, can_end)


def allowed_chain_best(scores, predecessors, lengths, threads=1):
    """Viterbi without learned transitions: the best score (B,) and its tags (B, L), the lowest tag of equals.

    A group shares one maximum, which for tags such as BIO and BIOES makes it O(L·Y) per sentence and not O(L·Y²).
    """
    max_score = np.zeros(len(scores), scores.dtype)
    tags = np.zeros(scores.shape[:2], np.int64)
    arguments = (scores, *predecessors, lengths, max_score, tags)
    over_sentences(_allowed_best, len(scores), threads, scores.size, *arguments)
    return max_score, tags


@allocating
def _allowed_best(first, last, scores, offsets, members, group, can_start, can_end, lengths, max_score, tags):
    value, top = np.empty(scores.shape[1:], scores.dtype), np.empty(offsets.size - 1, scores.dtype)
    for b in range(first, last):
        if lengths[b] > 0:
            borders = (can_start, can_end)
            max_score[b] = _allowed_forward(scores[b], offsets, members, group, borders, lengths[b], value, top)
            if max_score[b] > -np.inf:
                _allowed_trace(scores[b], offsets, members, group, max_score[b], value, tags[b, : lengths[b]])


@compiled
def _allowed_forward(scores, offsets, members, group, borders, length, value, top):
    """value[i, y] = scores[i, y] + max over the predecessors of y of value[i-1]; returns the last maximum."""
    can_start, can_end = borders
    top[:] = 0.0
    for i in range(length):
        for g in range(top.size if i > 0 else 0):
            if offsets[g + 1] - offsets[g] == group.size:  # side by side, as vectors
                top[g] = largest(value[i - 1], group.size)
                continue
            best = value.dtype.type(-np.inf)
            for k in range(offsets[g], offsets[g + 1]):
                other = value[i - 1, members[k]]
                best = other if other > best else best
            top[g] = best
        for y in range(group.size):
            is_possible = i > 0 or can_start[y]
            value[i, y] = scores[i, y] + top[group[y]] if is_possible else -np.inf
    for y in range(group.size):
        if not can_end[y]:
            value[length - 1, y] = -np.inf
    return largest(value[length - 1], group.size)


@compiled
def _allowed_trace(scores, offsets, members, group, total, value, tags):
    """Go back from the last tag: before each stands the first of its predecessors that leads to its value."""
    last = tags.size - 1
    while value[last, tags[last]] != total:
        tags[last] += 1
    for i in range(last, 0, -1):
        y = tags[i]
        k = offsets[group[y]]
        while scores[i, y] + value[i - 1, members[k]] != value[i, y]:
            k += 1
        tags[i - 1] = members[k]


# ---- What tags spell -------------------------------------------------------------------------------------------------


def segments_of_tags(tags, lengths, is_inside, label_of_tag):
    """Read the segments of tags (B, L): offsets (B + 1,) of the sentences, and starts, ends and labels, (3, M).

    A token goes on with the segment before it where its pair of tags `is_inside`; tags of label 0 are in none.
    """
    offsets = np.zeros(len(tags) + 1, np.int64)
    columns = np.empty((3, tags.size), np.int64)
    _spelled(tags, lengths, is_inside, label_of_tag, offsets, columns)
    return offsets, columns[:, : offsets[-1]]


@compiled
def _spelled(tags, lengths, is_inside, label_of_tag, offsets, columns):
    count = 0
    for b in range(lengths.size):
        for i in range(lengths[b]):
            label = label_of_tag[tags[b, i]]
            if i > 0 and is_inside[tags[b, i - 1], tags[b, i]]:
                columns[1, count - 1] = i + 1
            elif label > 0:
                columns[0, count], columns[1, count], columns[2, count] = i, i + 1, label
                count += 1
        offsets[b + 1] = count
