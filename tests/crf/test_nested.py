"""Laminar sets: several labels on a span, identities with other models, and what is refused."""

from __future__ import annotations

import math
import re

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spansieve import Segment
from spansieve.crf import Candidates, FilteredSemiMarkov, Gold, NestedSegments
from spansieve.crf.kernels import cpu, reference
from spansieve.crf.kernels.cpu import jit, torch_api
from tests import oracle
from tests.contract import check, check_gradients, check_samples, check_top_k
from tests.instances import EXTREME, IMPOSSIBLE, PLAIN, TIES

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


@st.composite
def nested_pairs(draw, most: int = 8):
    """What makes a distribution by a kernel, its oracle, and whether its scores have ties. Any labels on any span."""
    elements = draw(st.sampled_from([PLAIN, TIES, EXTREME, IMPOSSIBLE]))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    nodes = [draw(st.sets(segments_within(length), max_size=most)) if length else set() for length in lengths]
    lists = [sorted(found, key=lambda s: (s.end, s.start, s.label)) for found in nodes]
    scores = np.array([draw(elements) for found in lists for _ in found], np.float64)
    has_labels = draw(st.booleans())
    transition = np.array([draw(elements) for _ in range(9)]).reshape(3, 3) if has_labels else None

    def make(kernel, requires_grad=False):
        tensors = [None if x is None else torch.tensor(x, dtype=dtype) for x in (scores, transition)]
        for tensor in tensors:
            if tensor is not None:
                tensor.requires_grad_(requires_grad)
        return NestedSegments(Candidates.from_lists(lists, lengths), *tensors, kernel=kernel)

    return make, oracle.nested(lists, scores, transition), elements is TIES


def segments_within(length: int):
    places = st.tuples(st.integers(0, length - 1), st.integers(1, length), st.integers(1, 2))
    return places.filter(lambda s: s[0] < s[1]).map(lambda s: Segment(*s))


@every_kernel
@given(drawn=nested_pairs())
@settings(max_examples=80, deadline=None)
def test_equals_enumeration(kernel, drawn):
    make, listed, is_exact = drawn
    check(make(kernel), listed, is_exact)


@given(drawn=nested_pairs(most=6), k=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_top_k_equals_enumeration(drawn, k):
    make, listed, _ = drawn
    check_top_k(make(None), listed, k)


@every_kernel
@given(drawn=nested_pairs(most=6))
@settings(max_examples=30, deadline=None)
def test_gradients_are_the_marginals(kernel, drawn):
    distribution = drawn[0](kernel, requires_grad=True)
    distribution.transition.requires_grad_()  # without labels it is a constant of its own
    check_gradients(distribution)


@pytest.mark.parametrize("has_labels", [False, True])
def test_samples_come_with_their_probabilities(has_labels):
    lists = [[Segment(0, 2, 1), Segment(0, 1, 2), Segment(1, 2, 1), Segment(1, 3, 2), Segment(0, 3, 1)], []]
    random = np.random.default_rng(0)
    scores, transition = random.normal(size=5), random.normal(size=(3, 3)) if has_labels else None
    tensors = [None if x is None else torch.tensor(x) for x in (scores, transition)]
    distribution = NestedSegments(Candidates.from_lists(lists, [3, 1]), *tensors)
    check_samples(distribution, oracle.nested(lists, scores, transition))


# ---- Counting and identities -----------------------------------------------------------------------------------------


def every_span(length: int, max_width: int, num_labels: int = 1) -> list[Segment]:
    return [
        Segment(i, j, y)
        for j in range(1, length + 1)
        for i in range(max(0, j - max_width), j)
        for y in range(1, num_labels + 1)
    ]


@pytest.mark.parametrize("length", [1, 2, 5, 9, 14])
def test_the_sets_are_as_many_as_schroeder_counts(length):
    """Bracketings of n letters are counted by the large Schröder numbers; each letter may be a segment too: 2ⁿ."""
    schroeder = [1, 2]
    for n in range(2, length):
        schroeder.append((3 * (2 * n - 1) * schroeder[-1] - (n - 2) * schroeder[-2]) // (n + 1))
    nodes = every_span(length, length)
    scores = torch.zeros(len(nodes), dtype=torch.float64)
    log_partition = NestedSegments(Candidates.from_lists([nodes], [length]), scores).log_partition
    assert math.isclose(float(log_partition.exp()), 2**length * schroeder[length - 1], rel_tol=1e-12)


def random_model(seed: int, lengths=(17, 0, 30, 4), max_width: int = 6, num_labels: int = 3, share: float = 0.5):
    random = np.random.default_rng(seed)
    lists = [[s for s in every_span(n, max_width, num_labels - 1) if random.random() < share] for n in lengths]
    candidates = Candidates.from_lists(lists, list(lengths))
    scores = torch.tensor(random.normal(size=len(candidates)))
    return candidates, scores, torch.tensor(random.normal(size=(num_labels, num_labels)))


def test_without_nesting_it_is_the_filtered_model_that_may_skip():
    """A label that may be in no other: what is left are sets of disjoint segments."""
    for seed in range(10):
        candidates, scores, transition = random_model(seed)
        transition[0], transition[1:] = 0.0, -torch.inf
        ours = NestedSegments(candidates, scores, transition)
        flat = FilteredSemiMarkov(candidates, scores, torch.zeros_like(transition), skip=True)
        torch.testing.assert_close(ours.log_partition, flat.log_partition, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.marginals, flat.marginals, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(ours.max_score, flat.max_score, rtol=1e-12, atol=1e-12)
        assert ours.mode == flat.mode


def test_a_transition_of_zeros_is_none():
    candidates, scores, transition = random_model(0)
    ours = NestedSegments(candidates, scores)
    zeros = NestedSegments(candidates, scores, torch.zeros_like(transition))
    torch.testing.assert_close(ours.log_partition, zeros.log_partition)
    torch.testing.assert_close(ours.marginals, zeros.marginals)
    assert ours.mode == zeros.mode
    torch.testing.assert_close(ours.transition_counts.sum((1, 2)), zeros.transition_counts.sum((1, 2)))


def test_every_segment_has_one_container_or_the_sentence():
    candidates, scores, transition = random_model(1)
    distribution = NestedSegments(candidates, scores, transition)
    expected = torch.zeros(4, dtype=torch.float64).index_add(0, candidates.sentence, distribution.marginals)
    torch.testing.assert_close(distribution.transition_counts.sum((1, 2)), expected)


@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_kernels_agree_where_enumeration_ends(dtype, share):
    candidates, scores, transition = random_model(2, lengths=(15, 9), share=share)
    scores, transition = 3 * scores.to(dtype), transition.to(dtype)
    for around in (None, transition):
        ours, expected = (NestedSegments(candidates, scores, around, kernel=k) for k in (torch_api, reference))
        for name in ("log_partition", "marginals", "transition_counts", "max_score"):
            torch.testing.assert_close(getattr(ours, name), getattr(expected, name), rtol=1e-4, atol=1e-5)
        assert ours.mode == expected.mode
        torch.testing.assert_close(ours.score(ours.mode), ours.max_score)


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(jit, "WORTH_A_THREAD", 1)
    c, scores, transition = random_model(3, lengths=(9, 0, 5, 12, 7, 1))
    arrays = [x.numpy() for x in (c.offsets, c.start, c.end, c.label, scores, transition, c.lengths)]
    for run in (cpu.nested_sums, cpu.nested_best):
        for one, several in zip(run(*arrays, threads=1), run(*arrays, threads=3)):
            assert (one == several).all()


def test_a_container_comes_before_what_it_contains():
    lists = [[Segment(0, 1, 1), Segment(0, 4, 1), Segment(2, 4, 2), Segment(2, 3, 1)]]
    distribution = NestedSegments(Candidates.from_lists(lists, [5]), torch.ones(4))
    assert distribution.mode == [((0, 4, 1), (0, 1, 1), (2, 4, 2), (2, 3, 1))]
    assert distribution.log_prob([sorted(lists[0])]) == distribution.log_prob(distribution.mode)  # in any order


# ---- From dense scores -----------------------------------------------------------------------------------------------


@every_kernel
def test_from_dense_scores_with_nested_gold(kernel):
    generator = torch.Generator().manual_seed(0)
    local_scores, scores = torch.randn(2, 2, 5, 3, 3, generator=generator, dtype=torch.float64)
    transition = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    gold = [[Segment(0, 3, 1), Segment(0, 2, 2), Segment(1, 2, 1)], []]
    scores.requires_grad_()
    dense = NestedSegments.from_scores(local_scores, scores, transition, [5, 3], gold, kernel=kernel)
    kept = oracle.kept_for_training(local_scores.numpy(), [5, 3], gold, skip=True)
    assert [sorted(nodes) for nodes in dense.candidates.segments()] == kept
    expected = oracle.nested(kept, dense.scores.detach().numpy(), transition.numpy())
    assert dense.marginals.shape == scores.shape
    torch.testing.assert_close(dense.marginals.sum(), torch.tensor(expected.marginals.sum()))
    ready = Gold.from_segments(gold, scores.shape, [5, 3])
    log_prob = dense.log_prob(ready)
    torch.testing.assert_close(log_prob, dense.log_prob(gold))
    (gradient,) = torch.autograd.grad(log_prob.sum(), scores)
    has_gold = torch.zeros_like(scores)
    for b, segments in enumerate(gold):
        for s in segments:
            has_gold[b, s.start, s.width - 1, s.label] = 1.0
    torch.testing.assert_close(gradient, has_gold - dense.marginals.detach())


# ---- What is refused -------------------------------------------------------------------------------------------------


def raises(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


@every_kernel
@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([(0, 4, 2)], "segmentation 1 is outside the support: segment (0, 4, 2) is no candidate"),
        ([(0, 2, 1), (1, 3, 1)], "segment (0, 2, 1) and segment (1, 3, 1) cross: one must contain the other"),
        ([(0, 4, 1), (1, 3, 1), (0, 2, 1)], "segment (0, 2, 1) and segment (1, 3, 1) cross: one must contain the"),
        ([(0, 2, 2), (0, 2, 1)], "segment (0, 2, 2) and segment (0, 2, 1) have one span, which is taken once"),
        ([(0, 2, 1), (0, 2, 1)], "segment (0, 2, 1) and segment (0, 2, 1) have one span, which is taken once"),
    ],
)
def test_what_is_not_laminar(segments, message, kernel):
    nodes = [(0, 4, 1), (0, 2, 1), (0, 2, 2), (1, 3, 1), (3, 4, 1)]
    distribution = NestedSegments(Candidates.from_lists([[], nodes], [2, 4]), torch.zeros(5), kernel=kernel)
    assert distribution.log_prob([[], [(0, 2, 1), (0, 4, 1), (3, 4, 1)]]).isfinite().all()
    with raises(message):
        distribution.log_prob([[], segments])
    with raises(message):
        distribution.score([[], segments])


def test_arguments_that_cannot_be():
    candidates = Candidates.from_lists([[(0, 1, 2)]], [1])
    with raises("scores must be one per candidate, 1, got 2"):
        NestedSegments(candidates, torch.zeros(2))
    with raises("transition must have a row for each label up to 2, got 2"):
        NestedSegments(candidates, torch.zeros(1), torch.zeros(2, 2))
    with raises("must have one shape, got (1, 1, 1, 3) and (1, 1, 1, 2)"):
        NestedSegments.from_scores(torch.zeros(1, 1, 1, 3), torch.zeros(1, 1, 1, 2), None, [1])
    with raises("gold must be made by Gold.from_segments for a model of segments, got one of tags"):
        NestedSegments(candidates, torch.zeros(1)).log_prob(Gold.from_tags([[0]], (1, 1, 2)))


def test_the_empty_set_is_always_possible():
    candidates = Candidates.from_lists([[(0, 1, 1), (0, 2, 1)]], [2])
    distribution = NestedSegments(candidates, torch.full((2,), -torch.inf))
    assert distribution.log_partition.item() == distribution.max_score.item() == 0.0
    assert distribution.mode == [()]
    with raises("structure 0 is outside the support: a part of it has a score of -inf"):
        distribution.log_prob([[(0, 1, 1)]])
