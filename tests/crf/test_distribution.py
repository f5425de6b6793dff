"""What `Distribution` itself promises: gradients whenever they are wanted, and a new model from one recursion."""

from __future__ import annotations

import pytest
import torch

from spansieve.crf import Distribution, FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.gold import Parts
from spansieve.crf.kernels import reference
from tests.contract import check, check_gradients, check_samples, check_top_k
from tests.distributions import some_instance
from tests.oracle import Listed, Oracle

LENGTHS = [4, 2]
SEGMENTS = [[(0, 2, 1)], [(1, 2, 2)]]
COVER = [[(i, i + 1, 0) for i in range(length)] for length in LENGTHS]
TAGS = [[0] * length for length in LENGTHS]
MAKERS = {
    "filtered": (lambda s, t: FilteredSemiMarkov.from_scores(s.detach(), s, t, LENGTHS, SEGMENTS), SEGMENTS),
    "semi-Markov": (lambda s, t: SemiMarkov(s, t, LENGTHS), COVER),
    "linear chain": (lambda s, t: LinearChain(s[:, :, 0], t, LENGTHS), TAGS),
}


@pytest.mark.parametrize("model", MAKERS)
def test_a_look_without_gradients_takes_none_away(model):
    """Everything is asked for under no_grad first; the loss made afterwards has the gradient of one made at once."""
    make, gold = MAKERS[model]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(*s, generator=generator, requires_grad=True) for s in ((2, 4, 2, 3), (3, 3))]
    expected, distribution = make(*inputs), make(*inputs)
    with torch.no_grad():
        assert not distribution.log_partition.requires_grad
        assert not distribution.marginals.requires_grad
        distribution.entropy(), distribution.log_prob(gold)
    for ask in (lambda d: d.log_prob(gold), lambda d: d.log_partition, lambda d: d.entropy()):
        found, wanted = (torch.autograd.grad(ask(d).sum(), inputs, retain_graph=True) for d in (distribution, expected))
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("gold", [None, SEGMENTS])
def test_from_dense_scores_gradients_of_both_orders_are_those_of_the_reference(gold, skip):
    generator = torch.Generator().manual_seed(1)
    shape = (2, 4, 2, 3)
    local_scores = torch.randn(*shape, generator=generator)
    inputs = [torch.randn(*s, generator=generator, dtype=torch.float64, requires_grad=True) for s in (shape, (3, 3))]
    weight = torch.tensor([2.0, -0.5], dtype=torch.float64)
    found = []
    for kernel in (None, reference):
        distribution = FilteredSemiMarkov.from_scores(local_scores, *inputs, LENGTHS, gold, skip, kernel=kernel)
        first = torch.autograd.grad((weight * distribution.log_partition).sum(), inputs, create_graph=True)
        squares = sum((gradient**2).sum() for gradient in first)
        found.append((*first, *torch.autograd.grad(squares, inputs), distribution.mode))
    assert found[0][-1] == found[1][-1]
    torch.testing.assert_close(found[0][:-1], found[1][:-1])


def test_what_is_handed_out_may_be_written_to():
    make, gold = MAKERS["filtered"]
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(*s, generator=generator, requires_grad=True) for s in ((2, 4, 2, 3), (3, 3))]
    expected, distribution = make(*inputs), make(*inputs)
    with torch.no_grad():
        for handed_out in (distribution.log_partition, distribution.marginals, distribution.transition_counts):
            handed_out.zero_()
    for ask in (lambda d: d.log_prob(gold), lambda d: d.log_partition):
        torch.testing.assert_close(ask(distribution), ask(expected))
        found, wanted = (torch.autograd.grad(ask(d).sum(), inputs) for d in (distribution, expected))
        torch.testing.assert_close(found, wanted)


def test_made_without_gradients_there_are_none():
    scores, transition = torch.randn(2, 4, 2, 3, requires_grad=True), torch.randn(3, 3)
    with torch.no_grad():
        distribution = FilteredSemiMarkov.from_scores(scores, scores, transition, LENGTHS)
    assert not distribution.log_partition.requires_grad
    assert not distribution.scores.requires_grad
    assert not distribution.marginals.requires_grad


class OneToken(Distribution):
    """A model that nobody wrote a kernel for: exactly one token of the sentence is marked. A structure is its index."""

    def __init__(self, scores: torch.Tensor, lengths: list[int]) -> None:
        self.lengths = lengths
        super().__init__(scores, torch.zeros(1, 1, dtype=scores.dtype, requires_grad=True), len(lengths))

    def _total(self, semiring, scores, transition):
        one = semiring.one(scores)[:, None]
        totals = [semiring.plus(one + scores[:, b, :length], dim=-1) for b, length in enumerate(self.lengths)]
        return torch.stack(totals, dim=1)

    def _parts(self, structures):
        token = torch.tensor(structures).numpy()
        sentence = torch.arange(len(structures)).numpy()
        place = sentence * self.scores.shape[1] + token
        return Parts.of(place, sentence, 0 * token, len(structures), 1)

    def _structures(self, is_part):
        return [int(row.int().argmax()) for row in is_part]


def test_a_new_distribution_is_one_recursion():
    scores, lengths = some_instance().scores[:, :, 0, 0], [4, 1, 3, 2]
    listed = [[Listed(i, ((b, i),), (0,), (i,)) for i in range(length)] for b, length in enumerate(lengths)]
    tensor = torch.tensor(scores, requires_grad=True)
    oracle, distribution = Oracle(listed, scores, torch.zeros(1, 1).numpy()), OneToken(tensor, lengths)
    check(distribution, oracle, is_exact=False)
    check_top_k(distribution, oracle, 3)
    check_samples(distribution, oracle)
    check_gradients(distribution)
