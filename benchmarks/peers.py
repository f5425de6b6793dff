"""The peers of the core benchmark on its work. Each also says what it found, to be held against what we found.

They are optional: `pip install 'spansieve[peers]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.core_work import LOG_PARTITION, LOSS, MODE, Work
from benchmarks.timings import Contender

IMPOSSIBLE = -1e9  # stands for -inf in the peers, some of which compute with it


def peers_on(work: Work, tasks: tuple[str, ...], most_elements: int = 1 << 28) -> list[Contender]:
    """Every installed peer with a way to do one of the tasks; `most_elements` bounds the largest tensor of a peer."""
    made: list[Contender] = []
    for package, make in (
        ("torchcrf", _pytorch_crf),
        ("torch_struct", _torch_struct),
        ("flash_semicrf", _flash_semicrf),
    ):
        if find_spec(package) is not None:
            made += [c for c in make(work, most_elements) if c.task in tasks]
    return made


def pytorch_crf_layer(transition: Tensor) -> Any:
    """pytorch-crf's layer with these scores of transitions (Y, Y), and none for the first and the last tag."""
    from torchcrf import CRF

    crf = CRF(len(transition), batch_first=True).to(transition.device)
    with torch.no_grad():
        crf.start_transitions.zero_()
        crf.end_transitions.zero_()
        crf.transitions.copy_(transition)
    return crf


def _pytorch_crf(work: Work, most_elements: int) -> list[Contender]:
    crf = pytorch_crf_layer(work.tag_transition)
    mask = torch.ones(work.num_sentences, work.num_tokens, dtype=torch.bool, device=work.device)
    tags = torch.tensor(work.gold_tags, device=work.device)
    scores = work.tag_scores.clone().requires_grad_()
    inputs = (scores, crf.transitions)

    def decode() -> list[list[int]]:
        with torch.no_grad():
            return crf.decode(work.tag_scores, mask)

    def log_partition() -> tuple[Tensor, ...]:
        return torch.autograd.grad(crf._compute_normalizer(scores.transpose(0, 1), mask.T).sum(), inputs)

    def loss() -> tuple[Tensor, ...]:
        return torch.autograd.grad(-crf(scores, tags, mask, reduction="sum"), inputs)

    runs = {MODE: decode, LOG_PARTITION: log_partition, LOSS: loss}
    return [Contender(task, "pytorch-crf", run, "BIO tags") for task, run in runs.items()]


def torch_struct_potentials(scores: Tensor, transition: Tensor) -> Tensor:
    """(B, L, K + 1, Y, Y): edge[b, n, w, y, y'] is a segment of width w and label y from n on, after a label y'.

    The label before the first segment is a free one there; all but one choice of it are made impossible.
    """
    num_sentences, num_tokens, max_width, num_labels = scores.shape
    shape = (num_sentences, num_tokens, max_width + 1, num_labels, num_labels)
    edge = torch.full(shape, IMPOSSIBLE, device=scores.device)
    edge[:, :, 1:] = scores[..., None] + transition.T
    edge[:, 0, 1:, :, 0] = scores[:, 0]
    edge[:, 0, 1:, :, 1:] = IMPOSSIBLE
    return edge


def torch_struct_at_once(shape: Sequence[int], most_elements: int) -> int:
    """How many sentences of (B, L, K, Y) scores it can take: its max-plus product of (K·Y, K·Y) matrices is held whole,
    for L / 2 pairs of positions and each sentence."""
    num_sentences, num_tokens, max_width, num_labels = shape
    one_sentence = max(1, num_tokens // 2) * (max_width * num_labels) ** 3
    return max(1, min(num_sentences, most_elements // one_sentence))


def _torch_struct(work: Work, most_elements: int) -> list[Contender]:
    from torch_struct import SemiMarkovCRF

    edge = torch_struct_potentials(work.global_scores, work.transition)
    at_once = torch_struct_at_once(work.global_scores.shape, most_elements)
    lengths = torch.full((work.num_sentences,), work.num_tokens + 1)

    def in_batches(ask: Callable[[SemiMarkovCRF], Tensor]) -> Tensor:
        parts = edge.split(at_once), lengths.split(at_once)
        return torch.cat([ask(SemiMarkovCRF(e, lengths=n)) for e, n in zip(*parts)])

    note = "" if at_once == work.num_sentences else f"{at_once} sentence(s) at a time, more do not fit into memory"
    return [Contender(MODE, "torch-struct", lambda: in_batches(lambda crf: crf.argmax), note)]


def flash_semicrf_inputs(work: Work) -> tuple[Tensor, Tensor, Tensor]:
    """Cumulative token scores (B, L + 1, Y), the transition, and a bias per width and label (K, Y)."""
    generator = torch.Generator().manual_seed(1)
    token_scores = torch.randn(work.num_sentences, work.num_tokens, work.num_labels, generator=generator)
    cumulative = torch.nn.functional.pad(token_scores.double().cumsum(1), (0, 0, 1, 0)).to(work.device)
    bias = torch.randn(work.max_width, work.num_labels, generator=generator).double().to(work.device)
    return cumulative, work.transition.double(), bias


def _flash_semicrf(work: Work, most_elements: int) -> list[Contender]:
    from flash_semicrf import semi_crf_streaming_forward

    inputs = [tensor.clone().requires_grad_() for tensor in flash_semicrf_inputs(work)]
    lengths = work.lengths.to(work.device)

    def partition() -> tuple[Tensor, ...]:
        cumulative, transition, bias = inputs
        value = semi_crf_streaming_forward(cumulative, transition, bias, lengths, work.max_width).sum()
        return torch.autograd.grad(value, inputs)

    note = "segment scores are sums of token scores and a width bias"
    return [Contender(LOG_PARTITION, "flash-semicrf", partition, note)]
