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
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.chain_given import ChainGiven
from spansieve.crf.distribution import Distribution
from spansieve.crf.evidence import FlatKnown, Known, Left, Pair, candidates_left, impossible_segments, in_banned_pair
from spansieve.crf.filtered_from_scores import FilteredByIndex
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import FlatSegments, dense_index, named_at, places_among
from spansieve.crf.linear_chain import LinearChain
from spansieve.crf.nested import NestedSegments
from spansieve.crf.nested_given import NestedGiven
from spansieve.crf.semi_markov import SemiMarkov
from spansieve.crf.tag_automaton import Tags, tag_pairs

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
        known = [before.joined(one) for before, one in zip(chain.known, known, strict=True)]
        chain = chain.without_known
    flat = FlatKnown.of(known, chain.lengths.cpu().numpy(), tags.num_labels + 1, None)
    transition = _without_pairs(chain.transition, tag_pairs(banned, tags))
    without_known = LinearChain(chain.scores, transition, chain.lengths, kernel=chain._kernel)
    return ChainGiven(without_known, known, flat, tags)


def _given_semi_markov(model: SemiMarkov, known, banned) -> SemiMarkov:
    shape = model.scores.shape
    flat = FlatKnown.of(known, model.lengths.cpu().numpy(), shape[3], shape[2])
    is_impossible = torch.from_numpy(impossible_segments(flat, shape)).to(model.scores.device)
    scores = model.scores.masked_fill(is_impossible, -torch.inf)
    return SemiMarkov(scores, _without_pairs(model.transition, banned), model.lengths, kernel=model._kernel)


def _given_filtered(model: FilteredSemiMarkov, known, banned, remove: bool) -> FilteredSemiMarkov:
    left = _left(model, known, remove, nested=False)
    candidates = _candidates(left.nodes, model.candidates)
    skip = _skip_left(model, left, banned if remove else ())
    transition = _without_pairs(model.transition, banned)
    if model.dense_scores is None:
        is_forbidden = torch.from_numpy(left.is_forbidden).to(model.scores.device)
        scores = _looked_up(model, left.nodes).masked_fill(is_forbidden, -torch.inf)
        return FilteredSemiMarkov(candidates, scores, transition, skip, kernel=model._kernel)
    dense = model.dense_scores
    if left.is_forbidden.any():
        place = torch.from_numpy(dense_index(left.nodes, dense.shape)[left.is_forbidden]).to(dense.device)
        dense = dense.flatten().index_fill(0, place, -torch.inf).view(dense.shape)
    return FilteredByIndex(candidates, dense, transition, skip, kernel=model._kernel)


def _skip_left(model: FilteredSemiMarkov, left: Left, banned: Collection[Pair]) -> bool | Tensor:
    """Which candidates may be skipped, in short where that is all or none of them."""
    may_skip = in_banned_pair(left.nodes, banned)
    if isinstance(model.skip, Tensor):
        at = places_among(left.nodes, model.candidates.on_host())
        may_skip |= np.concatenate((model.skip.cpu().numpy(), [False]))[at]  # a new one is at -1
    else:
        may_skip |= model.skip
    may_skip &= ~left.is_required
    if may_skip.all() or not may_skip.any():
        return bool(may_skip.any())
    return torch.from_numpy(may_skip).to(model.candidates.start.device)


def _given_nested(model: NestedSegments, known, banned) -> NestedSegments:
    left = _left(model, known, True, nested=True)
    candidates = _candidates(left.nodes, model.candidates)
    transition = model.label_transition
    if banned and not model.has_labels:
        raise ValueError("banned pairs need a transition between labels, which this nested model has none of")
    transition = _without_pairs(transition, banned)
    required = left.is_required
    if isinstance(model, NestedGiven):  # what was required before still is
        at = places_among(left.nodes, model.candidates.on_host())
        required = required | np.concatenate((model.is_required.cpu().numpy(), [False]))[at]
    is_required = torch.from_numpy(required).to(candidates.start.device)
    scores = _looked_up(model, left.nodes) if model.dense_scores is None else None
    return NestedGiven(candidates, scores, model.dense_scores, transition, model.has_labels, is_required, model._kernel)


# ---- Candidates ------------------------------------------------------------------------------------------------------


def _left(model: FilteredSemiMarkov | NestedSegments, known, remove: bool, nested: bool) -> Left:
    nodes, dense = model.candidates.on_host(), model.dense_scores
    num_labels = len(model.transition) if dense is None else dense.shape[3]
    if dense is None and nested and not cast(NestedSegments, model).has_labels:
        num_labels = 1 + max(int(x.max(initial=1)) for x in (nodes.label, _most_labels(known)))
    widest = None if dense is None else dense.shape[2]
    flat = FlatKnown.of(known, model.candidates.lengths.cpu().numpy(), num_labels, widest, nested)
    return candidates_left(nodes, flat, model.candidates.num_tokens, nested, remove)


def _most_labels(known: Sequence[Known]) -> np.ndarray:
    return np.array([s.label for one in known for s in (*one.required, *one.forbidden) if len(s) == 3], np.int64)


def _candidates(nodes: FlatSegments, like: Candidates) -> Candidates:
    offsets, *columns = (torch.from_numpy(np.ascontiguousarray(column)).to(like.start.device) for column in nodes)
    start, end, label = columns
    widest = max(like.max_width, int((nodes.end - nodes.start).max(initial=1)))
    return Candidates(offsets, start, end, label, like.lengths, like.num_tokens, widest)


def _looked_up(model: FilteredSemiMarkov | NestedSegments, nodes: FlatSegments) -> Tensor:
    at = places_among(nodes, model.candidates.on_host())
    if (at < 0).any():
        k = int((at < 0).argmax())
        raise ValueError(
            f"required {named_at(nodes, k)} of sentence {nodes.sentence[k]} must be a candidate, since nothing else "
            "has a score: distributions made by from_scores have one for every span"
        )
    return model.scores.index_select(0, torch.from_numpy(at).to(model.scores.device))


def _without_pairs(transition: Tensor, banned: Collection[Pair]) -> Tensor:
    if not banned:
        return transition
    is_banned = torch.zeros(transition.shape, dtype=torch.bool)
    for first, second in banned:
        if not (0 <= first < len(transition) and 0 <= second < len(transition)):
            raise ValueError(f"a banned pair must be of labels below {len(transition)}, got ({first}, {second})")
        is_banned[first, second] = True
    return transition.masked_fill(is_banned.to(transition.device), -torch.inf)
