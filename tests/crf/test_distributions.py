"""Every distribution against enumeration, on the reference and the compiled kernel."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spansieve.crf import FilteredSemiMarkov
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from tests import oracle
from tests.contract import check, check_best, check_gradients, check_samples, check_top_k, close, rounding
from tests.distributions import MODELS, pair, remaker, some_instance
from tests.instances import gold_for, instances

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances())
@settings(max_examples=60, deadline=None)
def test_equals_enumeration(model, kernel, drawn):
    check(*pair(model, drawn, kernel), drawn.is_exact)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances(most_tokens=3, most_sentences=2))
@settings(max_examples=40, deadline=None)
def test_gradients_are_the_marginals(model, kernel, drawn):
    check_gradients(pair(model, drawn, kernel, requires_grad=True)[0])


@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances(most_tokens=3, most_sentences=2), k=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_top_k_equals_enumeration(model, drawn, k):
    check_top_k(*pair(model, drawn, None), k)


@pytest.mark.parametrize("model", MODELS)
def test_samples_come_with_their_probabilities(model):
    check_samples(*pair(model, some_instance(), None))


def test_samples_repeat_with_their_generator():
    distribution, _ = pair("semi_markov", some_instance(), None)
    first, second = (distribution.sample(5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
def test_gradcheck(model, kernel):
    """First and second derivatives against finite differences."""
    drawn = some_instance()
    distribution, _ = pair(model, drawn, kernel, requires_grad=True)
    remake = remaker(model, drawn, kernel)
    inputs = (distribution.scores.detach().requires_grad_(), distribution.transition.detach().requires_grad_())
    assert torch.autograd.gradcheck(lambda s, t: remake(s, t).log_partition, inputs)
    assert torch.autograd.gradcheck(lambda s, t: remake(s, t).entropy(), inputs)
    assert torch.autograd.gradgradcheck(lambda s, t: remake(s, t).log_partition, inputs)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("skip", [False, True])
@given(data=st.data(), drawn=instances())
@settings(max_examples=60, deadline=None)
def test_from_dense_scores(kernel, skip, data, drawn):
    """Dense scores in: the same as filtering first, with and without gold, and marginals shaped like the scores."""
    _, _, max_width, num_labels = drawn.scores.shape
    gold = data.draw(st.sampled_from([None, "some"]))
    gold = gold and gold_for(data.draw, drawn.lengths, max_width, num_labels)
    dense = FilteredSemiMarkov.from_scores(
        drawn.tensor(drawn.local_scores), drawn.tensor(drawn.scores), drawn.tensor(drawn.transition), drawn.lengths,
        gold=gold, skip=skip, kernel=kernel,
    )  # fmt: skip
    if gold is None:
        kept = oracle.kept_by_filter(drawn.local_scores, drawn.lengths)
    else:
        kept = oracle.kept_for_training(drawn.local_scores, drawn.lengths, gold, skip)
    assert [sorted(nodes) for nodes in dense.candidates.segments()] == kept
    c = dense.candidates
    flat = drawn.scores[tuple(x.numpy() for x in (c.sentence, c.start, c.end - c.start - 1, c.label))]
    expected = oracle.filtered(kept, flat, drawn.transition, skip)
    marginals = np.zeros(drawn.scores.shape)
    marginals[tuple(x.numpy() for x in (c.sentence, c.start, c.end - c.start - 1, c.label))] = expected.marginals
    within = rounding(dense, expected)
    close(dense.log_partition, expected.log_partition, within.sums)
    close(dense.marginals, marginals, within.shares)
    close(dense.entropy(), expected.entropy(), within.entropy)
    check_best(dense, expected, drawn.is_exact)
    is_finite = np.isfinite(drawn.scores).all() and np.isfinite(drawn.transition).all()
    if gold is not None and is_finite:
        assert (dense.log_prob(gold) <= within.sums).all()
