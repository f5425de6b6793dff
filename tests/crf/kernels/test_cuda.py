"""The Triton kernels pass the same contract: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from spansieve import Segment
from spansieve.crf import Distribution, FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.kernels.cpu import torch_api
from tests.contract import EPSILON, ROOM, check_best, check_sums, close
from tests.distributions import MODELS, pair
from tests.instances import gold_for, instances

cuda = pytest.importorskip("spansieve.crf.kernels.cuda", reason="needs Triton", exc_type=ImportError)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXAMPLES = 12  # the interpreter takes about a tenth of a second for each launch
on_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances(most_tokens=4, most_sentences=2))
@settings(max_examples=EXAMPLES, deadline=None)
def test_equals_enumeration(model, drawn):
    distribution, oracle = pair(model, drawn._replace(device=DEVICE), cuda)
    check_sums(distribution, oracle)
    check_best(distribution, oracle, drawn.is_exact)


def near(ours: Distribution, expected: Distribution) -> None:
    """As near as two sums in float64 that are rounded once: to the size of log Z, and to that of a probability."""
    finite = expected.scores[expected.scores.isfinite()], expected.transition[expected.transition.isfinite()]
    added_up = sum(float(part.abs().max()) if part.numel() else 0.0 for part in finite) * (2 * 40)  # tokens at most
    dtype, wide = expected.scores.dtype, torch.float64
    epsilon = ROOM[dtype] * EPSILON[dtype]
    close(ours.log_partition, expected.log_partition.double().numpy(), epsilon * max(1.0, added_up))
    shares = epsilon + 2 * ROOM[wide] * EPSILON[wide] * added_up
    close(ours.marginals, expected.marginals.double().numpy(), shares)
    close(ours.transition_counts, expected.transition_counts.double().numpy(), 40 * shares)


LIMITS = st.sampled_from([{}, {}, {"labels_per_span": 2}, {"labels_per_span": 9}, {"labels_per_span": 3, "budget": 4}])


@pytest.mark.parametrize("skip", [False, True])
@given(data=st.data(), drawn=instances(most_tokens=5, most_sentences=2), limits=LIMITS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_dense_form_equals_the_compiled_one(skip, data, drawn, limits):
    """From dense scores and gold: mask, sweep and marginals, without ever listing the candidates."""
    _, _, max_width, num_labels = drawn.scores.shape
    gold = (data.draw(st.booleans()) and gold_for(data.draw, drawn.lengths, max_width, num_labels)) or None
    arrays = (drawn.local_scores, drawn.scores, drawn.transition)
    made = []
    for kernel, device in ((cuda, DEVICE), (torch_api, "cpu")):
        tensors = [drawn._replace(device=device).tensor(x) for x in arrays]
        made.append(FilteredSemiMarkov.from_scores(*tensors, drawn.lengths, gold, skip, kernel=kernel, **limits))
    near(*made)
    assert (made[0].max_score.cpu() == made[1].max_score).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_copied_whole_and_what_is_picked_out_have_the_same_best(dtype, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 7, 4, 3, generator=generator, dtype=dtype)
    scores[0, 0, 0, 1] = -torch.inf
    is_candidate = torch.rand(scores.shape, generator=generator) < 0.3
    is_candidate[..., 0] = False
    transition, lengths = torch.randn(3, 3, generator=generator, dtype=dtype), torch.tensor([7, 7, 7])
    inputs = [tensor.to(DEVICE) for tensor in (is_candidate, scores, transition, lengths)]
    best, paths = cuda.dense_filtered_best(*inputs, skip=True)
    assert any(paths)
    monkeypatch.setattr(cuda, "_COPIED_WHOLE", 0)
    picked, same_paths = cuda.dense_filtered_best(*inputs, skip=True)
    assert paths == same_paths
    assert best.tolist() == picked.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_longer_and_wider_than_a_tile(dtype):
    """More labels and widths than one power of two holds, rings that wrap many times, against the compiled kernel."""
    work = random_batch(dtype)
    for make in (
        lambda w, kernel: LinearChain(w.scores[:, :, 0], w.transition, w.lengths, kernel=kernel),
        lambda w, kernel: SemiMarkov(w.scores, w.transition, w.lengths, kernel=kernel),
        lambda w, kernel: FilteredSemiMarkov.from_scores(*w, kernel=kernel),
        lambda w, kernel: FilteredSemiMarkov.from_scores(*w, skip=True, kernel=kernel),
        lambda w, kernel: flat(FilteredSemiMarkov.from_scores(*w), w.scores, w.transition, kernel),
    ):
        ours, expected = make(work.to(DEVICE), cuda), make(work, torch_api)
        near(ours, expected)
        assert ours.mode == expected.mode
        assert (ours.max_score.cpu() == expected.max_score).all()


class Batch(NamedTuple):
    local_scores: torch.Tensor
    scores: torch.Tensor
    transition: torch.Tensor
    lengths: list[int]

    def to(self, device: str) -> Batch:
        return Batch(*(tensor.to(device) for tensor in self[:3]), self.lengths)


def random_batch(dtype: torch.dtype) -> Batch:
    generator = torch.Generator().manual_seed(1)
    shapes = ((3, 40, 5, 9), (3, 40, 5, 9), (9, 9))
    local_scores, scores, transition = (torch.randn(*s, dtype=dtype, generator=generator) for s in shapes)
    local_scores[..., 0] += 2.0
    return Batch(local_scores, scores, transition, [40, 0, 17])


def flat(dense: FilteredSemiMarkov, scores: torch.Tensor, transition: torch.Tensor, kernel) -> FilteredSemiMarkov:
    """The same candidates with other scores, one for each."""
    return FilteredSemiMarkov(dense.candidates, scores.flatten()[: len(dense.candidates)], transition, kernel=kernel)


@on_gpu
def test_the_loss_never_makes_the_host_wait():
    work = random_batch(torch.float32).to("cuda")
    gold = [[Segment(1, 3, 2), Segment(5, 6, 1)], [], [Segment(0, 4, 8)]]
    scores, transition = work.scores.requires_grad_(), work.transition.requires_grad_()
    tags = [[0] * length for length in work.lengths]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        filtered = FilteredSemiMarkov.from_scores(work.local_scores, scores, transition, work.lengths, gold)
        loss = -filtered.log_prob(gold).mean()
        loss = loss - LinearChain(scores[:, :, 0], transition, work.lengths).log_prob(tags).mean()
        cover = [tuple(Segment(i, i + 1, 0) for i in range(length)) for length in work.lengths]
        loss = loss - SemiMarkov(scores, transition, work.lengths).log_prob(cover).mean()
        loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert scores.grad.isfinite().all()


def test_loss_and_gradient_equal_the_compiled_ones():
    """Through the kernels that score given structures and scatter their share of the gradient."""
    work = random_batch(torch.float64)
    gold = [[Segment(1, 3, 2), Segment(5, 6, 1)], [], [Segment(0, 4, 8)]]
    cover = [tuple(Segment(i, i + 1, i % 9) for i in range(length)) for length in work.lengths]
    tags = [[i % 9 for i in range(length)] for length in work.lengths]
    for make, structures in (
        (lambda w, s, t, k: FilteredSemiMarkov.from_scores(w.local_scores, s, t, w.lengths, gold, kernel=k), gold),
        (lambda w, s, t, k: SemiMarkov(s, t, w.lengths, kernel=k), cover),
        (lambda w, s, t, k: LinearChain(s[:, :, 0], t, w.lengths, kernel=k), tags),
        (lambda w, s, t, k: flat(FilteredSemiMarkov.from_scores(w.local_scores, s, t, w.lengths, gold), s, t, k), gold),
    ):
        found = []
        for kernel, device in ((cuda, DEVICE), (torch_api, "cpu")):
            batch = work.to(device)
            inputs = [tensor.detach().clone().requires_grad_() for tensor in (batch.scores, batch.transition)]
            log_prob = make(batch, *inputs, kernel).log_prob(structures)
            weight = torch.arange(1.0, 4.0, dtype=torch.float64, device=device)
            gradients = torch.autograd.grad((weight * log_prob).sum(), inputs)
            found.append([tensor.detach().cpu() for tensor in (log_prob, *gradients)])
        torch.testing.assert_close(*found)


@on_gpu
def test_entropy_has_a_gradient_on_the_gpu():
    work = random_batch(torch.float64)
    gradients = []
    for batch in (work, work.to("cuda")):
        scores = batch.scores.detach().requires_grad_()
        distribution = FilteredSemiMarkov.from_scores(batch.local_scores, scores, batch.transition, batch.lengths)
        gradients.append(torch.autograd.grad(distribution.entropy().sum(), scores)[0].cpu())
    torch.testing.assert_close(*gradients)
