"""What the models over filtered candidates share: their gold, and a look at their graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, FilteredSemiMarkov, Gold, NestedSegments
from spansieve.labels import LabelSet
from spansieve.models.head import Head, HeadGold, dense_shape, labels_of_spans
from spansieve.segments import Segment


class GraphCounts(NamedTuple):
    sentences: int = 0
    nodes: int = 0  # |V|
    edges: int = 0  # |E|
    gold: int = 0
    gold_kept: int = 0  # gold segments that are candidates

    def plus(self, other: GraphCounts) -> GraphCounts:
        return GraphCounts(*map(sum, zip(self, other)))


class FilteredHead(Head):
    """A head whose structures are paths through candidates, and whose filter learns from the labels of all spans."""

    def __init__(self, config: ModelConfig, labels: LabelSet, max_width: int) -> None:
        super().__init__(labels, max_width)
        self.beta = config.beta

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int]) -> HeadGold:
        shape = dense_shape(lengths, self.max_width, len(self.labels))
        structures = Gold.from_segments(segments, shape, lengths)
        assert structures.segments is not None
        return HeadGold(structures, labels_of_spans(structures.segments, shape, lengths))

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        return structure  # a path has no null segments

    def graph_counts(self, distribution: Distribution, gold: Sequence[Sequence[Segment]]) -> GraphCounts:
        """How large the graphs of a batch are, and how much of gold the filter left in them. Laminar sets are no paths,
        and have no edges to count."""
        assert isinstance(distribution, (FilteredSemiMarkov, NestedSegments))
        candidates = distribution.candidates
        kept = [set(segments) for segments in candidates.segments()]
        found = sum(segment in among for among, segments in zip(kept, gold) for segment in segments)
        return GraphCounts(
            sentences=len(gold),
            nodes=len(candidates),
            edges=int(candidates.num_edges.sum()) if isinstance(distribution, FilteredSemiMarkov) else 0,
            gold=sum(map(len, gold)),
            gold_kept=found,
        )
