"""Laminar sets of candidates for scores on a GPU: the compiled sweep on the host, and back.

After a filter the candidates are few, and which they are is data that the host needs in any case. A kernel of its
own would go through the starts of a sentence one by one and have little to do at each: the host is done before it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.kernels import RequiredDepths, Sums, cpu


def nested_sums(
    candidates: Candidates,
    scores: Tensor,
    transition: Tensor,
    with_marginals: bool,
    required: RequiredDepths | None = None,
) -> Sums:
    """Inside-outside: log Z, the marginals (N,) and the expected pairs of container and content (B, Y, Y)."""
    arrays = _on_host(candidates, scores, transition)
    sums = cpu.nested_sums(*arrays, with_marginals, torch.get_num_threads(), required)
    return Sums(*(None if x is None else torch.from_numpy(x).to(scores.device) for x in sums))


def nested_best(
    candidates: Candidates, scores: Tensor, transition: Tensor, required: RequiredDepths | None = None
) -> tuple[Tensor, Tensor]:
    """The best score (B,) and whether the best set takes each candidate (N,)."""
    arrays = _on_host(candidates, scores, transition)
    max_score, is_chosen = cpu.nested_best(*arrays, torch.get_num_threads(), required)
    return torch.from_numpy(max_score).to(scores.device), torch.from_numpy(is_chosen).to(scores.device)


def _on_host(candidates: Candidates, scores: Tensor, transition: Tensor):
    """Transfer to the host in two copies: one of the integers, one of the scores."""
    c = candidates
    integers = (c.offsets, c.start, c.end, c.label, c.lengths)
    parts = torch.cat(integers).cpu().split([len(x) for x in integers])
    offsets, start, end, label, lengths = (part.numpy() for part in parts)
    values = torch.cat((scores.detach(), transition.detach().flatten())).cpu()
    flat, matrix = values.split([len(scores), transition.numel()])
    return offsets, start, end, label, flat.numpy(), matrix.view(transition.shape).numpy(), lengths
