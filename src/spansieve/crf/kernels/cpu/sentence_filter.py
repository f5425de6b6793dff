"""The filter over the spans of one sentence: which labels stand above null, which of them are kept, and in what order.

`row` are the local scores of the sentence, flat: (L·K·Y,). `spans` are (3, N): start, end and label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.jit import compiled
from spansieve.crf.kernels.cpu.simd import any_above_2, any_above_4, any_above_8

NOT_A_NUMBER = -2  # stands for the number of candidates when a score is none


class FilterWorkspace(NamedTuple):
    """The workspace of the filter for one sentence."""

    hits: np.ndarray  # (L·K,)
    spans: np.ndarray  # (3, N): start, end and label
    sorted: np.ndarray  # (3, N)
    covered: np.ndarray  # (L + 1,)
    tally: np.ndarray
    no_block: np.ndarray  # (N,): -1 for each candidate, with `skip`
    above: np.ndarray  # (2, N): how far labels stand above null, with a budget


@compiled
def filter_sentence(b, shape, row, length, offsets, gold, has_gold, skip, limits, space):
    """The candidates of one sentence, in order, into `space.sorted`; how many, or NOT_A_NUMBER."""
    _, max_width, num_labels = shape
    labels_per_span, budget = limits
    num_hits = _scan(row, length, max_width, num_labels, space.hits)
    n = _label_hits(row, space.hits, num_hits, shape, labels_per_span, space.spans)
    if n < 0:
        return n
    if n > budget:
        n = _within_budget(row, shape, space.spans, n, budget, space.above[0], space.above[1])
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
        for y in range(1, num_labels):
            if row[at + y] > row[at] and rank_of_label(row, at, y, num_labels) < labels_per_span:
                spans[0, n], spans[1, n], spans[2, n] = start, end, y
                n += 1
    return n


@compiled
def _within_budget(row, shape, spans, n, budget, above, sorted_above):
    """Keep the best `budget` of the first n columns of `spans` (start, end, label), in order; how many there are.

    Of equals the first in order are kept. O(n) on average. `above` and `sorted_above` are workspace for n numbers each.
    """
    if budget == 0:
        return 0
    _, max_width, num_labels = shape
    for c in range(n):
        at = (spans[0, c] * max_width + spans[1, c] - spans[0, c] - 1) * num_labels
        above[c] = sorted_above[c] = row[at + spans[2, c]] - row[at]
    least = _descending(sorted_above, n, budget - 1)
    vacant = budget  # for candidates that stand as far above null as the last to be kept
    for c in range(n):
        vacant -= above[c] > least
    kept = 0
    for c in range(n):
        if above[c] > least or (above[c] == least and vacant > 0):
            vacant -= above[c] == least
            kept = _keep(spans, c, kept)
    return kept


@compiled
def _descending(values, n, k):
    """The number at index k of the first n values in descending order, by Hoare's selection; they are moved about."""
    low = 0
    high = n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return values[k]
    return values[k]


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
