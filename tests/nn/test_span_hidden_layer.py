"""The compiled pass over spans gives what the tensor operations give, both ways."""

from __future__ import annotations

import pytest
import torch

from spansieve.nn import span_scorers
from spansieve.nn.span_hidden_layer import compiled_for
from spansieve.nn.span_scorers import EndpointScorer

COMPILED = "spansieve.crf.kernels.cpu.jit"
SHAPES = [(3, 7, 4), (1, 2, 5), (2, 1, 1), (4, 9, 9), (0, 3, 2), (2, 0, 2)]


def scorer(max_width: int, content: bool, dtype: torch.dtype) -> EndpointScorer:
    torch.manual_seed(0)
    return EndpointScorer(6, 5, max_width, 3, sets=2, dropout=0.0, content=content).to(dtype)


def answers(made: EndpointScorer, how, vectors: torch.Tensor) -> list[torch.Tensor]:
    """The scores of the spans within L, and the gradients of a weighted sum of them."""
    scores = how(made(vectors))
    _, num_tokens, max_width, _ = scores.shape
    is_span = torch.arange(num_tokens)[:, None] + torch.arange(1, max_width + 1) <= num_tokens
    inside = scores[:, is_span]
    weight = torch.linspace(-1, 1, inside.numel(), dtype=inside.dtype).view(inside.shape)
    return [inside.detach(), *torch.autograd.grad((inside * weight).sum(), (vectors, *made.parameters()))]


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_equals_tensor_operations(content, dtype, shape, monkeypatch):
    num_sentences, num_tokens, max_width = shape
    made = scorer(max_width, content, dtype)
    vectors = torch.randn(num_sentences, num_tokens, 6, dtype=dtype, requires_grad=True)
    expected = answers(made, made.by_tensors, vectors)
    for threads_pay in (False, True):
        monkeypatch.setattr(f"{COMPILED}.WORTH_A_THREAD", 1 if threads_pay else 1 << 19)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        for found, right in zip(answers(made, made.dense, vectors), expected):
            torch.testing.assert_close(found, right)


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [1, 3, 128])
def test_without_gradients_it_goes_by_blocks(content, shape, block, monkeypatch):
    num_sentences, num_tokens, max_width = shape
    made = scorer(max_width, content, torch.float64)
    vectors = torch.randn(num_sentences, num_tokens, 6, dtype=torch.float64)
    expected = made.dense(made(vectors)).detach()
    monkeypatch.setattr(span_scorers, "BLOCK", block)
    with torch.inference_mode():
        torch.testing.assert_close(made.dense(made(vectors)), expected)


def test_what_is_no_number_is_seen():
    made = scorer(3, True, torch.float32)
    vectors = torch.zeros(1, 4, 6)
    vectors[0, 1, 0] = torch.nan
    for how in (made.dense, made.by_tensors):
        assert how(made(vectors))[0, 0, 1].isnan().all()


def test_where_it_cannot_be_taken():
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert compiled_for(single, single) is not None
    assert compiled_for(double, double) is not None
    for other in (torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, device="meta"), double):
        assert compiled_for(other, single) is None


def test_a_traced_scorer_is_made_of_tensor_operations():
    made = scorer(3, True, torch.float32).eval()

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.made = made

        def forward(self, vectors):
            return self.made.dense(self.made(vectors))

    vectors = torch.randn(2, 5, 6)
    exported = torch.export.export(Whole(), (vectors,)).module()
    with torch.no_grad():
        torch.testing.assert_close(exported(vectors)[:, :3], Whole()(vectors)[:, :3])
