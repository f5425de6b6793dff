"""How far one distribution is from another: exact cross-entropy and Kullback-Leibler divergence, to distil models by.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spansieve.crf.candidates import CandidateDistribution, span_ends
from spansieve.crf.conditioning import ChainGiven, NestedGiven
from spansieve.crf.distribution import Distribution
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import dense_index
from spansieve.crf.linear_chain import LinearChain
from spansieve.crf.nested import NestedSegments
from spansieve.crf.semi_markov import SemiMarkov

KINDS = (LinearChain, SemiMarkov, FilteredSemiMarkov, NestedSegments)


def cross_entropy(teacher: Distribution, student: Distribution) -> Tensor:
    """Compute the exact cross-entropy -E[log P(structure)] in nats, (B,): the structure is the teacher's, P the
    student's.

    It is log Z of the student less the teacher's expected score of the student's parts and transitions: one sweep of
    each. Both are of one kind, over the same sentences and labels; widths and candidates may differ. It is infinite,
    without a gradient, where the student has no probability for what the teacher has some for, and 0 where the teacher
    has no structure at all. Gradients reach the student, and the teacher where it is tracked.

    A filtered student over maximal paths needs the teacher's own candidates; with `skip=True` it may have any. From a
    semi-Markov teacher to a filtered student, or back with null segments of width 1, segment marginals are all that is
    known: exact, and allowed, where the student's transition is zero, and constant from a filtered teacher to a
    semi-Markov student, and is not learned. Tags of a linear chain and segments are never compared: what is between two
    segments follows from no marginal.
    """
    kind = _checked_kind(teacher, student)
    marginals, counts = dense_marginals(teacher), teacher.transition_counts
    transition = student.transition
    if not isinstance(teacher, kind):
        marginals, counts = _across(marginals, teacher, student)
    scores = _dense(student, _scores_of(student), -torch.inf)
    shape = [max(sizes) for sizes in zip(marginals.shape, scores.shape)]
    marginals, scores = _padded(marginals, shape, 0.0), _padded(scores, shape, -torch.inf)
    expected, is_missing = torch.zeros_like(student.log_partition), student.log_partition == -torch.inf
    for probability, score in ((marginals, scores), (counts, transition.expand_as(counts))):
        is_impossible = score == -torch.inf
        is_missing = is_missing | (is_impossible & (probability > 0)).flatten(1).any(1)
        product = probability * score.masked_fill(is_impossible, 0.0)
        expected = expected + product.flatten(1).sum(1)
    result = torch.where(is_missing, torch.inf, student.log_partition - expected)
    return torch.where(teacher.log_partition > -torch.inf, result, 0.0)


def kl_divergence(teacher: Distribution, student: Distribution) -> Tensor:
    """Compute the exact Kullback-Leibler divergence KL(teacher ‖ student) in nats, (B,): at least 0, but for rounding.

    It is `cross_entropy` less the teacher's entropy, and infinite where that is. Both must be of one kind: otherwise
    their structures are not the same ones.
    """
    if type_of(teacher) is not type_of(student):
        raise ValueError(f"student must be a {type_of(teacher).__name__}, as the teacher is, got {_name(student)}")
    return cross_entropy(teacher, student) - teacher.entropy()


def dense_marginals(distribution: Distribution) -> Tensor:
    """The marginals of any distribution as (B, L, K, Y); of a linear chain tags are labels, and K is 1."""
    return _dense(distribution, distribution.marginals, 0.0)


def type_of(distribution: Distribution) -> type[Distribution]:
    """The kind of a distribution, whatever computes it."""
    kind = next((kind for kind in KINDS if isinstance(distribution, kind)), None)
    if kind is None:
        raise TypeError(f"a distribution must be one of {', '.join(k.__name__ for k in KINDS)}, got {distribution!r}")
    return kind


def _checked_kind(teacher: Distribution, student: Distribution) -> type[Distribution]:
    if isinstance(student, (ChainGiven, NestedGiven)):
        raise ValueError(f"student must not be conditioned by given(), got {_name(student)}")
    own, kind = type_of(teacher), type_of(student)
    if own is not kind and {own, kind} != {SemiMarkov, FilteredSemiMarkov}:
        others = "" if own not in (SemiMarkov, FilteredSemiMarkov) else ", or SemiMarkov, or FilteredSemiMarkov"
        raise ValueError(f"student must be a {own.__name__}, as the teacher is{others}, got {_name(student)}")
    if not torch.equal(_lengths(teacher).cpu(), _lengths(student).cpu()):
        raise ValueError("teacher and student must be over the same sentences, got other lengths")
    if (size := teacher.transition_counts.shape[1]) != len(student.transition):
        sizes = f"{size} and {len(student.transition)}"
        raise ValueError(f"teacher and student must have the same labels, got {sizes} of them")
    if isinstance(student, FilteredSemiMarkov) and not _may_take_any(student) and not _is_same_graph(teacher, student):
        raise ValueError(
            "student must have skip=True, or the candidates and skip of the teacher: only maximal are paths"
        )
    return kind


def _may_take_any(student: FilteredSemiMarkov) -> bool:
    return bool(student.skip.all()) if isinstance(student.skip, Tensor) else student.skip


def _is_same_graph(teacher: Distribution, student: FilteredSemiMarkov) -> bool:
    if not isinstance(teacher, FilteredSemiMarkov):
        return False
    own, other = teacher.candidates, student.candidates
    columns = ([c.offsets, c.start, c.end, c.label] for c in (own, other))
    skips = (torch.as_tensor(d.skip).expand(len(d.candidates)) for d in (teacher, student))
    return all(torch.equal(x.cpu(), y.cpu()) for x, y in [*zip(*columns), tuple(skips)])


def _across(marginals: Tensor, teacher: Distribution, student: Distribution) -> tuple[Tensor, Tensor]:
    """Segment marginals and expected transitions of a teacher of the other kind, as the student has them."""
    transition, to_filtered = student.transition, isinstance(student, FilteredSemiMarkov)
    allowed = torch.zeros_like(transition) if to_filtered else transition.detach().flatten()[0].expand_as(transition)
    if transition.requires_grad or not torch.equal(transition, allowed) or not allowed.isfinite().all():
        raise ValueError(
            f"student must have a transition of {'zeros' if to_filtered else 'one number'} that is not learned, for a "
            f"teacher that is a {type_of(teacher).__name__}: which segments are neighbours follows from no marginal"
        )
    if to_filtered:
        marginals = torch.cat((torch.zeros_like(marginals[..., :1]), marginals[..., 1:]), -1)
        return marginals, torch.zeros_like(teacher.transition_counts)
    num_tokens = marginals.shape[1]
    change = torch.nn.functional.pad(marginals.flatten(2).sum(2), (0, 1))  # (B, L + 1): where segments start, and end
    ends = span_ends(marginals).clamp(max=num_tokens).flatten()
    covered = change.index_add(1, ends, -marginals.sum(3).flatten(1)).cumsum(1)[:, :-1]
    is_token = torch.arange(num_tokens, device=covered.device) < _lengths(teacher)[:, None]  # (B, L)
    null = torch.where(is_token, 1.0 - covered, 0.0).clamp(min=0.0)
    marginals = marginals + _padded(null[..., None, None], list(marginals.shape), 0.0)
    # There are as many transitions as segments, less one, and all have the same score.
    counts = (marginals.flatten(1).sum(1) - 1.0).clamp(min=0.0)[:, None, None]
    return marginals, _padded(counts[:, None], [len(counts), 1, *transition.shape], 0.0)[:, 0]


def _dense(distribution: Distribution, values: Tensor, fill: float) -> Tensor:
    """Values of the parts as (B, L, K, Y), filled where there is no part."""
    if values.ndim > 1:
        return values if values.ndim == 4 else values[:, :, None]
    assert isinstance(distribution, CandidateDistribution)
    c = distribution.candidates
    num_labels = max(len(distribution.transition), 1 + int(c.label.max()) if len(c) else 1)
    shape = torch.Size((c.num_sentences, c.num_tokens, c.max_width, num_labels))
    return values.new_full((shape.numel(),), fill).index_put((dense_index(c, shape),), values).view(shape)


def _scores_of(distribution: Distribution) -> Tensor:
    """The scores of the parts; of candidates flat, so that what is none has no score."""
    scores = distribution.scores
    if isinstance(distribution, CandidateDistribution) and scores.ndim > 1:
        return scores.flatten().index_select(0, distribution._index)
    return scores


def _padded(values: Tensor, shape: list[int], fill: float) -> Tensor:
    """Values (B, L, K, Y) with more tokens, widths and labels."""
    more = [size - own for size, own in zip(shape, values.shape)]
    return torch.nn.functional.pad(values, [0, more[3], 0, more[2], 0, more[1]], value=fill)


def _lengths(distribution: Any) -> Tensor:
    return distribution.candidates.lengths if isinstance(distribution, CandidateDistribution) else distribution.lengths


def _name(distribution: Distribution) -> str:
    return type(distribution).__name__
