"""The filtered semi-Markov CRF: a distribution over the paths through the graph of candidates.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import (
    CandidateDistribution,
    Candidates,
    candidate_mask,
    candidates_of_mask,
    checked_limits,
)
from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import (
    FlatSegments,
    check_disjoint,
    dense_index,
    flat_segments,
    in_order,
    named_at,
    segments_by_sentence,
)
from spansieve.crf.gold import FlatParts, Gold, Parts, Triples, entity_gold
from spansieve.crf.kernels import FilterLimits, Sums, reference
from spansieve.crf.kernels.dispatch import can, kernel_for
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment


class FilteredSemiMarkov(CandidateDistribution):
    """A distribution over the maximal sets of non-overlapping candidates of each sentence; with `skip`, over all sets.

    `skip` may also be a mask (N,) of the candidates that may be skipped: a set is then a path when none of the others
    can be added to it. In the paper (Zaratiana et al., Filtered Semi-Markov CRF, Findings of EMNLP 2023) Algorithm 1
    is `log_partition` and Algorithm 2 is `mode`.

    A structure is a tuple of Segments, none of them null; what they leave uncovered is null. `scores[c]` is the global
    score of candidate c; or scores are those of every span, (B, L, K, Y), and so are then `marginals`, 0 where nothing
    is kept. Time O(N + P·K·Y + P·Y²) for N candidates with P distinct starts, however many the edges.
    """

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor,
        transition: Tensor,
        skip: bool | Tensor = False,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        if isinstance(skip, Tensor) and (skip.shape != (len(candidates),) or skip.dtype is not torch.bool):
            wanted = f"a mask of shape ({len(candidates)},), one per candidate"
            raise ValueError(f"skip must be True, False or {wanted}, got {skip.dtype} of shape {tuple(skip.shape)}")
        self.skip = skip
        super().__init__(candidates, scores, transition, kernel)

    @classmethod
    def from_scores(
        cls,
        local_scores: Tensor,
        global_scores: Tensor,
        transition: Tensor,
        lengths: Tensor | Sequence[int],
        gold: Triples | Gold | None = None,
        skip: bool = False,
        *,
        labels_per_span: int = 1,
        budget: int | None = None,
        kernel: ModuleType | None = None,
    ) -> FilteredSemiMarkov:
        """Filter by the local scores, then score what is kept by the global ones, both dense: (B, L, K, Y).

        No gradient reaches the local scores, which say only what is kept: they learn by `filtering_loss`, and
        `filtered_losses` computes both losses. `labels_per_span` and `budget` are the filter's (see
        `Candidates.from_local_scores`); with gold, both training rules hold (see `Candidates.for_training`).
        `marginals` are dense too, 0 where nothing is kept. On a GPU nothing in the loss synchronises the host.
        """
        limits = checked_limits(labels_per_span, budget)
        scores = checked_scores("global_scores", global_scores, 4, look=False)
        kernel = kernel or kernel_for(scores)
        # The compiled filter looks at the local scores that decide something, at the global ones of what it keeps, and
        # at the transition and the lengths.
        is_fused = can(kernel, "segments_from_scores")
        if not is_fused:
            scores = checked_scores("global_scores", scores, 4)
        local_scores = checked_scores("local_scores", local_scores, 4, look=not is_fused)
        if local_scores.shape != scores.shape:
            shapes = f"{tuple(local_scores.shape)} and {tuple(scores.shape)}"
            raise ValueError(f"local_scores and global_scores must have one shape, got {shapes}")
        num_sentences, num_tokens, max_width, num_labels = scores.shape
        if max_width < 1 or num_labels < 1:
            raise ValueError(f"global_scores must have at least one width and one label, got {tuple(scores.shape)}")
        transition = checked_transition(transition, scores, num_labels, look=not is_fused)
        lengths = checked_lengths(lengths, num_sentences, num_tokens, scores, look=not is_fused or gold is not None)
        ready = None if gold is None else entity_gold(gold, scores, lengths)
        if ready is not None and ready.segments is not None:
            check_disjoint(ready.segments)
        local_scores = local_scores.detach() if local_scores.requires_grad else local_scores
        local_scores = local_scores if local_scores.dtype is scores.dtype else local_scores.to(scores.dtype)
        inputs = DenseInputs(local_scores, scores, transition, lengths, gold, ready, skip, limits)
        on_cpu, on_cpu_dense, on_cuda = _device_classes()
        if is_fused:
            is_dense_cheaper = skip and kernel.is_dense_cheaper(local_scores, lengths, limits)
            return (on_cpu_dense if is_dense_cheaper else on_cpu)(inputs, kernel)
        if can(kernel, "dense_filtered_sums"):
            return on_cuda(inputs, kernel)
        mask = candidate_mask(local_scores, lengths, ready, skip, limits)
        candidates = Candidates(*candidates_of_mask(mask), lengths, num_tokens, max_width)
        return FilteredSemiMarkov(candidates, scores, transition, skip, kernel=kernel)

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.filtered(semiring, scores, transition, self.candidates, self.skip)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        if self._kernel is reference:
            return super()._sums(scores, transition, with_marginals)
        return self._kernel.filtered_sums(self.candidates, scores, transition, self.skip, with_marginals)

    def _best(self) -> tuple[Tensor, list[Any]]:
        if self._kernel is reference:
            return super()._best()
        max_score, is_chosen = self._kernel.filtered_best(
            self.candidates, self.scores.detach(), self.transition.detach(), self.skip
        )
        return max_score, self._structures(is_chosen)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return segments_by_sentence(self.candidates.on_host().where(is_part.cpu().numpy()))

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        segments = in_order(flat_segments(structures))
        return self._parts_of_segments(segments)

    def _parts_of_gold(self, gold: Gold) -> Parts:
        if gold.segments is None:
            raise ValueError("gold must be made by Gold.from_segments for a filtered model, got one of tags")
        return self._parts_of_segments(gold.segments)

    def _parts_of_segments(self, segments: FlatSegments) -> Parts:
        index = self._part_index(self._nodes_of_paths(segments), segments)
        parts = FlatParts(index, segments.sentence, segments.label, self.num_sentences)
        return Parts.of(parts, len(self.transition), self.transition.device)

    def _part_index(self, nodes: np.ndarray, segments: FlatSegments) -> np.ndarray:
        """The flat index of segments, which are these candidates, in `_part_scores`."""
        return nodes

    def _nodes_of_paths(self, segments: FlatSegments) -> np.ndarray:
        """The candidate of each segment. Raises unless the segments of each sentence are a path."""
        node, windows = self._index_of(segments), self.candidates.windows(self.skip)
        first, last = np.array(windows.first, np.int64)[node], np.array(windows.last, np.int64)[node]
        before = np.concatenate(([-1], node[:-1]))
        begins = np.zeros(len(node), bool)
        begins[segments.offsets[:-1][np.diff(segments.offsets) > 0]] = True
        opens = np.array(windows.opens, bool)[node]
        follows = np.where(begins, opens, (first <= before) & (before < last))
        if not follows.all():
            at = int((~follows).argmax())
            where = "at the start" if begins[at] else "after the segment before it"
            raise ValueError(
                f"segmentation {segments.sentence[at]} is outside the support: {named_at(segments, at)} cannot stand "
                f"{where}: the two overlap or leave room for a candidate between, and only maximal ones are paths "
                "(skip=True allows any)"
            )
        end_first, end_last = np.array(windows.end_first, np.int64), np.array(windows.end_last, np.int64)
        is_empty = np.diff(segments.offsets) == 0
        final = np.concatenate((node, [-1]))[np.maximum(segments.offsets[1:] - 1, 0)]
        ends = np.where(is_empty, windows.end_opens, (end_first <= final) & (final < end_last))
        if not ends.all():
            b = int((~ends).argmax())
            raise ValueError(
                f"segmentation {b} is outside the support: it leaves room for another candidate after its last segment,"
                f" and only maximal ones are paths (skip=True allows any)"
            )
        return node


class DenseInputs(NamedTuple):
    """The arguments of `FilteredSemiMarkov.from_scores`, checked."""

    local_scores: Tensor  # (B, L, K, Y)
    global_scores: Tensor  # (B, L, K, Y)
    transition: Tensor  # (Y, Y)
    lengths: Tensor  # (B,)
    given_gold: Triples | Gold | None
    gold: Gold | None
    skip: bool
    limits: FilterLimits

    @property
    def gold_segments(self) -> FlatSegments | None:
        return None if self.gold is None else self.gold.segments


class FilteredFromScores(FilteredSemiMarkov):
    """The filtered distribution of dense scores. A subclass for each device filters, and lists candidates on demand."""

    def __init__(self, inputs: DenseInputs, scores: Tensor | None, kernel: ModuleType) -> None:
        # The constructor of FilteredSemiMarkov takes and checks candidates, which are not listed yet.
        Distribution.__init__(self, scores, inputs.transition, len(inputs.lengths), kernel)
        self._inputs, self.lengths, self.skip = inputs, inputs.lengths, inputs.skip
        self.dense_scores: Tensor = inputs.global_scores

    @property
    def _part_scores(self) -> Tensor:
        return self.dense_scores

    def _gathered(self, part_scores: Tensor) -> Tensor:
        return part_scores.flatten().index_select(0, self._index)

    def _part_index(self, nodes: np.ndarray, segments: FlatSegments) -> np.ndarray:
        return dense_index(segments, self.dense_scores.shape)

    def _checked_parts(self, structures: Sequence[Any] | Gold) -> Parts:
        # The gold that the candidates were made for is a path by construction.
        gold = self._inputs.gold
        if gold is not None and structures is self._inputs.given_gold:
            return gold.parts
        return super()._checked_parts(structures)


@functools.cache
def _device_classes() -> tuple[type, type, type]:
    """The subclasses for a CPU, for one where nearly all is kept, and for a GPU; not to be imported at the top."""
    from spansieve.crf.filtered_by_device import FilteredOnCpu, FilteredOnCpuDense, FilteredOnCuda

    return FilteredOnCpu, FilteredOnCpuDense, FilteredOnCuda
