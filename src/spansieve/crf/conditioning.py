"""A distribution given what is known: the same one, over the structures that agree with it.

    given(distribution, [Known(required=[(0, 2, 1)])])

What cannot be leaves the model and what must be is certain, so that mode, marginals, k-best, samples and entropy
are exact as ever, and probabilities are conditioned. `given(…).log_partition - distribution.log_partition` is
log P(what is known), differentiable: a loss where only some of gold is known.

**Filtered models.** A required segment that is no candidate becomes one, with its score, where the scores are dense.
What overlaps it goes. Maximal sets with it are then what they were, so this is conditioning in the strict sense. A
forbidden candidate leaves the graph, and which sets are maximal is decided among what is left: a lone candidate that is
forbidden is gone, where strictly speaking nothing would be possible. `remove=False` is strict: it stays as a node that
no path may take, and where it overlaps nothing else on a path, that path is none. With `skip` the two are the same.

**Label pairs.** A banned pair is one that the model's transition joins: in a filtered model two entities that follow
one another, however far apart; in a model that covers every token two that touch; in a nested model a container and
what lies right below it. A filtered model may then leave out candidates that could be in a banned pair, since there
might be no path without: those that have another before or after them with which they would be one. Not so if strict.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import CandidateDistribution, Candidates
from spansieve.crf.distribution import Distribution
from spansieve.crf.evidence import DepthLabels, FlatKnown, Known, Left, Pair, in_banned_pair
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import FlatSegments, dense_index
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.linear_chain import LinearChain
from spansieve.crf.nested import NestedSegments
from spansieve.crf.semi_markov import SemiMarkov
from spansieve.crf.tag_automaton import Tags, WatchedTags, tag_pairs
from spansieve.segments import Segment

Kind = TypeVar("Kind", bound=Distribution)


def given(
    distribution: Kind,
    known: Sequence[Known],
    banned: Collection[Pair] = (),
    *,
    tags: Tags | None = None,
    remove: bool = True,
) -> Kind:
    """Condition a distribution on one `Known` per sentence, and on pairs of labels that must not meet, in any sentence.

    A linear chain needs `tags`, how segments are written. Raises where what is known cannot be, as far as that can be
    decided without summing; where no structure is left, log Z is -inf.
    """
    model: Distribution = distribution
    if isinstance(model, LinearChain):
        result: Distribution = _given_chain(model, known, banned, tags)
    elif isinstance(model, SemiMarkov):
        result = _given_semi_markov(model, known, banned)
    elif isinstance(model, FilteredSemiMarkov):
        result = _given_filtered(model, known, banned, remove)
    elif isinstance(model, NestedSegments):
        result = _given_nested(model, known, banned)
    else:
        raise TypeError(f"no way to condition a {type(model).__name__} is known")
    return cast(Kind, result)


def _given_chain(chain: LinearChain, known, banned, tags: Tags | None) -> LinearChain:
    if tags is None:
        raise ValueError("tags must say how segments are written, for a linear chain, got None")
    if isinstance(chain, ChainGiven):  # what was known of it before still is
        known = [before.joined(more) for before, more in zip(chain.known, known, strict=True)]
        chain = chain.without_known
    flat = FlatKnown.of(known, chain.lengths.cpu().numpy(), tags.num_labels + 1, None)
    transition = _without_pairs(chain.transition, tag_pairs(banned, tags))
    without_known = LinearChain(chain.scores, transition, chain.lengths, kernel=chain._kernel)
    return ChainGiven(without_known, known, flat, tags)


def _given_semi_markov(model: SemiMarkov, known, banned) -> SemiMarkov:
    shape = model.scores.shape
    flat = FlatKnown.of(known, model.lengths.cpu().numpy(), shape[3], shape[2])
    is_impossible = torch.from_numpy(flat.impossible_segments(shape)).to(model.scores.device)
    scores = model.scores.masked_fill(is_impossible, -torch.inf)
    return SemiMarkov(scores, _without_pairs(model.transition, banned), model.lengths, kernel=model._kernel)


def _given_filtered(model: FilteredSemiMarkov, known, banned, remove: bool) -> FilteredSemiMarkov:
    left = _left(model, known, remove, nested=False)
    candidates = _candidates(left.nodes, model.candidates)
    skip = _skip_left(model, left, banned if remove else ())
    transition = _without_pairs(model.transition, banned)
    scores = _scores_of(model, left.nodes)
    if left.is_forbidden.any():
        index = np.arange(len(scores)) if scores.ndim == 1 else dense_index(left.nodes, scores.shape)
        is_forbidden = torch.from_numpy(index[left.is_forbidden]).to(scores.device)
        scores = scores.flatten().index_fill(0, is_forbidden, -torch.inf).view(scores.shape)
    return FilteredSemiMarkov(candidates, scores, transition, skip, kernel=model._kernel)


def _skip_left(model: FilteredSemiMarkov, left: Left, banned: Collection[Pair]) -> bool | Tensor:
    """Which candidates may be skipped, in short where that is all or none of them."""
    may_skip = in_banned_pair(left.nodes, banned)
    if isinstance(model.skip, Tensor):
        may_skip |= _of_before(model.skip, left.nodes, model)
    else:
        may_skip |= model.skip
    may_skip &= ~left.is_required
    if may_skip.all() or not may_skip.any():
        return bool(may_skip.any())
    return torch.from_numpy(may_skip).to(model.candidates.start.device)


def _given_nested(model: NestedSegments, known, banned) -> NestedSegments:
    left = _left(model, known, True, nested=True)
    candidates = _candidates(left.nodes, model.candidates)
    if banned and not model.has_labels:
        raise ValueError("banned pairs need a transition between labels, which this nested model has none of")
    transition = _without_pairs(model.label_transition, banned)
    required = left.is_required
    if isinstance(model, NestedGiven):  # what was required before still is
        required = required | _of_before(model.is_required, left.nodes, model)
    is_required = torch.from_numpy(required).to(candidates.start.device)
    return NestedGiven(model, candidates, _scores_of(model, left.nodes), transition, is_required)


# ---- Candidates ------------------------------------------------------------------------------------------------------


def _left(model: FilteredSemiMarkov | NestedSegments, known, remove: bool, nested: bool) -> Left:
    nodes, dense = model.candidates.on_host(), model.dense_scores
    num_labels = len(model.transition) if dense is None else dense.shape[3]
    if dense is None and nested and not cast(NestedSegments, model).has_labels:
        parts = (part for one in known for part in (*one.required, *one.forbidden) if isinstance(part, Segment))
        num_labels = 1 + max((int(nodes.label.max(initial=1)), *(segment.label for segment in parts)))
    widest = None if dense is None else dense.shape[2]
    flat = FlatKnown.of(known, model.candidates.lengths.cpu().numpy(), num_labels, widest, nested)
    return flat.candidates_left(nodes, model.candidates.num_tokens, nested, remove)


def _candidates(nodes: FlatSegments, like: Candidates) -> Candidates:
    widest = max(like.max_width, int((nodes.end - nodes.start).max(initial=1)))
    return Candidates.of_arrays(nodes, like.lengths, like.num_tokens, widest)


def _of_before(mask: Tensor, nodes: FlatSegments, model: FilteredSemiMarkov | NestedSegments) -> np.ndarray:
    """What a mask of the model's candidates has for each node; False for one that is new."""
    index = nodes.index_in(model.candidates.on_host())  # -1 for what is new
    return np.concatenate((mask.cpu().numpy(), [False]))[index]


def _scores_of(model: FilteredSemiMarkov | NestedSegments, nodes: FlatSegments) -> Tensor:
    """The scores of nodes, (N,), which must have been candidates; or where there are dense scores, those."""
    if model.dense_scores is not None:
        return model.dense_scores
    known = nodes.index_in(model.candidates.on_host())
    if (known < 0).any():
        k = int((known < 0).argmax())
        raise ValueError(
            f"required {nodes.named(k)} of sentence {nodes.sentence[k]} must be a candidate, since nothing else "
            "has a score: distributions made by from_scores have one for every span"
        )
    return model.scores.index_select(0, torch.from_numpy(known).to(model.scores.device))


def _without_pairs(transition: Tensor, banned: Collection[Pair]) -> Tensor:
    if not banned:
        return transition
    is_banned = torch.zeros(transition.shape, dtype=torch.bool)
    for first, second in banned:
        if not (0 <= first < len(transition) and 0 <= second < len(transition)):
            raise ValueError(f"a banned pair must be of labels below {len(transition)}, got ({first}, {second})")
        is_banned[first, second] = True
    return transition.masked_fill(is_banned.to(transition.device), -torch.inf)


# ---- Distributions that given() makes --------------------------------------------------------------------------------


class ChainGiven(LinearChain):
    """A linear chain given what is known: its own tags outside, those of watched segments too inside."""

    def __init__(self, chain: LinearChain, known: Sequence[Known], flat: FlatKnown, tags: Tags) -> None:
        self.without_known, self.known = chain, known
        _, num_tokens, self._num_tags = chain.scores.shape
        lengths, device = chain.lengths.cpu().numpy(), chain.scores.device
        self.written = WatchedTags(flat, tags, self._num_tags, lengths, num_tokens)
        self._base = torch.from_numpy(self.written.base).to(device)
        is_impossible = torch.from_numpy(self.written.is_impossible(flat, num_tokens)).to(device)
        scores = chain.scores.index_select(2, self._base).masked_fill(is_impossible, -torch.inf)
        can_follow = torch.from_numpy(self.written.can_follow()).to(device)
        by_watch = chain.transition.index_select(0, self._base).index_select(1, self._base)
        by_watch = by_watch.masked_fill(~can_follow, -torch.inf)
        super().__init__(scores, by_watch, chain.lengths, kernel=chain._kernel)

    @property
    def marginals(self) -> Tensor:
        return _folded(super().marginals, self._base, self._num_tags, 2)

    @property
    def transition_counts(self) -> Tensor:
        return _folded(super().transition_counts, self._base, self._num_tags, 1, 2)

    def _found(self, tags: Tensor) -> list[list[int]]:
        return super()._found(self._base[tags.to(torch.int64)])

    def _parts(self, structures: Sequence[Sequence[int]]) -> Parts:
        return self._parts_of_gold(Gold.from_tags(structures, (*self.scores.shape[:2], self._num_tags)))

    def _parts_of_gold(self, gold: Gold) -> Parts:
        shape = (*self.scores.shape[:2], self._num_tags)
        if gold.shape != shape:
            raise ValueError(f"gold must be made for scores of shape {shape}, got {gold.shape}")
        bounds = gold.parts.offsets[0].tolist()
        tags = (gold.parts.part % self._num_tags).tolist()
        written = [self.written.of_sequence(b, tags[a:z]) for b, (a, z) in enumerate(zip(bounds, bounds[1:]))]
        return super()._parts_of_gold(Gold.from_tags(written, self.scores.shape, self.scores.device))


class NestedGiven(NestedSegments):
    """Laminar sets with all of the required candidates, which no other crosses and with whose span there is no other.

    Labels become `DepthLabels`, so that a required segment is missing nowhere.
    """

    def __init__(
        self, model: NestedSegments, candidates: Candidates, scores: Tensor, transition: Tensor, is_required: Tensor
    ) -> None:
        device = scores.device
        label = candidates.label if model.has_labels else torch.zeros_like(candidates.label)
        masks = (is_required.cpu().numpy(), label.cpu().numpy())
        labels = DepthLabels(candidates.on_host(), *masks, len(transition), candidates.num_tokens)
        self._label_of = torch.from_numpy(labels.label_of).to(device)
        by_depth = transition.index_select(0, self._label_of).index_select(1, self._label_of)
        by_depth = by_depth.masked_fill(~torch.from_numpy(labels.can_meet).to(device), -torch.inf)
        nodes = replace(candidates, label=torch.from_numpy(labels.of_node).to(device))
        CandidateDistribution.__init__(self, candidates, scores, by_depth, model._kernel, nodes)
        self._nodes, self._required, self.is_required = nodes, labels.required, is_required
        self.has_labels, self.label_transition = model.has_labels, transition

    @property
    def transition_counts(self) -> Tensor:
        return _folded(super().transition_counts, self._label_of, len(self.label_transition), 1, 2)

    def _parts_of_segments(self, segments: FlatSegments) -> Parts:
        nodes = self.candidates.on_host()
        is_missing = self.is_required.cpu().numpy() & ~nodes.are_among(segments)
        if is_missing.any():
            k = int(is_missing.argmax())
            raise ValueError(f"segmentation {nodes.sentence[k]} is outside the support: {nodes.named(k)} is required")
        return super()._parts_of_segments(segments)


def _folded(values: Tensor, label_of: Tensor, num_labels: int, *dims: int) -> Tensor:
    """Add up along some axes what the labels of a finer set stand for."""
    for dim in dims:
        shape = (*values.shape[:dim], num_labels, *values.shape[dim + 1 :])
        values = values.new_zeros(shape).index_add(dim, label_of, values)
    return values
