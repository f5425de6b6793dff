"""How far one distribution is from another: exact cross-entropy and Kullback-Leibler divergence, to distil models by.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from spansieve.crf.candidates import CandidateDistribution, scattered, span_ends
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
    known: exact, and allowed, where the student's transition is not learned and is zero or, of a semi-Markov student,
    constant. Tags of a linear chain and segments are never compared: what is between two segments follows from no
    marginal.
    """
    _check(teacher, student)
    marginals, counts = dense_marginals(teacher), teacher.transition_counts
    if _kind(teacher) is not _kind(student):
        marginals, counts = _across(marginals, counts, teacher, student)
    scores = student.scores
    if isinstance(student, CandidateDistribution) and scores.ndim > 1:  # what is no candidate has a score there
        scores = scores.flatten().index_select(0, student._index)
    scores = _dense(student, scores, -torch.inf)
    shape = [max(sizes) for sizes in zip(marginals.shape, scores.shape)]
    pairs = (
        (_padded(marginals, shape, 0.0), _padded(scores, shape, -torch.inf)),
        (counts, student.transition.expand_as(counts)),
    )
    log_partition = student.log_partition
    expected, is_infinite = torch.zeros_like(log_partition), log_partition == -torch.inf
    for probability, score in pairs:
        is_impossible = score == -torch.inf
        is_infinite = is_infinite | (is_impossible & (probability > 0)).flatten(1).any(1)
        expected = expected + (probability * score.masked_fill(is_impossible, 0.0)).flatten(1).sum(1)
    result = torch.where(is_infinite, torch.inf, log_partition - expected)
    return torch.where(teacher.log_partition > -torch.inf, result, 0.0)


def kl_divergence(teacher: Distribution, student: Distribution) -> Tensor:
    """Compute the exact Kullback-Leibler divergence KL(teacher ‖ student) in nats, (B,): at least 0, but for rounding.

    It is `cross_entropy` less the teacher's entropy, and infinite where that is. Both must be of one kind: otherwise
    their structures are not the same ones.
    """
    if _kind(teacher) is not _kind(student):
        raise ValueError(
            f"student must be a {_kind(teacher).__name__}, as the teacher is, got {_kind(student).__name__}"
        )
    return cross_entropy(teacher, student) - teacher.entropy()


def dense_marginals(distribution: Distribution) -> Tensor:
    """The marginals of any distribution as (B, L, K, Y); of a linear chain tags are labels, and K is 1."""
    return _dense(distribution, distribution.marginals, 0.0)


def _kind(distribution: Distribution) -> type[Distribution]:
    for kind in KINDS:
        if isinstance(distribution, kind):
            return kind
    raise TypeError(f"a distribution must be one of {', '.join(k.__name__ for k in KINDS)}, got {distribution!r}")


def _check(teacher: Distribution, student: Distribution) -> None:
    own, kind = _kind(teacher), _kind(student)
    if isinstance(student, (ChainGiven, NestedGiven)):
        raise ValueError(f"student must not be conditioned by given(), got {type(student).__name__}")
    if own is not kind and {own, kind} != {SemiMarkov, FilteredSemiMarkov}:
        raise ValueError(f"student must be a {own.__name__}, as the teacher is, got {kind.__name__}")
    if not torch.equal(teacher.lengths.cpu(), student.lengths.cpu()):
        raise ValueError("teacher and student must be over the same sentences, got other lengths")
    if (size := teacher.transition_counts.shape[1]) != len(student.transition):
        raise ValueError(f"teacher and student must have the same labels, got {size} and {len(student.transition)}")
    if isinstance(student, FilteredSemiMarkov) and not torch.as_tensor(student.skip).all():
        graphs = [_graph(x) if isinstance(x, FilteredSemiMarkov) else [] for x in (teacher, student)]
        if not graphs[0] or not all(map(torch.equal, *graphs)):
            raise ValueError("student must have skip=True, or else, as only maximal are paths, the teacher's graph")


def _graph(paths: FilteredSemiMarkov) -> list[Tensor]:
    c = paths.candidates
    columns = (c.offsets, c.start, c.end, c.label, torch.as_tensor(paths.skip).expand(len(c)))
    return [column.cpu() for column in columns]


def _across(marginals: Tensor, counts: Tensor, teacher: Distribution, student: Distribution) -> tuple[Tensor, Tensor]:
    """Segment marginals and expected transitions of a teacher of the other kind, as the student has them."""
    transition, is_filtered = student.transition, isinstance(student, FilteredSemiMarkov)
    allowed = torch.zeros_like(transition) if is_filtered else transition.detach()[:1, :1].expand_as(transition)
    if transition.requires_grad or not torch.equal(transition, allowed):
        raise ValueError(
            f"student must have a transition of {'zeros' if is_filtered else 'one number'} that is not learned, for a "
            f"teacher that is a {_kind(teacher).__name__}: which segments are neighbours follows from no marginal"
        )
    if is_filtered:
        return pad(marginals[..., 1:], (1, 0)), torch.zeros_like(counts)
    num_tokens = marginals.shape[1]
    change = pad(marginals.flatten(2).sum(2), (0, 1))  # (B, L + 1): where segments start, and then end
    ends = span_ends(marginals).clamp(max=num_tokens).flatten()
    covered = change.index_add(1, ends, -marginals.sum(3).flatten(1)).cumsum(1)[:, :-1]
    is_token = torch.arange(num_tokens, device=covered.device) < teacher.lengths[:, None]  # (B, L)
    null = torch.where(is_token, 1.0 - covered, 0.0).clamp(min=0.0)
    marginals = marginals + _padded(null[..., None, None], marginals.shape, 0.0)
    # There are as many transitions as segments, less one, and all have the same score: it matters not which they are.
    number = (marginals.flatten(1).sum(1) - 1.0).clamp(min=0.0)
    return marginals, number[:, None, None].expand_as(counts) / transition.numel()


def _dense(distribution: Distribution, values: Tensor, fill: float) -> Tensor:
    """Values of the parts as (B, L, K, Y), filled where there is no part."""
    if values.ndim > 1:
        return values if values.ndim == 4 else values[:, :, None]
    assert isinstance(distribution, CandidateDistribution)
    c = distribution.candidates
    num_labels = max(len(distribution.transition), 1 + int(c.label.max()) if len(c) else 1)
    shape = torch.Size((c.num_sentences, c.num_tokens, c.max_width, num_labels))
    return scattered(values, dense_index(c, shape), shape, fill)


def _padded(values: Tensor, shape: list[int] | torch.Size, fill: float) -> Tensor:
    """Values (B, L, K, Y) with more tokens, widths and labels."""
    _, tokens, widths, labels = (size - own for size, own in zip(shape, values.shape))
    return pad(values, (0, labels, 0, widths, 0, tokens), value=fill)
