"""The best few of a sentence's candidates, by how far their labels stand above null."""

from __future__ import annotations

from spansieve.crf.kernels.cpu.jit import compiled

NO_BUDGET = 1 << 62


@compiled
def within_budget(row, shape, spans, n, budget, above, sorted_above):
    """Keep the best `budget` of the first n columns of `spans` (start, end, label), in order; how many there are.

    `row` are the local scores of the sentence. Of equals the first in order are kept. O(n) on average. `above` and
    `sorted_above` are workspace for n numbers each.
    """
    if n <= budget:
        return n
    if budget == 0:
        return 0
    _, max_width, num_labels = shape
    for c in range(n):
        at = (spans[0, c] * max_width + spans[1, c] - spans[0, c] - 1) * num_labels
        above[c] = sorted_above[c] = row[at + spans[2, c]] - row[at]
    least = _descending(sorted_above, n, budget - 1)
    room = budget
    for c in range(n):
        room -= above[c] > least
    kept = 0
    for c in range(n):
        if above[c] > least or (above[c] == least and room > 0):
            room -= above[c] == least
            for k in range(3):
                spans[k, kept] = spans[k, c]
            kept += 1
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
def overlapping(spans, n, covered):
    """Keep those of the first n columns that share a token with what is covered; how many there are."""
    kept = 0
    for c in range(n):
        if covered[spans[1, c]] > covered[spans[0, c]]:
            for k in range(3):
                spans[k, kept] = spans[k, c]
            kept += 1
    return kept
