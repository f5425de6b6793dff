"""What the models over filtered candidates share: their gold, and a look at their graphs.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.config import ModelConfig
from spansieve.crf import Candidates, Distribution, FilteredSemiMarkov, Gold, NestedSegments, given
from spansieve.crf.candidates import candidate_mask, candidates_of_mask, span_ends
from spansieve.crf.flat_segments import FlatSegments, covered_tokens
from spansieve.crf.kernels import FilterLimits
from spansieve.crf.losses import IGNORED, labels_of_spans, span_cross_entropy, with_margin
from spansieve.decoding.decoders import DecoderSettings, Kind
from spansieve.models.head import Head, HeadGold, Ranges, SoftTargets, Unknown, dense_shape, known_of
from spansieve.segments import LabelSet, Segment


class GraphCounts(NamedTuple):
    sentences: int = 0
    nodes: int = 0  # |V|
    edges: int = 0  # |E|
    gold: int = 0
    gold_kept: int = 0  # gold segments that are candidates


class FilteredHead(Head):
    """A head whose structures are paths through candidates, and whose filter learns from the labels of all spans."""

    kind: ClassVar[Kind] = "filtered"
    takes_padded_gold = True
    skip: bool = False  # whether a path may leave candidates out
    transition: Tensor  # between the labels of neighbours, (Y, Y)
    margin: float = 0.0  # by which the local score of null is lowered before the filter sees it
    # Whether the filter alone decides on a span's label: a second one would never be chosen, or would tie.
    filter_labels: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.beta, self.filtering_weight = config.beta, config.filtering_weight
        labels_per_span = 1 if self.filter_labels else config.labels_per_span
        self.limits = FilterLimits(labels_per_span, config.budget).within(len(labels))
        self.is_loss_filtered = config.global_loss == "filtered"

    @property
    def decoder_settings(self) -> DecoderSettings:
        limits = self.limits._asdict()
        return DecoderSettings(self.kind, self.max_width, skip=self.skip, margin=self.margin, **limits)

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int], unknown: Unknown = None) -> HeadGold:
        shape = dense_shape(lengths, self.max_width, len(self.labels))
        structures = Gold.from_segments(segments, shape, lengths)
        segments_known = structures.segments
        assert segments_known is not None
        labels = labels_of_spans(structures, torch.as_tensor(lengths, dtype=torch.int64))
        if unknown is None:
            return HeadGold(structures, labels)
        is_free = spans_within(unknown_tokens(unknown, shape[1]), shape[2])
        is_touched = spans_touching(segments_known, shape[1], shape[2])
        # The filter learns from the spans of which something is known: where one is, no other is, unless it nests.
        is_ignored = torch.from_numpy(is_free if self.kind == "nested" else is_free & ~is_touched) & (labels == 0)
        return HeadGold(
            structures,
            labels.masked_fill(is_ignored, IGNORED),
            known=tuple(map(known_of, segments, unknown, lengths)),
            is_kept=torch.from_numpy(is_free | is_touched),
        )

    def log_prob(
        self, local_scores: Tensor, global_scores: Tensor, transition: Tensor, lengths: Tensor, gold: HeadGold
    ) -> Tensor:
        """log P(gold) or, where gold is known in part, of all that agrees with it, (B,). Both training rules hold."""
        structures = gold.structures
        local_scores, limits = self.for_loss(local_scores)
        if gold.known is None:
            inputs = (local_scores, global_scores, transition, lengths, structures)
            graph = FilteredSemiMarkov.from_scores(*inputs, skip=self.skip, **limits._asdict())
            return graph.log_prob(structures)
        mask = candidate_mask(local_scores.detach(), lengths, structures, skip=True, limits=limits)
        if not self.skip:  # what is clear of gold, and known to be none, would leave no path that agrees
            assert gold.is_kept is not None
            mask &= gold.is_kept[..., None]
        candidates = Candidates(*candidates_of_mask(mask), lengths, *mask.shape[1:3])
        paths = FilteredSemiMarkov(candidates, global_scores, transition, self.skip)
        return given(paths, gold.known, remove=False).log_partition - paths.log_partition

    def for_loss(self, local_scores: Tensor) -> tuple[Tensor, FilterLimits]:
        """The filter of the graph that the global loss is over: every label of every span passes an unfiltered one."""
        if self.is_loss_filtered:
            return local_scores, self.limits
        null = torch.full_like(local_scores[..., :1], -torch.inf)
        return torch.cat((null, local_scores[..., 1:].detach()), -1), FilterLimits(len(self.labels))

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, global_scores = scores
        inputs = (local_scores, global_scores, self.transition, lengths)
        return FilteredSemiMarkov.from_scores(*inputs, skip=self.skip, **self.limits._asdict())

    def local_log_probabilities(self, scores: tuple[Tensor, ...]) -> Tensor:
        """Compute log P(label of this span) by the filter alone, as it was learned, (B, L, K, Y), from the scores."""
        return with_margin(scores[0], -self.margin).log_softmax(-1)

    def filtering_loss(self, local_scores: Tensor, gold: HeadGold) -> Tensor:
        return self.filtering_weight * span_cross_entropy(local_scores, gold.labels(), self.beta)

    def check_teacher(self, teacher: Head) -> None:
        super().check_teacher(teacher)
        if type(self).distillation_losses is Head.distillation_losses:  # which is over what the filter happens to keep
            raise ValueError(
                f"model.head must be one that can be distilled, such as fsemicrf, got {type(self).__name__}"
            )

    def soft_filtering_loss(self, local_scores: Tensor, lengths: Tensor, targets: SoftTargets) -> Tensor:
        """The filtering loss where a span has each label with a probability, and null with what is left of 1."""
        is_span = span_ends(local_scores) <= lengths[:, None, None]
        as_null = span_cross_entropy(local_scores, torch.where(is_span, 0, IGNORED), self.beta)
        span, label = targets.part // len(self.labels), targets.part % len(self.labels)
        log_p = local_scores.flatten(0, 2).index_select(0, span).log_softmax(-1)
        surplus = self.beta * log_p[:, 0] - log_p.gather(1, label[:, None])[:, 0]  # of the label's loss over null's
        return self.filtering_weight * as_null.index_add(0, targets.sentence, targets.probability * surplus)

    def soft_log_partition(
        self, local_scores: Tensor, global_scores: Tensor, transition: Tensor, lengths: Tensor, targets: SoftTargets
    ) -> Tensor:
        """Compute log Z of the paths that the global loss is over, (B,), through all that the targets have, too."""
        local_scores, limits = self.for_loss(local_scores)
        if not self.is_loss_filtered:
            inputs = (local_scores, global_scores, transition, lengths)
            return FilteredSemiMarkov.from_scores(*inputs, skip=True, **limits._asdict()).log_partition
        mask = candidate_mask(local_scores.detach(), lengths, None, True, limits)
        mask.view(-1).index_fill_(0, targets.part, True)
        candidates = Candidates(*candidates_of_mask(mask), lengths, *mask.shape[1:3])
        return FilteredSemiMarkov(candidates, global_scores, transition, skip=True).log_partition

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        return structure  # a path has no null segments

    def graph_counts(
        self, scores: tuple[Tensor, ...], lengths: Tensor, gold: Sequence[Sequence[Segment]]
    ) -> GraphCounts:
        """Count how large the graphs of a batch are, and how much of gold the filter left in them. Laminar sets are no
        paths, and have no edges to count."""
        distribution = self.distribution_of(scores, lengths)
        assert isinstance(distribution, (FilteredSemiMarkov, NestedSegments))
        candidates = distribution.candidates
        kept = [set(segments) for segments in candidates.segments()]
        gold_kept = sum(segment in among for among, segments in zip(kept, gold) for segment in segments)
        return GraphCounts(
            sentences=len(gold),
            nodes=len(candidates),
            edges=int(candidates.num_edges.sum()) if isinstance(distribution, FilteredSemiMarkov) else 0,
            gold=sum(map(len, gold)),
            gold_kept=gold_kept,
        )


def unknown_tokens(unknown: Sequence[Ranges], num_tokens: int) -> np.ndarray:
    """Which tokens nothing is known of, (B, L)."""
    is_unknown = np.zeros((len(unknown), num_tokens), bool)
    for b, ranges in enumerate(unknown):
        for start, end in ranges:
            is_unknown[b, start:end] = True
    return is_unknown


def spans_within(is_inside: np.ndarray, max_width: int) -> np.ndarray:
    """Which spans have all of their tokens inside, (B, L, K), given which tokens are, (B, L)."""
    num_sentences, num_tokens = is_inside.shape
    count = np.zeros((num_sentences, num_tokens + 1), np.int64)
    np.cumsum(is_inside, axis=1, out=count[:, 1:])
    start, width = np.arange(num_tokens)[:, None], np.arange(1, max_width + 1)
    return count[:, np.minimum(start + width, num_tokens)] - count[:, start] == width


def spans_touching(segments: FlatSegments, num_tokens: int, max_width: int) -> np.ndarray:
    """Which spans share a token with a segment, (B, L, K)."""
    covered = covered_tokens(segments, num_tokens)
    start, width = np.arange(num_tokens)[:, None], np.arange(1, max_width + 1)
    return covered[:, np.minimum(start + width, num_tokens)] > covered[:, start]
