"""The filtered semi-Markov model compiled for the CPU. NumPy in, NumPy out.

Candidates are flat and ragged: those of sentence b are `offsets[b] … offsets[b+1] - 1`, sorted by (end, start, label).

The sweep is Algorithm 1 of the paper (Zaratiana et al., Findings of EMNLP 2023; with max for ⊕ it is Algorithm 2), and
for marginals forward-backward. Predecessors follow from the window theorem: with M(i) the latest start among the
candidates that are over by position i, the predecessors of every candidate that starts at i are those with
M(i) < end <= i. In the order above they are a run, from ended[M(i)] to ended[i], where ended[i] counts the candidates
with end <= i: no edge is ever built. The values of a window are merged by label first, and the transition is applied
once per start and label: O(N + P·K·Y + P·Y²) for N candidates and P distinct starts, less where few labels meet. With
`skip` the window is the whole prefix, merged as it grows; where only some candidates may be skipped, M(i) is over the
others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.simd import exp


def filtered_sums(
    offsets, start, end, label, scores, transition, lengths, skip, with_marginals=True, threads=1
) -> Sums:
    """Forward-backward: log Z (B,) and, if wanted, P(candidate) (N,) and the expected label pairs (B, Y, Y)."""
    sums = Sums.allocated(scores, lengths.size, len(transition), with_marginals)
    candidates = (offsets, start, end, label, scores, transition.astype(np.float64), lengths, blocks(start, skip))
    over_sentences(sum_sentences, lengths.size, threads, scores.size, *candidates, *sums, with_marginals)
    return sums.wanted(with_marginals)


def filtered_best(offsets, start, end, label, scores, transition, lengths, skip, threads=1):
    """Viterbi: the score of the best path (B,), and which candidates it takes (N,)."""
    max_score = np.empty(lengths.size, scores.dtype)
    is_chosen = np.zeros(scores.size, np.bool_)
    candidates = (offsets, start, end, label, scores, transition, lengths, blocks(start, skip))
    over_sentences(_filtered_best, lengths.size, threads, scores.size, *candidates, max_score, is_chosen)
    return max_score, is_chosen


def blocks(start, skip):
    """The start of each candidate that may not be skipped, -1 for the others; `skip` is for all of them, or of each."""
    return start if skip is False else np.where(skip, -1, start)


# ---- The workspace of one sentence -----------------------------------------------------------------------------------


class Nodes(NamedTuple):
    """Candidates of one sentence in the direction of a sweep: from left to right begin is start and finish is end,
    from right to left both are counted from the end of the sentence. Sorted by finish."""

    begin: np.ndarray
    finish: np.ndarray
    label: np.ndarray
    score: np.ndarray
    block: np.ndarray  # where a node begins that may not be skipped, -1 for one that may


class Windows(NamedTuple):
    """The predecessors of a node that begins at i: nodes first[i] … last[i] - 1, and the start where `opens[i]`.

    The nodes that begin at i are by_begin[begins[i]] … by_begin[begins[i+1] - 1].
    """

    first: np.ndarray  # (L + 1,)
    last: np.ndarray  # (L + 1,)
    opens: np.ndarray  # (L + 1,)
    begins: np.ndarray  # (L + 3,)
    by_begin: np.ndarray  # (N,)


class Merged(NamedTuple):
    """⊕ of the values of some nodes, by label. For sums it is log(mass) + top, for maxima it is top."""

    labels: np.ndarray  # (Y,): the labels that occur, in no order; how many is kept by the caller
    occurs: np.ndarray  # (Y,)
    top: np.ndarray  # (Y,)
    mass: np.ndarray  # (Y,)
    winner: np.ndarray  # (Y,): the first node that attains top
    runner_up: np.ndarray  # (N,): for a node that became the winner, the one it replaced, or -1


class Workspace(NamedTuple):
    """The workspace of the sweep over one sentence."""

    windows: Windows
    merged: Merged
    value: np.ndarray  # (N,): ⊕ over all paths up to and including each node
    origin: np.ndarray  # (N,): the node before it on the best of them; -1 for the start
    into: np.ndarray  # (Y,): ⊕ over all ways into a label at the present position
    into_origin: np.ndarray  # (Y,)
    into_at: np.ndarray  # (Y,): the position that `into` was last worked out for


@allocating
def new_workspace(num_tokens, num_nodes, num_labels, like):
    """Allocate the workspace. `like` gives the type of the values: the scores' for maxima, float64 for sums."""
    windows = Windows(
        np.empty(num_tokens + 1, np.int64),
        np.empty(num_tokens + 1, np.int64),
        np.empty(num_tokens + 1, np.bool_),
        np.empty(num_tokens + 3, np.int64),
        np.empty(num_nodes, np.int64),
    )
    merged = Merged(
        np.empty(num_labels, np.int64),
        np.zeros(num_labels, np.bool_),
        np.empty(num_labels, like.dtype),
        np.empty(num_labels, like.dtype),
        np.empty(num_labels, np.int64),
        np.empty(num_nodes, np.int64),
    )
    return Workspace(
        windows,
        merged,
        np.empty(num_nodes, like.dtype),
        np.empty(num_nodes, np.int64),
        np.empty(num_labels, like.dtype),
        np.empty(num_labels, np.int64),
        np.empty(num_labels, np.int64),
    )


@compiled
def sort_by_begin(begin, num_nodes, length, begins, by_begin):
    """Counting sort, stable: the nodes that begin at i are by_begin[begins[i]] … by_begin[begins[i+1] - 1]."""
    begins[: length + 3] = 0
    for c in range(num_nodes):
        begins[begin[c] + 2] += 1
    for i in range(1, length + 3):
        begins[i] += begins[i - 1]
    for c in range(num_nodes):
        by_begin[begins[begin[c] + 1]] = c
        begins[begin[c] + 1] += 1


# ---- One sentence ----------------------------------------------------------------------------------------------------


@compiled
def find_windows(nodes, num_nodes, length, windows):
    """Find all predecessors by the window theorem, in one sweep. O(N + L)."""
    first, last, opens, begins, by_begin = windows
    sort_by_begin(nodes.begin, num_nodes, length, begins, by_begin)
    latest = -1
    over = 0
    for i in range(length + 1):
        while over < num_nodes and nodes.finish[over] == i:
            latest = max(latest, nodes.block[over])
            over += 1
        last[i] = over
        first[i] = 0 if latest < 0 else last[latest]
        opens[i] = latest < 0


@compiled
def sweep(nodes, num_nodes, length, transition, take_max, space):
    """⊕ over all paths, and in `space.value` over those that end in each node; ⊕ is max or log-sum.

    Returns it with the last node of the best path, -1 if that path is empty or ⊕ is log-sum.
    """
    windows, merged = space.windows, space.merged
    find_windows(nodes, num_nodes, length, windows)
    space.into_at[:] = -1
    count = 0  # of labels in `merged`, which holds the nodes from `low` up to `high`
    low = 0
    high = 0
    for i in range(length):
        if windows.begins[i] == windows.begins[i + 1]:
            continue
        count = slide(nodes, windows, i, low, high, space.value, merged, count, take_max)
        low, high = windows.first[i], windows.last[i]
        for k in range(windows.begins[i], windows.begins[i + 1]):
            c = windows.by_begin[k]
            y = nodes.label[c]
            if space.into_at[y] != i:
                space.into_at[y] = i
                into = combine(merged, count, transition, y, windows.opens[i], take_max, space.value)
                space.into[y], space.into_origin[y] = into
            space.value[c] = space.into[y] + nodes.score[c]
            space.origin[c] = space.into_origin[y]
    count = slide(nodes, windows, length, low, high, space.value, merged, count, take_max)
    total, last_node = combine(merged, count, transition, -1, windows.opens[length], take_max, space.value)
    clear(merged, count)
    return total, last_node


@compiled
def slide(nodes, windows, i, low, high, value, merged, count, take_max):
    """Move `merged` from the nodes low … high - 1 to the window of i. Both ends only ever move to the right."""
    if windows.first[i] != low:
        clear(merged, count)
        count = 0
        high = windows.first[i]
    for c in range(high, windows.last[i]):
        count = merge(merged, count, nodes.label[c], value[c], c, take_max)
    return count


@compiled
def clear(merged, count):
    for k in range(count):
        merged.occurs[merged.labels[k]] = False


@compiled
def merge(merged, count, y, value, c, take_max):
    if not merged.occurs[y]:
        merged.occurs[y] = True
        merged.labels[count] = y
        merged.top[y] = value
        merged.mass[y] = 1.0 if value > -np.inf else 0.0
        merged.winner[y] = c
        merged.runner_up[c] = -1
        return count + 1
    if value > merged.top[y]:
        if take_max:
            merged.runner_up[c] = merged.winner[y]
            merged.winner[y] = c
        else:
            merged.mass[y] = merged.mass[y] * exp(merged.top[y] - value) + 1.0
        merged.top[y] = value
    elif not take_max and value > -np.inf:
        merged.mass[y] += exp(value - merged.top[y])
    return count


@compiled
def combine(merged, count, transition, y, opens, take_max, value_of):
    """⊕ of the merged values with their transitions into label y (-1: the end), and the node it came from.

    The start, whose value is 0, is a way in where this `opens`: where nothing stands before that cannot be skipped.
    """
    if count == 0:
        return 0.0, -1
    best = 0.0 if opens else -np.inf
    for k in range(count):
        previous = merged.labels[k]
        value = merged.top[previous] + (transition[previous, y] if y >= 0 else transition.dtype.type(0))
        best = value if value > best else best
    if best == -np.inf:
        return best, -1
    if take_max:
        return best, first_attaining(best, merged, count, transition, y, opens, value_of)
    total = exp(-best) if opens else 0.0
    for k in range(count):
        previous = merged.labels[k]
        value = merged.top[previous] + (transition[previous, y] if y >= 0 else 0.0)
        total += merged.mass[previous] * exp(value - best)
    return best + np.log(total), -1


@compiled
def first_attaining(best, merged, count, transition, y, opens, value_of):
    """The first node in (end, start, label) order through which the maximum is attained; the start comes before all.

    A label's winner has the largest value; one that it replaced may yet come out equal once the transition is added and
    rounded, and then goes before it.
    """
    if opens and best == 0:
        return -1
    first = -1
    for k in range(count):
        previous = merged.labels[k]
        onward = transition[previous, y] if y >= 0 else transition.dtype.type(0)
        if merged.top[previous] + onward == best:
            c = merged.winner[previous]
            while merged.runner_up[c] >= 0 and value_of[merged.runner_up[c]] + onward == best:
                c = merged.runner_up[c]
            first = c if first < 0 or c < first else first
    return first


@compiled
def mirror(nodes, num_nodes, length, windows, mirrored):
    """The same nodes for the sweep from right to left."""
    for k in range(num_nodes):
        c = windows.by_begin[num_nodes - 1 - k]
        mirrored.begin[k] = length - nodes.finish[c]
        mirrored.finish[k] = length - nodes.begin[c]
        mirrored.label[k] = nodes.label[c]
        mirrored.score[k] = nodes.score[c]
        mirrored.block[k] = -1 if nodes.block[c] < 0 else mirrored.begin[k]


@compiled
def add_pairs(nodes, length, transition, log_partition, windows, value, onward, left, right, pairs):
    """pairs[y', y] += P(y' is followed by y), summed over the positions where a window meets the nodes that begin.

    `onward[c]` is the sum over all that can follow, from node c on, its own score included.
    """
    low = 0
    high = 0
    count = 0
    for i in range(length):
        if windows.begins[i] == windows.begins[i + 1] or windows.last[i] == windows.first[i]:
            continue
        count = slide(nodes, windows, i, low, high, value, left, count, False)
        low, high = windows.first[i], windows.last[i]
        right_count = 0
        for k in range(windows.begins[i], windows.begins[i + 1]):
            c = windows.by_begin[k]
            right_count = merge(right, right_count, nodes.label[c], onward[c], c, False)
        for k in range(right_count):
            y = right.labels[k]
            for j in range(count):
                previous = left.labels[j]
                top = left.top[previous] + transition[previous, y] + right.top[y]
                if top > -np.inf:
                    pairs[previous, y] += left.mass[previous] * right.mass[y] * exp(top - log_partition)
        clear(right, right_count)
    clear(left, count)


# ---- All sentences ------------------------------------------------------------------------------------------------


@compiled
def longest(lengths):
    most = 0
    for length in lengths:
        most = max(most, length)
    return most


@compiled
def most_in_a_sentence(offsets, first, last):
    most = 0
    for b in range(first, last):
        most = max(most, offsets[b + 1] - offsets[b])
    return most


@allocating
def sum_sentences(first, last, offsets, start, end, label, scores, transition, lengths, *options_and_sums):
    num_tokens, num_labels = longest(lengths), transition.shape[0]
    most = most_in_a_sentence(offsets, first, last)
    transposed = np.ascontiguousarray(transition.T)
    space = new_workspace(num_tokens, most, num_labels, transposed)
    mirrored_space = new_workspace(num_tokens, most, num_labels, transposed)
    onward = np.empty(most)
    whole = np.empty((4, most), np.int64)
    mirrored = Nodes(whole[0], whole[1], whole[2], np.empty(most, scores.dtype), whole[3])
    model = (offsets, start, end, label, scores, transition, lengths)
    _both_ways(first, last, model, transposed, space, mirrored, mirrored_space, onward, *options_and_sums)


@compiled
def _both_ways(
    first, last, model, transposed, space, mirrored, mirrored_space, onward,
    block, log_partition, marginals, counts, with_marginals,
):  # fmt: skip
    offsets, start, end, label, scores, transition, lengths = model
    for b in range(first, last):
        low, high, length = offsets[b], offsets[b + 1], lengths[b]
        n = high - low
        nodes = Nodes(start[low:high], end[low:high], label[low:high], scores[low:high], block[low:high])
        total, _ = sweep(nodes, n, length, transition, False, space)
        log_partition[b] = total
        if not with_marginals or total == -np.inf:
            continue
        mirror(nodes, n, length, space.windows, mirrored)
        sweep(mirrored, n, length, transposed, False, mirrored_space)
        for k in range(n):
            c = space.windows.by_begin[n - 1 - k]
            onward[c] = mirrored_space.value[k]
            if space.value[c] > -np.inf and onward[c] > -np.inf:
                marginals[low + c] = exp(space.value[c] + (onward[c] - nodes.score[c]) - total)
        left, right = space.merged, mirrored_space.merged
        add_pairs(nodes, length, transition, total, space.windows, space.value, onward, left, right, counts[b])


@allocating
def _filtered_best(first, last, offsets, start, end, label, scores, transition, lengths, *options_and_best):
    most = most_in_a_sentence(offsets, first, last)
    space = new_workspace(longest(lengths), most, transition.shape[0], scores)
    model = (offsets, start, end, label, scores, transition, lengths)
    _best_paths(first, last, model, space, *options_and_best)


@compiled
def _best_paths(first, last, model, space, block, max_score, is_chosen):
    offsets, start, end, label, scores, transition, lengths = model
    for b in range(first, last):
        low, high = offsets[b], offsets[b + 1]
        nodes = Nodes(start[low:high], end[low:high], label[low:high], scores[low:high], block[low:high])
        max_score[b], c = sweep(nodes, high - low, lengths[b], transition, True, space)
        while c >= 0:
            is_chosen[low + c] = True
            c = space.origin[c]
