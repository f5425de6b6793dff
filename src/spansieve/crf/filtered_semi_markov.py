"""The filtered semi-Markov CRF: a distribution over the paths through the graph of candidates.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import CandidateDistribution, Candidates, candidate_mask, checked_limits, scattered
from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import FlatSegments, dense_index, segments_by_index, segments_by_start
from spansieve.crf.gold import Gold, Parts, Triples, entity_gold
from spansieve.crf.kernels import FilterLimits, Sums, can, kernel_for, reference
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment

if TYPE_CHECKING:
    from spansieve.crf.kernels.cpu.filter import Kept


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
            ready.segments.check_disjoint()
        local_scores = local_scores.detach() if local_scores.requires_grad else local_scores
        local_scores = local_scores if local_scores.dtype is scores.dtype else local_scores.to(scores.dtype)
        inputs = DenseInputs(local_scores, scores, transition, lengths, gold, ready, skip, limits)
        if is_fused:
            is_dense_cheaper = skip and kernel.is_dense_cheaper(local_scores, lengths, limits)
            return (FilteredOnCpuDense if is_dense_cheaper else FilteredOnCpu)(inputs, kernel)
        if can(kernel, "dense_filtered_sums"):
            return FilteredOnCuda(inputs, kernel)
        candidates = Candidates.of_mask(candidate_mask(local_scores, lengths, ready, skip, limits), lengths)
        return FilteredSemiMarkov(candidates, scores, transition, skip, kernel=kernel)

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.filtered(semiring, scores, transition, self.candidates, self.skip)

    def _compiled(self, verb: str, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        kernel = getattr(self._kernel, f"filtered_{verb}")
        return kernel(self.candidates, scores, transition, self.skip, *options)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return self.candidates.on_host().where(is_part.cpu().numpy()).by_sentence()

    def _parts_of_segments(self, segments: FlatSegments) -> Parts:
        segments = segments.in_order()
        index = self._part_index(self._nodes_of_paths(segments), segments)
        sizes = (self.num_sentences, len(self.transition))
        return Parts.of(index, segments.sentence, segments.label, *sizes, self.transition.device)

    def _part_index(self, nodes: np.ndarray, segments: FlatSegments) -> np.ndarray:
        """The flat index of segments, which are these candidates, in `_part_scores`."""
        return nodes

    def _nodes_of_paths(self, segments: FlatSegments) -> np.ndarray:
        """The candidate of each segment. Raises unless the segments of each sentence are a path."""
        node, latest = self._index_of(segments), self.candidates.latest_starts(self.skip)
        sentence, start, reached = segments.sentence, segments.start, segments.previous_ends
        if (is_wrong := (start < reached) | (latest[sentence, start] >= reached)).any():
            at = int(is_wrong.argmax())
            where = "after the segment before it" if at > segments.offsets[sentence[at]] else "at the start"
            raise ValueError(
                f"segmentation {sentence[at]} is outside the support: {segments.named(at)} cannot stand "
                f"{where}: the two overlap or leave room for a candidate between, and only maximal ones are paths "
                "(skip=True allows any)"
            )
        if (is_wrong := latest[:, -1] >= segments.last_ends).any():
            raise ValueError(
                f"segmentation {is_wrong.argmax()} is outside the support: it leaves room for another candidate after "
                "its last segment, and only maximal ones are paths (skip=True allows any)"
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


class FilteredOnCpu(FilteredFromScores):
    """The filtered distribution over candidates that the compiled filter lists. `marginals` are dense, (B, L, K, Y).

    Tensors are made of what the filter keeps only on demand: at 3 µs a sentence each of them counts.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        super().__init__(inputs, None, kernel)
        is_tracked = self._is_tracked
        if self.dense_scores.requires_grad and not is_tracked:
            self.dense_scores = self.dense_scores.detach()
        self._has_best = inputs.gold is None and not is_tracked
        self._filter()

    def _filter(self) -> None:
        self._kept = self._listed()

    def _listed(self) -> Kept:
        """List the candidates and, for prediction, find the best path in the same pass."""
        inputs, options = self._inputs, (self.skip, self._has_best, self._inputs.limits)
        return self._kernel.segments_from_scores(*inputs[:4], inputs.gold_segments, *options)

    @cached_property
    def scores(self) -> Tensor:  # type: ignore[override]
        """The global scores of the candidates, (N,)."""
        if not self.dense_scores.requires_grad:
            return torch.from_numpy(self._kept.score)
        with torch.enable_grad():
            return self._gathered(self.dense_scores)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        return Candidates.of_arrays(self._kept.graph, self.lengths, *self.dense_scores.shape[1:3])

    @cached_property
    def _index(self) -> Tensor:
        return torch.from_numpy(self._kept.index)

    @cached_property
    def _part_sentence(self) -> Tensor | None:
        return torch.from_numpy(self._kept.sentence)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        # The scores can only be this distribution's own, which the filter looked up.
        kept, lengths = self._kept, self.lengths
        return self._kernel.kept_sums(*kept.graph, kept.score, transition, lengths, self.skip, with_marginals)

    def _input_gradients(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Written straight to the dense scores: to go by the flat ones takes as long as the sweep."""
        if not torch.is_grad_enabled():
            return self._kernel.dense_expectations(gradient, marginals, counts, self._kept, self.dense_scores.shape)
        to_flat, to_transition = super()._input_gradients(gradient, marginals, counts)
        return scattered(to_flat, self._index, self.dense_scores.shape), to_transition

    def score(self, structures: Sequence[Any] | Gold) -> Tensor:
        return self._possible(super().score(structures), structures)

    def log_prob(self, structures: Sequence[Any] | Gold) -> Tensor:
        return self._possible(super().log_prob(structures), structures)

    def _possible(self, result: Tensor, structures: Sequence[Any] | Gold) -> Tensor:
        """Raise where a result is -inf, and name what is impossible, which is not looked for in gold before."""
        if not (result > -torch.inf).all():
            super(FilteredFromScores, self)._checked_parts(structures)
        return result

    def _best(self) -> tuple[Tensor, list[Any]]:
        if not self._has_best:
            return super()._best()
        kept, (_, _, max_width, num_labels) = self._kept, self.dense_scores.shape
        structures = segments_by_index(kept.bounds[1], kept.chosen[1], max_width, num_labels)
        return torch.from_numpy(kept.max_score), structures


class FilteredOnCpuDense(FilteredOnCpu):
    """The filtered distribution by a sweep over every span, for paths that may skip where the filter keeps so much that
    listing it would cost more. The loss, log Z, the marginals and the best path never list the candidates; everything
    else does so first.
    """

    def _filter(self) -> None:
        inputs, self._has_best = self._inputs, False
        self._kept_scores = self._kernel.kept_scores(*inputs[:4], inputs.gold_segments, inputs.limits)  # (B, L, K, Y)

    @cached_property
    def _kept(self) -> Kept:  # type: ignore[override]
        return self._listed()

    def _dense_sums(self, with_marginals: bool) -> Sums:
        """Compute the sums, with dense marginals."""
        return self._kernel.dense_skip_sums(self._kept_scores, self.transition, self.lengths, with_marginals)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        sums = self._dense_sums(with_marginals)
        return sums._replace(marginals=self._gathered(sums.marginals)) if with_marginals else sums

    def _sums_to_save(self, scores: Tensor, transition: Tensor) -> Sums:
        return self._dense_sums(with_marginals=True)

    def _input_gradients(self, gradient: Tensor, marginals: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            return super()._input_gradients(gradient, marginals, counts)
        return gradient.view(-1, 1, 1, 1) * marginals, (gradient @ counts.flatten(1)).view(self.transition.shape)

    @cached_property
    def _plain_log_partition(self) -> Tensor:
        return self._dense_sums(with_marginals=False).log_partition

    @property
    def marginals(self) -> Tensor:
        return super().marginals if self._is_tracked else self._plain_marginals

    @cached_property
    def _plain_marginals(self) -> Tensor:
        return self._dense_sums(with_marginals=True).marginals

    def _best(self) -> tuple[Tensor, list[Any]]:
        max_score, widths, labels = self._kernel.dense_skip_best(self._kept_scores, self.transition, self.lengths)
        return max_score, segments_by_start(widths.numpy(), labels.numpy(), self.dense_scores.shape)


class FilteredOnCuda(FilteredFromScores):
    """The filtered distribution with dense scores throughout and the candidates as a mask: no step of the loss
    synchronises the host with a GPU.

    The candidates are listed only on demand.
    """

    def __init__(self, inputs: DenseInputs, kernel: ModuleType) -> None:
        super().__init__(inputs, inputs.global_scores, kernel)

    def _gathered(self, part_scores: Tensor) -> Tensor:
        return part_scores

    @cached_property
    def is_candidate(self) -> Tensor:
        """What the filter keeps, a mask (B, L, K, Y)."""
        local_scores, gold, limits = self._inputs.local_scores, self._inputs.gold, self._inputs.limits
        if limits.budget is None:
            return self._kernel.dense_filter(local_scores, self.lengths, gold, self.skip, limits.labels_per_span)
        return candidate_mask(local_scores, self.lengths, gold, self._inputs.skip, limits)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        return Candidates.of_mask(self.is_candidate, self.lengths)

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return super()._total(semiring, scores.flatten(1)[:, self._index], transition)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        return self._kernel.dense_filtered_sums(
            self.is_candidate, scores, transition, self.lengths, self.skip, with_marginals
        )

    def _best(self) -> tuple[Tensor, list[Any]]:
        return self._kernel.dense_filtered_best(
            self.is_candidate, self.scores.detach(), self.transition.detach(), self.lengths, self.skip
        )

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return super()._structures(is_part.flatten()[self._index])

    @property
    def _part_sentence(self) -> Tensor | None:
        return None
