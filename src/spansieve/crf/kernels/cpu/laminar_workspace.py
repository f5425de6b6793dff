"""The workspace of the sweep over the laminar sets of one sentence, and what it works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.filtered_sweeps import sort_by_begin
from spansieve.crf.kernels.cpu.jit import allocating, compiled


class Spans(NamedTuple):
    """The spans that have candidates, sorted by (end, start)."""

    start: np.ndarray  # (N,)
    first: np.ndarray  # (N + 1,): the candidates on span s are first[s] … first[s+1] - 1
    ending: np.ndarray  # (L + 2,): the spans that end at j are ending[j] … ending[j+1] - 1
    depth: np.ndarray  # (L,): in how many required segments each token is
    content: np.ndarray  # (Y,): in how many of them is what lies right below a container with this label


class Rows(NamedTuple):
    """One row for each start i and label p of a container: its values for [i, i), [i, i + 1) … [i, reach)."""

    of_start: np.ndarray  # (L + 1,): the rows of start i are of_start[i] … of_start[i+1] - 1
    label: np.ndarray  # (N,)
    reach: np.ndarray  # (N,)
    base: np.ndarray  # (N,): where the row's values begin
    of_node: np.ndarray  # (N,): the row of what is within each candidate


class Workspace(NamedTuple):
    """The workspace for one sentence: values, and the gradients that reach them."""

    spans: Spans
    rows: Rows
    inside: np.ndarray  # ⊕ over the laminar sets in [i, j), row by row
    within: np.ndarray  # the same, without a segment on [i, j) itself
    whole: np.ndarray  # (L + 1,): ⊕ over the laminar sets before position j
    value: np.ndarray  # (N,): a candidate's score with all that is within it
    into: np.ndarray  # (N, Y): ⊕ of the values on a span with their transitions from each label
    to_inside: np.ndarray
    to_whole: np.ndarray
    to_into: np.ndarray
    begins: np.ndarray  # (L + 3,)
    by_start: np.ndarray  # (N,): the candidates that start at i are by_start[begins[i]] … by_start[begins[i+1] - 1]
    row_of_label: np.ndarray  # (Y,): at the present start
    stack: np.ndarray  # (N,): candidates of the best set whose content is not traced yet


@allocating
def new_workspace(num_tokens, num_nodes, num_labels, num_slots, content, like):
    """Allocate the workspace. `like` gives the type of the values: the scores' for maxima, float64 for sums."""
    spans = Spans(
        np.empty(num_nodes, np.int64),
        np.empty(num_nodes + 1, np.int64),
        np.empty(num_tokens + 2, np.int64),
        np.empty(num_tokens, np.int64),
        content,
    )
    of_node = np.empty((4, num_nodes), np.int64)
    rows = Rows(np.empty(num_tokens + 1, np.int64), of_node[0], of_node[1], of_node[2], of_node[3])
    slots, whole = np.empty((3, num_slots), like.dtype), np.empty((2, num_tokens + 1), like.dtype)
    into = np.empty((2, num_nodes, num_labels), like.dtype)
    return Workspace(
        spans,
        rows,
        slots[0],
        slots[1],
        whole[0],
        np.empty(num_nodes, like.dtype),
        into[0],
        slots[2],
        whole[1],
        into[1],
        np.empty(num_tokens + 3, np.int64),
        np.empty(num_nodes, np.int64),
        np.empty(num_labels, np.int64),
        np.empty(num_nodes, np.int64),
    )


@compiled
def most_slots(first, last, offsets, start, end, lengths, num_labels):
    """How many slots the rows of any one of the sentences need: a row is as wide as one of its containers, which start
    anywhere and have any label."""
    most = 0
    for b in range(first, last):
        widest = 0
        slots = 0
        for c in range(offsets[b], offsets[b + 1]):
            width = end[c] - start[c]
            widest = max(widest, width)
            slots += width + 1
        most = max(most, min(slots, lengths[b] * num_labels * (widest + 1)))
    return most


@compiled
def prepare(length, start, end, label, depth, space):
    """Find the spans and the rows of a sentence."""
    _find_spans(length, start, end, depth, space.spans)
    _find_rows(length, start, end, label, space)


@compiled
def _find_spans(length, start, end, depth, spans):
    """Find the distinct spans of candidates sorted by (end, start)."""
    for i in range(length):
        spans.depth[i] = depth[i]
    count = 0
    j = 0
    for c in range(start.size):
        if c > 0 and start[c] == start[c - 1] and end[c] == end[c - 1]:
            continue
        while j <= end[c]:
            spans.ending[j] = count
            j += 1
        spans.start[count] = start[c]
        spans.first[count] = c
        count += 1
    spans.first[count] = start.size
    while j <= length + 1:
        spans.ending[j] = count
        j += 1


@compiled
def _find_rows(length, start, end, label, space):
    """Find the rows of a sentence. O(N + L + Y)."""
    rows, begins, by_start = space.rows, space.begins, space.by_start
    sort_by_begin(start, start.size, length, begins, by_start)
    space.row_of_label[:] = -1
    count = 0
    slots = 0
    for i in range(length):
        rows.of_start[i] = count
        for k in range(begins[i], begins[i + 1]):
            c = by_start[k]
            r = space.row_of_label[label[c]]
            if r < rows.of_start[i]:  # of a start before this one
                r = count
                space.row_of_label[label[c]] = r
                rows.label[r] = label[c]
                rows.reach[r] = i
                count += 1
            rows.reach[r] = max(rows.reach[r], end[c])
            rows.of_node[c] = r
        for r in range(rows.of_start[i], count):
            rows.base[r] = slots
            slots += rows.reach[r] - i + 1
    rows.of_start[length] = count
