"""A distribution is freed as soon as nobody holds it: a cycle would keep a batch alive until the collector comes by."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from spansieve.crf import FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.filtered_semi_markov import FilteredOnCpuDense

LENGTHS = [8, 5]
SEGMENTS = [[(0, 2, 1)], [(3, 4, 2)]]
COVER = [[(i, i + 1, 0) for i in range(length)] for length in LENGTHS]
TAGS = [[0] * length for length in LENGTHS]


def filtered(scores, transition):
    return FilteredSemiMarkov.from_scores(scores.detach() * 0.5, scores, transition, LENGTHS, SEGMENTS)


def filtered_over_every_span(scores, transition):
    local_scores = torch.cat((torch.full_like(scores[..., :1], -torch.inf), scores[..., 1:].detach()), -1)
    arguments = (local_scores, scores, transition, LENGTHS, SEGMENTS)
    distribution = FilteredSemiMarkov.from_scores(*arguments, skip=True, labels_per_span=3)
    assert isinstance(distribution, FilteredOnCpuDense)
    return distribution


def semi_markov(scores, transition):
    return SemiMarkov(scores, transition, LENGTHS)


def linear_chain(scores, transition):
    return LinearChain(scores[:, :, 0], transition, LENGTHS)


@pytest.mark.parametrize(
    ("make", "gold"),
    [(filtered, SEGMENTS), (filtered_over_every_span, SEGMENTS), (semi_markov, COVER), (linear_chain, TAGS)],
)
def test_everything_asked_and_nothing_kept(make, gold):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 8, 3, 4, generator=generator, requires_grad=True)
    transition = torch.randn(4, 4, generator=generator, requires_grad=True)
    warm = make(scores, transition)  # compiled before: a compiler's own frames hold what they were called with
    assert warm.mode
    (warm.entropy().sum() - warm.log_prob(gold).sum() + warm.log_partition.sum()).backward()
    assert warm.marginals.requires_grad
    gc.disable()
    try:
        distribution = make(scores, transition)
        loss = distribution.entropy().sum() - distribution.log_prob(gold).sum() + distribution.log_partition.sum()
        loss.backward()
        assert distribution.mode
        assert distribution.marginals.requires_grad
        held = weakref.ref(distribution)
        del distribution, loss
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [filtered, filtered_over_every_span, semi_markov, linear_chain])
@pytest.mark.parametrize("ask", ["log_partition", "marginals", "transition_counts"])
def test_nor_does_the_graph_hold_itself(make, ask):
    """What a node of the graph holds must not hold the node: such a cycle no collector can see through."""
    scores, transition = torch.randn(2, 8, 3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    getattr(make(scores, transition), ask)  # compiled before: a compiler's own frames hold what they were called with
    gc.disable()
    try:
        distribution = make(scores, transition)
        asked = getattr(distribution, ask)
        node = asked.grad_fn
        while not hasattr(node, "distribution"):
            node = next(follower for follower, _ in node.next_functions if follower is not None)
        held = weakref.ref(node.distribution)
        del distribution, asked, node
        assert held() is None
    finally:
        gc.enable()
