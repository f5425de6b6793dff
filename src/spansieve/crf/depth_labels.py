"""Labels with their depth in required segments, for laminar sets that must have those: in NumPy.

Axes: B sentences, L tokens, Y labels, N candidates.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.kernels import RequiredDepths


class DepthLabels:
    """A label becomes one for each depth in required segments: how deep the segment lies, and how deep what it
    contains: label · place · content. A segment may then be right below another only where that one's content is as
    deep as it is itself, or a required segment would be missing between the two; and likewise a token that is in no
    further segment.
    """

    def __init__(
        self, nodes: FlatSegments, is_required: np.ndarray, label: np.ndarray, num_labels: int, num_tokens: int
    ) -> None:
        sentence = nodes.sentence
        change = np.zeros((len(nodes.offsets) - 1, num_tokens + 1), np.int64)
        np.add.at(change, (sentence[is_required], nodes.start[is_required]), 1)
        np.add.at(change, (sentence[is_required], nodes.end[is_required]), -1)
        depth = np.ascontiguousarray(change.cumsum(1)[:, :-1])  # (B, L): nothing crosses, so tokens may be counted
        place = _depth_of_nodes(nodes, is_required)
        num_places = 1 + int(place.max(initial=0))
        self.label_of, rest = np.divmod(np.arange(num_labels * num_places * 2), num_places * 2)
        self._place, goes_deeper = np.divmod(rest, 2)
        self.of_node = (label * num_places + place) * 2 + is_required  # (N,)
        self.required = RequiredDepths(depth, self._place + goes_deeper)

    @property
    def can_meet(self) -> np.ndarray:
        """Which second label may be right below which first, a mask."""
        return self.required.content[:, None] == self._place[None]


def _depth_of_nodes(nodes: FlatSegments, is_required: np.ndarray) -> np.ndarray:
    """(N,): in how many required segments each candidate strictly lies."""
    depth = np.zeros(len(nodes.start), np.int64)
    sentence = nodes.sentence
    for k in np.flatnonzero(is_required):
        here = slice(nodes.offsets[sentence[k]], nodes.offsets[sentence[k] + 1])
        start, end = nodes.start[here], nodes.end[here]
        is_narrower = end - start < nodes.end[k] - nodes.start[k]
        depth[here] += (nodes.start[k] <= start) & (end <= nodes.end[k]) & is_narrower
    return depth
