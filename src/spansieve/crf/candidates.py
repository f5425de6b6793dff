"""What the filter keeps: labelled spans, flat and ragged, which of them may precede which, and what the distributions
over sets of them share.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.distribution import Distribution
from spansieve.crf.flat_segments import FlatSegments, dense_index, flat_segments, keys_of, sorted_by_end
from spansieve.crf.gold import Gold, Parts, Triples, entity_gold
from spansieve.crf.kernels import PLAIN_FILTER, FilterLimits, kernel_for
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition
from spansieve.segments import Segment

MAX_TOKENS = 1 << 24  # of a sentence that no array of scores bounds: what is computed takes memory for each


class Windows(NamedTuple):
    """The predecessors by the window theorem: candidate c may follow candidates first[c] … last[c] - 1, and the start
    where opens[c]; the end of sentence b may follow end_first[b] … end_last[b] - 1, and the start where
    end_opens[b]."""

    first: np.ndarray  # (N,)
    last: np.ndarray  # (N,)
    end_first: np.ndarray  # (B,)
    end_last: np.ndarray  # (B,)
    opens: np.ndarray  # (N,)
    end_opens: np.ndarray  # (B,)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nodes V of the filtered graph of each sentence (Zaratiana et al., Findings of EMNLP 2023), sorted by
    (sentence, end, start, label).

    Those of sentence b are `offsets[b] … offsets[b+1] - 1`. Edges follow from the positions and are never built:
    c' → c when c' ends by the start of c and no candidate lies wholly between the two.
    """

    offsets: Tensor  # (B + 1,)
    start: Tensor  # (N,)
    end: Tensor  # (N,)
    label: Tensor  # (N,): never 0, null
    lengths: Tensor  # (B,)
    num_tokens: int  # L: no sentence is longer
    max_width: int  # K: no candidate is wider

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[Sequence[int]]], lengths: Tensor | Sequence[int]) -> Candidates:
        """Make candidates from one list of (start, end, label) per sentence, in any order."""
        host = checked_lengths(lengths, len(lists), MAX_TOKENS, torch.empty(0)).numpy()
        segments = flat_segments(lists)
        widest = int((segments.end - segments.start).max(initial=1))
        segments.check(host, widest, None)
        nodes, _ = sorted_by_end([segments.columns], len(lists))
        columns = np.stack(nodes.columns)
        is_repeat = (columns[:, 1:] == columns[:, :-1]).all(0)
        if is_repeat.any():
            b, start, end, label = columns[:, is_repeat.argmax()]
            raise ValueError(f"candidate ({start}, {end}, {label}) of sentence {b} must be given once, got it twice")
        return cls.of_arrays(nodes, torch.from_numpy(host), int(host.max(initial=0)), widest)

    @classmethod
    def from_local_scores(
        cls,
        local_scores: Tensor,
        lengths: Tensor | Sequence[int],
        *,
        labels_per_span: int = 1,
        budget: int | None = None,
    ) -> Candidates:
        """Filter as the paper does: keep each span whose best label is not null, with that label. Null wins a tie.

        `local_scores[b, i, w, y]` is the local score of the segment that starts at i, has width w + 1 and label y. With
        more `labels_per_span`, a span is kept with its best so many labels, as far as they stand above null. A `budget`
        keeps the best so many candidates of each sentence, by how far they stand above null; of equals the first.
        """
        return cls.for_training(local_scores, lengths, None, labels_per_span=labels_per_span, budget=budget)

    @classmethod
    def for_training(
        cls,
        local_scores: Tensor,
        lengths: Tensor | Sequence[int],
        gold: Triples | Gold | None,
        skip: bool = False,
        *,
        labels_per_span: int = 1,
        budget: int | None = None,
    ) -> Candidates:
        """Filter with both training rules of the paper, which come after the filter's limits; without gold, by neither.

        Only maximal segmentations are paths, so a candidate clear of gold would make gold impossible: those are dropped
        (not with `skip`, where any set of disjoint candidates is a path). And every gold segment is a candidate with
        its gold label, beside the filter's label for the same span where that differs.
        """
        limits = checked_limits(labels_per_span, budget)
        local_scores = checked_scores("local_scores", local_scores, 4).detach()
        num_sentences, num_tokens, max_width, _ = local_scores.shape
        lengths = checked_lengths(lengths, num_sentences, num_tokens, local_scores)
        ready_gold = None if gold is None else entity_gold(gold, local_scores, lengths)
        if local_scores.device.type != "cpu":
            return cls.of_mask(candidate_mask(local_scores, lengths, ready_gold, skip, limits), lengths)
        from spansieve.crf.kernels.cpu import torch_api

        segments = None if ready_gold is None else ready_gold.segments
        kept = torch_api.filter_spans(local_scores, lengths, segments, skip, limits)
        return cls.of_arrays(kept.graph, lengths, num_tokens, max_width)

    @classmethod
    def of_arrays(cls, columns: Iterable[np.ndarray], lengths: Tensor, num_tokens: int, max_width: int) -> Candidates:
        """Make candidates from offsets, starts, ends and labels that are in order, on the device of the lengths."""
        offsets, start, end, label = (torch.from_numpy(column).to(lengths.device) for column in columns)
        return cls(offsets, start, end, label, lengths, num_tokens, max_width)

    @classmethod
    def of_mask(cls, mask: Tensor, lengths: Tensor) -> Candidates:
        """List the true entries of (B, L, K, Y). Synchronises the host: their number is data."""
        sentence, start, width, label = mask.nonzero(as_tuple=True)
        end = start + width + 1
        num_sentences, num_tokens, max_width, num_labels = mask.shape
        key = ((sentence * (num_tokens + 1) + end) * (num_tokens + 1) + start) * num_labels + label
        order = key.argsort()
        offsets = torch.nn.functional.pad(torch.bincount(sentence, minlength=num_sentences).cumsum(0), (1, 0))
        return cls(offsets, start[order], end[order], label[order], lengths, num_tokens, max_width)

    def check(self) -> None:
        """Check that the candidates lie in their sentences, are in order and have labels: compiled code trusts them."""
        nodes, lengths = self.on_host(), self.lengths.cpu().numpy()
        offsets, start, end, label = nodes
        is_whole = offsets.shape == (len(lengths) + 1,) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        if not (is_whole and offsets[-1] == len(start) == len(end) == len(label)):
            raise ValueError(f"offsets of candidates must rise from 0 to their number, {len(start)}, got {offsets}")
        nodes.check(lengths, self.max_width, None, lowest_label=0)
        if (np.diff(keys_of(nodes)[0]) <= 0).any():
            raise ValueError(
                "candidates must be distinct and sorted by (sentence, end, start, label), as from_lists does it"
            )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def num_sentences(self) -> int:
        return len(self.lengths)

    @cached_property
    def sentence(self) -> Tensor:
        """The sentence of each candidate, (N,)."""
        return torch.repeat_interleave(self.offsets.diff(), output_size=len(self))

    @property
    def num_nodes(self) -> Tensor:
        """The number of nodes |V| of each sentence, (B,)."""
        return self.offsets.diff()

    @cached_property
    def num_edges(self) -> Tensor:
        """The number of edges |E| of each sentence, (B,), start and end edges left out: counted from the windows."""
        windows = self.windows()
        degree = torch.from_numpy(windows.last - windows.first).to(self.start.device)
        return torch.zeros_like(self.lengths).index_add(0, self.sentence, degree)

    def on_host(self) -> FlatSegments:
        columns = (self.offsets, self.start, self.end, self.label)
        return FlatSegments(*(column.cpu().numpy() for column in columns))

    def segments(self) -> list[tuple[Segment, ...]]:
        """The candidates of each sentence."""
        return self.on_host().by_sentence()

    def latest_starts(self, skip: bool | Tensor = False) -> np.ndarray:
        """M(i) of the window theorem, (B, L + 1): the latest start among the candidates that are over by position i and
        may not be skipped, -1 where there is none. `skip` is for all of them, or a mask (N,)."""
        latest = np.full((self.num_sentences, self.num_tokens + 1), -1, np.int64)
        sentence, start, end = (x.cpu().numpy() for x in (self.sentence, self.start, self.end))
        may_skip = skip.cpu().numpy() if isinstance(skip, Tensor) else skip
        np.maximum.at(latest, (sentence, end), np.where(may_skip, -1, start))
        return np.maximum.accumulate(latest, axis=1)

    def windows(self, skip: bool | Tensor = False) -> Windows:
        """Find which candidates may precede which. With `skip`, all that end before; with a mask (N,), those after
        which nothing fits that may not be skipped."""
        base, latest = self.offsets.cpu().numpy()[:-1, None], self.latest_starts(skip)
        sentence, start, end = (x.cpu().numpy() for x in (self.sentence, self.start, self.end))
        over = np.zeros_like(latest)
        np.add.at(over, (sentence, end), 1)
        over = base + over.cumsum(1)  # the candidates of sentence b with end <= i are those before
        low = np.where(latest < 0, base, np.take_along_axis(over, np.maximum(latest, 0), axis=1))
        at, opens = (sentence, start), latest < 0
        return Windows(low[at], over[at], low[:, -1], over[:, -1], opens[at], opens[:, -1])

    def edges(self, sentence: int, skip: bool | Tensor = False) -> list[tuple[Segment | None, Segment | None]]:
        """The edges of one sentence's graph, to look at; None is the start on the left and the end on the right."""
        windows = self.windows(skip)
        low, high = int(self.offsets[sentence]), int(self.offsets[sentence + 1])
        node = dict(zip(range(low, high), self.segments()[sentence]))
        edges: list[tuple[Segment | None, Segment | None]] = []
        for c in range(low, high):
            edges += [(node[p], node[c]) for p in range(windows.first[c], windows.last[c])]
            edges += [(None, node[c])] if windows.opens[c] else []
        ending = range(windows.end_first[sentence], windows.end_last[sentence])
        edges += [(node[p], None) for p in ending]
        edges += [(None, None)] if windows.end_opens[sentence] else []
        return edges


def checked_limits(labels_per_span: int, budget: int | None) -> FilterLimits:
    for name, value in (("labels_per_span", labels_per_span), ("budget", budget)):
        if not isinstance(value, Integral) and (name, value) != ("budget", None):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if labels_per_span < 1:
        raise ValueError(f"labels_per_span must be at least 1, got {labels_per_span}")
    if budget is not None and budget < 0:
        raise ValueError(f"budget must be at least 0, or None for no limit, got {budget}")
    return FilterLimits(labels_per_span, budget)


def candidate_mask(
    local_scores: Tensor, lengths: Tensor, gold: Gold | None, skip: bool, limits: FilterLimits = PLAIN_FILTER
) -> Tensor:
    """The filter as a mask (B, L, K, Y), in tensor operations: its definition, and for devices without a kernel."""
    mask = kept_mask(local_scores, lengths, limits)
    if gold is None:
        return mask
    if not skip:
        assert gold.covered is not None
        end = span_ends(mask)
        start, last = torch.arange(len(end), device=end.device)[:, None], gold.covered.shape[1] - 1
        mask &= (gold.covered[:, end.clamp(max=last)] > gold.covered[:, start])[..., None]
    mask.view(-1).index_fill_(0, gold.parts.part, True)
    return mask


def kept_mask(local_scores: Tensor, lengths: Tensor, limits: FilterLimits) -> Tensor:
    num_sentences, num_labels = len(local_scores), local_scores.shape[-1]
    limits = limits.within(num_labels)
    is_span = span_ends(local_scores) <= lengths[:, None, None]  # (B, L, K)
    mask = (local_scores > local_scores[..., :1]) & is_span[..., None]
    if limits.labels_per_span < num_labels - 1:
        mask &= _are_best(local_scores.masked_fill(~mask, -torch.inf), limits.labels_per_span)
    if limits.budget is not None:
        above = (local_scores - local_scores[..., :1]).masked_fill(~mask, -torch.inf)
        mask &= _are_best(above.view(num_sentences, -1), limits.budget).view(mask.shape)
    return mask


def span_ends(spans: Tensor) -> Tensor:
    """The end of each span of a dense (B, L, K, …): (L, K)."""
    num_tokens, max_width = spans.shape[1:3]
    start = torch.arange(num_tokens, device=spans.device)[:, None]
    return start + torch.arange(1, max_width + 1, device=spans.device)


def _are_best(values: Tensor, count: int) -> Tensor:
    """Which are among the best `count` along the last axis; of equals the first."""
    order = values.sort(dim=-1, descending=True, stable=True).indices
    is_best = torch.arange(values.shape[-1], device=values.device) < count
    return torch.zeros_like(values, dtype=torch.bool).scatter_(-1, order, is_best.expand_as(values))


def scattered(values: Tensor, index: Tensor, shape: torch.Size, fill: float = 0.0) -> Tensor:
    """Scatter values of the candidates, (N,), into (B, L, K, Y), filled elsewhere."""
    return values.new_full((shape.numel(),), fill).index_put((index,), values).view(shape)


class CandidateDistribution(Distribution):
    """A distribution over sets of candidates, scored one by one, (N,), or from the dense scores of every span."""

    candidates: Candidates
    dense_scores: Tensor | None = None  # (B, L, K, Y), where the candidates' scores come from there

    def __init__(
        self,
        candidates: Candidates,
        scores: Tensor,
        transition: Tensor | None,
        kernel: ModuleType | None,
        nodes: Candidates | None = None,
    ) -> None:
        """`nodes` are the candidates with the labels that the transition has, where those are not their own."""
        if candidates.start.is_cpu:
            candidates.check()
        self.candidates, self.lengths, nodes = candidates, candidates.lengths, nodes or candidates
        if isinstance(scores, Tensor) and scores.ndim == 4:
            self.dense_scores = checked_scores("scores", scores, 4, look=False)
            scores = self.dense_scores.flatten().index_select(0, self._index)
        scores = checked_scores("scores", scores, 1)
        if len(scores) != len(candidates):
            raise ValueError(f"scores must be one per candidate, {len(candidates)}, got {len(scores)}")
        transition = scores.new_zeros(1, 1) if transition is None else checked_transition(transition, scores)
        if len(nodes) and scores.is_cpu and (highest := int(nodes.label.max())) >= len(transition):
            raise ValueError(f"transition must have a row for each label up to {highest}, got {len(transition)}")
        super().__init__(scores, transition, candidates.num_sentences, kernel or kernel_for(scores))

    @property
    def marginals(self) -> Tensor:
        """P(candidate): (N,), or like the dense scores where those are from there, 0 elsewhere. Differentiable."""
        marginals = super().marginals
        if self.dense_scores is None or marginals.ndim > 1:
            return marginals
        return scattered(marginals, self._index, self.dense_scores.shape)

    @cached_property
    def _index(self) -> Tensor:
        """The flat index of the candidates in the dense scores, (N,)."""
        assert self.dense_scores is not None
        return dense_index(self.candidates, self.dense_scores.shape)

    @property
    def _part_sentence(self) -> Tensor | None:
        return self.candidates.sentence

    @abstractmethod
    def _parts_of_segments(self, segments: FlatSegments) -> Parts:
        """Take sets apart, as `_parts` does."""

    def _parts(self, structures: Triples) -> Parts:
        return self._parts_of_segments(flat_segments(structures))

    def _parts_of_gold(self, gold: Gold) -> Parts:
        if gold.segments is None:
            raise ValueError("gold must be made by Gold.from_segments for a model of segments, got one of tags")
        return self._parts_of_segments(gold.segments)

    def _index_of(self, segments: FlatSegments) -> np.ndarray:
        """The position of each segment among the candidates."""
        index = segments.index_in(self.candidates.on_host())
        if (index < 0).any():
            at = int((index < 0).argmax())
            raise ValueError(
                f"segmentation {segments.sentence[at]} is outside the support: {segments.named(at)} is no candidate"
            )
        return index
