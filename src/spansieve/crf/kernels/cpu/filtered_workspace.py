"""The workspace of the sweep over the candidates of one sentence, and what it works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.jit import allocating, compiled


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
