"""The filtered semi-Markov CRF: a distribution over the paths through the graph of candidates.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates, candidate_mask, candidates_of_mask, checked_gold, dense_index
from spansieve.crf.checks import checked_lengths, checked_scores, checked_transition, to_device
from spansieve.crf.distribution import Distribution, Parts
from spansieve.crf.kernels import Sums, reference
from spansieve.crf.kernels.dispatch import kernel_for
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.structures import FlatSegments, flat_segments, named, segments_by_sentence
from spansieve.segments import Segment


class FilteredSemiMarkov(Distribution):
    """A distribution over the maximal sets of non-overlapping candidates of each sentence; with `skip`, over all sets.

    A structure is a tuple of Segments, none of them null; what they leave uncovered is null. `scores[c]` is the global
    score of candidate c. Time O(N + P·K·Y + P·Y²) for N candidates with P distinct starts, however many the edges.
    """

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor,
        transition: Tensor,
        skip: bool = False,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        scores = checked_scores("scores", scores, 1)
        if len(scores) != len(candidates):
            raise ValueError(f"scores must be one per candidate, {len(candidates)}, got {len(scores)}")
        transition = checked_transition(transition, scores)
        if len(candidates) and scores.device.type == "cpu" and int(candidates.label.max()) >= len(transition):
            raise ValueError(
                f"transition must have a row for each label up to {int(candidates.label.max())}, got {len(transition)}"
            )
        self.candidates = candidates
        self.skip = skip
        self._kernel = kernel or kernel_for(scores)
        super().__init__(scores, transition, candidates.num_sentences)

    @classmethod
    def from_scores(
        cls,
        local_scores: Tensor,
        global_scores: Tensor,
        transition: Tensor,
        lengths: Tensor | Sequence[int],
        gold: Sequence[Sequence[Segment]] | None = None,
        skip: bool = False,
        *,
        kernel: ModuleType | None = None,
    ) -> FilteredSemiMarkov:
        """Filter by the local scores, then score what is kept by the global ones, both dense: (B, L, K, Y).

        With gold, both training rules hold (see `Candidates.for_training`). `marginals` are dense too, 0 where nothing
        is kept. On the CPU the filter and the best path are one pass; on a GPU nothing in the loss makes the host wait.
        """
        return _FromDenseScores(local_scores, global_scores, transition, lengths, gold, skip, kernel)

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
        return max_score, FilteredSemiMarkov._structures(self, is_chosen)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        chosen = self.candidates.sentence[is_part], self.candidates.start[is_part], self.candidates.end[is_part]
        return segments_by_sentence(*chosen, self.candidates.label[is_part], self.num_sentences)

    def _spread(self, values: Tensor) -> Tensor:
        return values[self.candidates.sentence]

    def _part_sums(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.num_sentences).index_add(0, self.candidates.sentence, values)

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        segments = _in_order(flat_segments(structures))
        return self._located(segments, self._nodes_of_paths(segments))

    def _located(self, segments: FlatSegments, index: np.ndarray) -> Parts:
        """Parts with the given positions in the flattened scores, and the transitions between neighbours."""
        sentence, label = segments.sentence, segments.label
        is_pair = sentence[1:] == sentence[:-1]
        pair = (label[:-1] * len(self.transition) + label[1:])[is_pair]
        arrays = (index, sentence, pair, sentence[1:][is_pair])
        return Parts(*(to_device(torch.from_numpy(np.ascontiguousarray(x)), self.scores.device) for x in arrays))

    def _nodes_of_paths(self, segments: FlatSegments) -> np.ndarray:
        """The candidate of each segment. Raises unless the segments of each sentence are a path."""
        candidates, windows = self.candidates, self.candidates.windows(self.skip)
        node = _index_among(candidates, segments)
        first, last = np.array(windows.first, np.int64)[node], np.array(windows.last, np.int64)[node]
        before = np.concatenate(([-1], node[:-1]))
        begins = np.zeros(len(node), bool)
        begins[segments.offsets[:-1][np.diff(segments.offsets) > 0]] = True
        # The start is a way in where the window is empty, and with `skip` everywhere.
        follows = np.where(begins, self.skip | (first == last), (first <= before) & (before < last))
        if not follows.all():
            at = int((~follows).argmax())
            _raise_no_edge(segments, at, "at the start" if begins[at] else "after the segment before it")
        end_first, end_last = np.array(windows.end_first, np.int64), np.array(windows.end_last, np.int64)
        is_empty = np.diff(segments.offsets) == 0
        final = np.concatenate((node, [-1]))[np.maximum(segments.offsets[1:] - 1, 0)]
        ends = np.where(is_empty, self.skip | (end_first == end_last), (end_first <= final) & (final < end_last))
        if not ends.all():
            b = int((~ends).argmax())
            raise ValueError(
                f"segmentation {b} is outside the support: it leaves room for another candidate after its last segment,"
                f" and only maximal ones are paths (skip=True allows any)"
            )
        return node


class _FromDenseScores(FilteredSemiMarkov):
    """The same distribution held as dense scores, (B, L, K, Y), which the flat ones are looked up in."""

    def __init__(self, local_scores, global_scores, transition, lengths, gold, skip, kernel) -> None:
        # The filter looks at every local score, and at the global ones of what it keeps: no second look is needed here.
        scores = checked_scores("global_scores", global_scores, 4, look=False)
        local_scores = checked_scores("local_scores", local_scores, 4, look=False).detach().to(scores.dtype)
        if local_scores.shape != scores.shape:
            shapes = f"{tuple(local_scores.shape)} and {tuple(scores.shape)}"
            raise ValueError(f"local_scores and global_scores must have one shape, got {shapes}")
        num_sentences, num_tokens, max_width, num_labels = scores.shape
        transition = checked_transition(transition, scores, num_labels)
        self.lengths = checked_lengths(lengths, num_sentences, num_tokens, scores.device)
        self.skip = skip
        self._kernel = kernel or kernel_for(scores)
        self._local_scores = local_scores
        self._given_gold = gold
        self._chosen: tuple[Tensor, Tensor] | None = None
        self._gold = None if gold is None else checked_gold(gold, self.lengths, max_width, num_labels)
        Distribution.__init__(self, scores, transition, num_sentences)
        if scores.device.type == "cpu":
            self._filter()

    def _filter(self) -> None:
        """On the CPU the filter runs at once; for prediction the best path comes out of the same pass."""
        from spansieve.crf.kernels import cpu_tensors

        _, num_tokens, max_width, _ = self.scores.shape
        if self._gold is None and self._kernel is cpu_tensors and not self._is_tracked:
            scores = (self._local_scores, self.scores, self.transition)
            found = cpu_tensors.segments_from_scores(*scores, self.lengths, self.skip)
            offsets, start, end, label, is_chosen, max_score = found
            self._chosen = max_score, is_chosen
        else:
            offsets, start, end, label = cpu_tensors.filter_spans(
                self._local_scores, self.lengths, self._gold, self.skip
            )
        self.candidates = Candidates(offsets, start, end, label, self.lengths, num_tokens, max_width)
        if self._chosen is None:
            checked_scores("global_scores of the candidates", self.scores.flatten()[self._index], 1)

    @cached_property
    def candidates(self) -> Candidates:  # type: ignore[override]
        _, num_tokens, max_width, _ = self.scores.shape
        offsets, start, end, label = candidates_of_mask(self._is_candidate)
        return Candidates(offsets, start, end, label, self.lengths, num_tokens, max_width)

    @cached_property
    def _is_candidate(self) -> Tensor:
        """The filter as a mask like the scores: the form that a GPU works with."""
        return candidate_mask(self._local_scores, self.lengths, self._gold, self.skip)

    @cached_property
    def _index(self) -> Tensor:
        """Where the candidates stand in the flattened scores, (N,)."""
        _, num_tokens, max_width, num_labels = self.scores.shape
        c = self.candidates
        return ((c.sentence * num_tokens + c.start) * max_width + c.end - c.start - 1) * num_labels + c.label

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return super()._total(semiring, scores.flatten(1)[:, self._index], transition)

    def _sums(self, scores: Tensor, transition: Tensor, with_marginals: bool) -> Sums:
        if self._kernel is reference:
            return Distribution._sums(self, scores, transition, with_marginals)
        if hasattr(self._kernel, "dense_filtered_sums"):
            return self._kernel.dense_filtered_sums(
                self._is_candidate, scores, transition, self.lengths, self.skip, with_marginals
            )
        flat = scores.flatten()[self._index]
        sums = self._kernel.filtered_sums(self.candidates, flat, transition, self.skip, with_marginals)
        if not with_marginals:
            return sums
        marginals = torch.zeros_like(scores)
        marginals.view(-1)[self._index] = sums.marginals
        return sums._replace(marginals=marginals)

    def _best(self) -> tuple[Tensor, list[Any]]:
        if self._kernel is reference:
            return Distribution._best(self)
        if self._chosen is None:
            flat = self.scores.detach().flatten()[self._index]
            self._chosen = self._kernel.filtered_best(self.candidates, flat, self.transition.detach(), self.skip)
        max_score, is_chosen = self._chosen
        return max_score, FilteredSemiMarkov._structures(self, is_chosen)

    def _structures(self, is_part: Tensor) -> list[tuple[Segment, ...]]:
        return super()._structures(is_part.flatten()[self._index])

    def _spread(self, values: Tensor) -> Tensor:
        return Distribution._spread(self, values)

    def _part_sums(self, values: Tensor) -> Tensor:
        return Distribution._part_sums(self, values)

    def _parts(self, structures: Sequence[Sequence[Segment]]) -> Parts:
        # The gold that the candidates were made for is a path by construction; to look would make the host wait.
        if self._gold is not None and structures is self._given_gold and self.scores.device.type != "cpu":
            segments = _in_order(self._gold)
        else:
            segments = _in_order(flat_segments(structures))
            self._nodes_of_paths(segments)
        return self._located(segments, dense_index(segments, self.scores.shape))


def _in_order(segments: FlatSegments) -> FlatSegments:
    """From left to right within each sentence, as a path goes."""
    order = np.lexsort((segments.start, segments.sentence))
    return FlatSegments(segments.offsets, *(x[order] for x in segments[1:]))


def _index_among(candidates: Candidates, segments: FlatSegments) -> np.ndarray:
    """The position of each segment among the candidates, which are sorted by (sentence, end, start, label)."""

    def key(sentence, start, end, label):
        return ((sentence * (size + 1) + end) * (size + 1) + start) * num_labels + label

    columns = (candidates.sentence, candidates.start, candidates.end, candidates.label)
    nodes = [column.cpu().numpy() for column in columns]
    size = max(candidates.num_tokens, int(segments.end.max(initial=0)))
    num_labels = 1 + max(int(nodes[3].max(initial=0)), int(segments.label.max(initial=0)))
    known, wanted = key(*nodes), key(segments.sentence, *segments[1:])
    index = np.searchsorted(known, wanted)
    is_missing = np.concatenate((known, [-1]))[index] != wanted
    if is_missing.any():
        at = int(is_missing.argmax())
        segment = segments.start[at], segments.end[at], segments.label[at]
        raise ValueError(
            f"segmentation {segments.sentence[at]} is outside the support: {named(segment)} is no candidate"
        )
    return index


def _raise_no_edge(segments: FlatSegments, at: int, place: str) -> None:
    segment = segments.start[at], segments.end[at], segments.label[at]
    raise ValueError(
        f"segmentation {segments.sentence[at]} is outside the support: {named(segment)} cannot stand {place}: the two "
        f"overlap or leave room for a candidate between, and only maximal ones are paths (skip=True allows any)"
    )
