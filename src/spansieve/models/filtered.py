"""What the models over filtered candidates share: their gold, and a look at their graphs; and those of them that have
no scores of label pairs.

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
from spansieve.crf.candidates import candidate_mask, span_ends
from spansieve.crf.flat_segments import flat_segments
from spansieve.crf.kernels import FilterLimits
from spansieve.crf.losses import IGNORED, labels_of_spans, span_cross_entropy, with_margin
from spansieve.decoding.decoders import Kind
from spansieve.models.head import Head, HeadGold, SoftTargets, Unknown, dense_shape, known_of
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
    transition: Tensor  # between the labels of neighbours, (Y, Y)
    # Whether the filter alone decides on a span's label: a second one would never be chosen, or would tie.
    filter_labels: ClassVar[bool] = False

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.beta, self.filtering_weight = config.beta, config.filtering_weight
        labels_per_span = 1 if self.filter_labels else config.labels_per_span
        self.limits = FilterLimits(labels_per_span, config.budget).within(len(labels))
        self.is_loss_filtered = config.global_loss == "filtered"

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int], unknown: Unknown = None) -> HeadGold:
        shape = dense_shape(lengths, self.max_width, len(self.labels))
        structures = Gold.from_segments(segments, shape, lengths)
        segments_known = structures.segments
        assert segments_known is not None
        labels = labels_of_spans(structures, torch.as_tensor(lengths, dtype=torch.int64))
        if unknown is None:
            return HeadGold(structures, labels)
        ranges = flat_segments([[(*span, 1) for span in spans] for spans in unknown])
        is_free = ranges.covered_in_spans(*shape[1:3]) == np.arange(1, shape[2] + 1)
        is_touched = segments_known.covered_in_spans(*shape[1:3]) > 0
        # The filter learns from the spans of which something is known: where one is, no other is, unless it nests.
        is_ignored = torch.from_numpy(is_free if self.kind == "nested" else is_free & ~is_touched) & (labels == 0)
        return HeadGold(
            structures,
            labels.masked_fill(is_ignored, IGNORED),
            known=tuple(map(known_of, segments, unknown, lengths)),
            is_kept=torch.from_numpy(is_free | is_touched),
        )

    def log_prob(self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, gold: HeadGold) -> Tensor:
        """log P(gold) or, where gold is known in part, of all that agrees with it, (B,). Both training rules hold."""
        structures = gold.structures
        local_scores, limits = self.for_loss(local_scores)
        if gold.known is None:
            inputs = (local_scores, global_scores, self.transition, lengths, structures)
            graph = FilteredSemiMarkov.from_scores(*inputs, skip=self.skip, **limits._asdict())
            return graph.log_prob(structures)
        mask = candidate_mask(local_scores.detach(), lengths, structures, skip=True, limits=limits)
        if not self.skip:  # what is clear of gold, and known to be none, would leave no path that agrees
            assert gold.is_kept is not None
            mask &= gold.is_kept[..., None]
        paths = FilteredSemiMarkov(Candidates.of_mask(mask, lengths), global_scores, self.transition, self.skip)
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
        self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, targets: SoftTargets
    ) -> Tensor:
        """Compute log Z of the paths that the global loss is over, (B,), through all that the targets have, too."""
        local_scores, limits = self.for_loss(local_scores)
        if not self.is_loss_filtered:
            inputs = (local_scores, global_scores, self.transition, lengths)
            return FilteredSemiMarkov.from_scores(*inputs, skip=True, **limits._asdict()).log_partition
        mask = candidate_mask(local_scores.detach(), lengths, None, True, limits)
        mask.view(-1).index_fill_(0, targets.part, True)
        candidates = Candidates.of_mask(mask, lengths)
        return FilteredSemiMarkov(candidates, global_scores, self.transition, skip=True).log_partition

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


# ---- Without label transitions: the filter alone, and global span selection -----------------------------------------


class WithoutTransitions(FilteredHead):
    """A filtered head whose filter alone decides on labels, and whose paths have no scores of label pairs."""

    filter_labels = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.register_buffer("transition", torch.zeros(len(labels), len(labels)), persistent=False)


class FilterOnly(WithoutTransitions):
    """The filter without the global model. A candidate's score is how far its label stands above null: all that the
    classifier has learned of it."""

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.scorer = self.scorer_of(config, size, len(labels))

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        return {"filtering": self.filtering_loss(self.scores(vectors)[0], gold)}

    def distillation_losses(self, vectors: Tensor, lengths: Tensor, targets: SoftTargets) -> dict[str, Tensor]:
        return {"filtering": self.soft_filtering_loss(self.scores(vectors)[0], lengths, targets)}

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, and how far they stand above null, (B, L, K, Y) each."""
        local_scores = self.scorer.dense(self.scorer(vectors)).float()
        return local_scores, local_scores - local_scores[..., :1]


class NestedFilterOnly(FilterOnly):
    """The local classifier alone on nested gold: all that it keeps, less what crosses something better."""

    kind = "nested"

    def decoder_arrays(self) -> dict[str, Tensor]:
        return {}  # there is no score of what lies within what

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        local_scores, above_null = scores
        return NestedSegments.from_scores(local_scores, above_null, None, lengths, **self.limits._asdict())


class GlobalSelection(WithoutTransitions):
    """Global span selection (Zaratiana et al. 2022): the filter gives a span its label, and the global model decides
    which spans there are. A span has one label at a time, whatever `labels_per_span` is: its labels have one score, and
    the best path could not choose among them."""

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.skip = config.skip
        # The local scores, and one more: of the span as such.
        self.scorer = self.scorer_of(config, size, len(labels) + 1)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        local_scores, span_scores = self.scores(vectors)
        labelled = self._labelled_as_gold(local_scores, gold)
        return {
            "filtering": self.filtering_loss(local_scores, gold),
            "segmentation": -self.log_prob(labelled, span_scores, lengths, gold),
        }

    def for_loss(self, local_scores: Tensor) -> tuple[Tensor, FilterLimits]:
        """The filter of the graph that the global loss is over: every span passes an unfiltered one, with one label."""
        local_scores, limits = super().for_loss(local_scores)
        return local_scores, limits._replace(labels_per_span=1)

    def _labelled_as_gold(self, local_scores: Tensor, gold: HeadGold) -> Tensor:
        """Give the best score of a gold span to its gold label, so that the filter keeps it with no other."""
        local_scores, label = local_scores.detach(), gold.labels()[..., None]  # (B, L, K, 1)
        of_names = local_scores[..., 1:]
        is_other = torch.arange(1, len(self.labels), device=label.device) != label
        as_gold = of_names.amax(-1, keepdim=True).masked_fill(is_other, -torch.inf)
        return torch.cat((local_scores[..., :1], torch.where(label > 0, as_gold, of_names)), -1)

    def scores(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The local scores, and those of the span as such, the same for each of its labels, (B, L, K, Y) each."""
        scores = self.scorer.dense(self.scorer(vectors)).float()
        local_scores, span_score = scores[..., :-1], scores[..., -1:]
        return local_scores, span_score.expand_as(local_scores)
