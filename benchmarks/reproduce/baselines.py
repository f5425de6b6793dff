"""The decoders that the paper compared with, on the scores of our models: what they find is what ours find.

pytorch-crf and torch-struct are optional: `pip install 'spansieve[peers]'`. They start from what they need, already
made. The third is the filtered model's best path in plain Python over edges that are listed one by one, as a first
implementation would have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.peers import IMPOSSIBLE, pytorch_crf_layer, torch_struct_at_once, torch_struct_potentials
from benchmarks.reproduce.scored_batch import Scored
from spansieve.crf import FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.segments import Segment

PYTORCH_CRF, TORCH_STRUCT, PLAIN = "pytorch-crf", "torch-struct", "plain Python"
START = (0.0, -1)
MOST_ELEMENTS = 1 << 28  # in the largest tensor of torch-struct


def baseline(scored: Scored) -> tuple[str, Callable[[], Any]] | None:
    """The name of the paper's decoder for a model, and a call of it; None where that is not installed."""
    distribution = scored.distribution()
    if isinstance(distribution, LinearChain) and find_spec("torchcrf"):
        return PYTORCH_CRF, pytorch_crf(distribution)
    if isinstance(distribution, SemiMarkov) and find_spec("torch_struct"):
        return TORCH_STRUCT, torch_struct(distribution)
    if isinstance(distribution, FilteredSemiMarkov):
        return PLAIN, plain_python(distribution, scored)
    return None


def pytorch_crf(chain: LinearChain) -> Callable[[], list[list[int]]]:
    crf = pytorch_crf_layer(chain.transition.clamp(min=IMPOSSIBLE))
    scores = chain.scores.clamp(min=IMPOSSIBLE)
    mask = torch.arange(scores.shape[1], device=scores.device) < chain.lengths[:, None]

    def decode() -> list[list[int]]:
        with torch.no_grad():
            return crf.decode(scores, mask)

    return decode


def torch_struct(chain: SemiMarkov) -> Callable[[], Tensor]:
    """Its best segmentations as it gives them: which edges are on the path."""
    from torch_struct import SemiMarkovCRF

    scores = chain.scores.clamp(min=IMPOSSIBLE)
    at_once = torch_struct_at_once(scores.shape, MOST_ELEMENTS)
    edges = torch_struct_potentials(scores, chain.transition).clone().split(at_once)  # no longer of inference mode
    lengths = (chain.lengths + 1).clone().split(at_once)

    def decode() -> Tensor:
        return torch.cat([SemiMarkovCRF(edge, lengths=length).argmax for edge, length in zip(edges, lengths)])

    return decode


def plain_python(graph: FilteredSemiMarkov, scored: Scored) -> Callable[[], list[list[Segment]]]:
    """From the scores on: the filter by tensor operations, the rest in Python."""
    local_scores, global_scores = scored.scores  # (B, L, K, Y) each
    num_sentences, num_tokens, max_width, _ = local_scores.shape
    device = local_scores.device

    def decode() -> list[list[Segment]]:
        end = torch.arange(num_tokens, device=device)[:, None] + torch.arange(1, max_width + 1, device=device)
        best, label = local_scores[..., 1:].max(-1)  # (B, L, K)
        is_kept = (best > local_scores[..., 0]) & (end <= scored.batch.lengths[:, None, None])
        place = is_kept.nonzero(as_tuple=True)
        labels = label[place] + 1
        columns = torch.stack((*place, labels)).tolist()
        scores = global_scores[(*place, labels)].tolist()
        nodes: list[list[tuple[Segment, float]]] = [[] for _ in range(num_sentences)]
        for b, start, width, y, score in zip(*columns, scores):
            nodes[b].append((Segment(start, start + width + 1, y), score))
        transition = graph.transition.tolist()
        return [
            longest_path(sorted(some, key=lambda node: node[0].end), transition, bool(graph.skip)) for some in nodes
        ]

    return decode


def longest_path(
    nodes: Sequence[tuple[Segment, float]], transition: Sequence[Sequence[float]], skip: bool = False
) -> list[Segment]:
    """The paper's Algorithm 2, over nodes sorted by their ends: O(|V|² + |E|). With `skip`, nodes may be left out."""
    best: list[float] = []
    before: list[int] = []
    for segment, score in nodes:
        ways = [
            (best[k] + transition[nodes[k][0].label][segment.label], k) for k in _sources(nodes, segment.start, skip)
        ]
        value, source = max(ways + [START] * (skip or not ways))
        best.append(value + score)
        before.append(source)
    ending = [(best[k], k) for k in _sources(nodes, max((segment.end for segment, _ in nodes), default=0), skip)]
    _, at = max(ending + [START] * (skip or not ending))
    path: list[Segment] = []
    while at >= 0:
        path.append(nodes[at][0])
        at = before[at]
    return path[::-1]


def _sources(nodes: Sequence[tuple[Segment, float]], start: int, skip: bool) -> list[int]:
    """The nodes that end by `start` with no other between."""
    over = [k for k, (segment, _) in enumerate(nodes) if segment.end <= start]
    latest = 0 if skip else max((nodes[k][0].start for k in over), default=0)
    return [k for k in over if nodes[k][0].end > latest]
