"""The Triton passes give what the tensor operations give: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from spansieve.nn import span_scorers
from spansieve.nn.span_hidden_layer import SpanHiddenLayer, compiled_for
from spansieve.nn.span_scorers import EndpointScorer

hidden_on_gpu = pytest.importorskip(
    "spansieve.nn.cuda.span_hidden_kernels", reason="needs Triton", exc_type=ImportError
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(2, 5, 3, 5), (1, 2, 4, 130), (2, 1, 1, 3), (0, 3, 2, 4), (2, 0, 2, 4)]


@pytest.fixture(autouse=True)
def _taken(monkeypatch):
    monkeypatch.setattr(span_scorers, "compiled_for", lambda projected, width: hidden_on_gpu)


def scorer(max_width: int, size: int, content: bool, dtype: torch.dtype) -> EndpointScorer:
    torch.manual_seed(0)
    return EndpointScorer(6, size, max_width, 3, sets=2, dropout=0.0, content=content).to(DEVICE, dtype)


def inside(scores: torch.Tensor) -> torch.Tensor:
    """Of the spans within L."""
    _, num_tokens, max_width, _ = scores.shape
    return scores[:, torch.arange(num_tokens)[:, None] + torch.arange(1, max_width + 1) <= num_tokens]


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_layer_and_its_gradient(content, dtype, shape):
    num_sentences, num_tokens, max_width, size = shape
    made = scorer(max_width, size, content, dtype)
    vectors = torch.randn(num_sentences, num_tokens, 6, dtype=dtype, device=DEVICE, requires_grad=True)
    answers = []
    for how in (made.dense, made.by_tensors):
        scores = inside(how(made(vectors)))
        weight = torch.linspace(-1, 1, scores.numel(), dtype=dtype, device=DEVICE).view(scores.shape)
        answers.append([scores, *torch.autograd.grad((scores * weight).sum(), (vectors, *made.parameters()))])
    for found, right in zip(*answers):
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("block", [1, 3, 128])
def test_without_gradients_it_goes_by_blocks(block, monkeypatch):
    made = scorer(3, 5, True, torch.float64)
    vectors = torch.randn(2, 4, 6, dtype=torch.float64, device=DEVICE)
    monkeypatch.setattr(span_scorers, "BLOCK" if DEVICE == "cpu" else "GPU_BLOCK", block)
    with torch.inference_mode():
        torch.testing.assert_close(inside(made.dense(made(vectors))), inside(made.by_tensors(made(vectors))))


def test_half_precision_is_added_up_in_single():
    made = scorer(4, 5, True, torch.float32)
    projected = made(torch.randn(2, 6, 6, device=DEVICE))[0].detach()
    half = SpanHiddenLayer.apply(projected.bfloat16(), made.width.weight, hidden_on_gpu)
    single = SpanHiddenLayer.apply(projected.bfloat16().float(), made.width.weight, hidden_on_gpu)
    assert half.dtype is torch.bfloat16
    torch.testing.assert_close(half, single.bfloat16())


def test_what_is_no_number_is_seen():
    made = scorer(3, 5, True, torch.float32)
    vectors = torch.zeros(1, 4, 6, device=DEVICE)
    vectors[0, 1, 0] = torch.nan
    assert made.dense(made(vectors))[0, 0, 1].isnan().all()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_it_is_what_a_gpu_takes():
    tensor = torch.zeros(1, device=DEVICE)
    assert compiled_for(tensor, tensor) is hidden_on_gpu
