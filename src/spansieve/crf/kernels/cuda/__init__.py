"""The GPU backend, in Triton: what `triton_kernels.py` computes, launched without synchronising the host."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.flat_segments import segments_at
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import Sums, cpu
from spansieve.crf.kernels.cuda.launch import launch
from spansieve.crf.kernels.cuda.triton_kernels import (
    expectations,
    filter_spans,
    filtered_sweep,
    follow_paths,
    semi_markov_sweep,
    trace_back,
    weighted,
)
from spansieve.segments import Segment

_BLOCK = 128  # parts that a program takes at once
_WIDE_BLOCK = 1024  # numbers that a program scales at once
_POSITIONS = 32  # positions that a program of the transition counts takes at once
_COPIED_WHOLE = 262_144  # scores that go to the host all of them, sooner than candidates are picked out on the device


def _tile(scores):
    return _tile_of(*scores.shape[-2:])


@lru_cache(maxsize=256)
def _tile_of(K: int, Y: int) -> dict[str, int]:
    """The constants of a kernel, with the padding that its power-of-two tiles need, and its number of warps."""
    rows, columns = 1 << (K - 1).bit_length(), 1 << (Y - 1).bit_length()
    # The (Y, Y) tile is the widest: about 8 numbers of it to a thread, and no more warps than there is work for.
    return {"K": K, "Y": Y, "ROWS": rows, "COLUMNS": columns, "num_warps": min(16, max(1, columns * columns // 256))}


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _sweep(is_candidate, scores, transition, lengths, skip, take_max, entering=None, arriving=None):
    """log Z or the best score (B,), in the sweep's own type; fills `entering` and `arriving` where they are given."""
    B, L = scores.shape[:2]
    total = scores.new_empty(B, dtype=scores.dtype if take_max else torch.float64)
    grid = (B, 1 if entering is None else len(entering))
    tensors = (scores, transition, lengths, total, entering, arriving)
    if is_candidate is None:
        launch(semi_markov_sweep, grid, *tensors, L, TAKE_MAX=take_max, **_tile(scores))
    else:
        launch(filtered_sweep, grid, is_candidate, *tensors, L, SKIP=skip, **_tile(scores))
    return total


def _sums(is_candidate, scores, transition, lengths, skip, with_marginals) -> Sums:
    B, L, _, Y = scores.shape
    scores, transition, lengths = _ready(scores, transition, lengths)
    with torch.cuda.device_of(scores):
        if not with_marginals:
            total = _sweep(is_candidate, scores, transition, lengths, skip, take_max=False)
            return Sums(total, None, None)
        entering, arriving = scores.new_empty((2, 2, B, L + 1, Y), dtype=torch.float64)  # (2, B, L + 1, Y) each
        total = _sweep(is_candidate, scores, transition, lengths, skip, False, entering, arriving)
        marginals, counts = torch.empty_like(scores), scores.new_empty((B, Y, Y))
        launch(
            expectations, (B, L + Y),
            is_candidate, scores, transition, lengths, total, entering, arriving, marginals, counts, L,
            POSITIONS=_POSITIONS, **_tile(scores),
        )  # fmt: skip
        return Sums(total, marginals, counts)


def _ready(*tensors):
    """Make tensors as the kernels address them: packed, and outside any autograd graph, which the callers write."""
    return [tensor.detach().contiguous() for tensor in tensors]


def semi_markov_sums(scores: Tensor, transition: Tensor, lengths: Tensor, with_marginals: bool) -> Sums:
    """Segmental forward-backward: log Z, the marginals and transition counts, from scores (B, L, K, Y) and (Y, Y)."""
    return _sums(None, scores, transition, lengths, False, with_marginals)


def semi_markov_best(scores: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Segmental Viterbi: the best score (B,), and at the start of each of its segments the width and label (B, L).

    The width is 0 at every other position, and everywhere when no segmentation is possible.
    """
    B, L, _, Y = scores.shape
    scores, transition, lengths = _ready(scores, transition, lengths)
    widths, labels = lengths.new_zeros((2, B, L), dtype=torch.int64)
    with torch.cuda.device_of(scores):
        entering = scores.new_empty((1, B, L + 1, Y))
        total = _sweep(None, scores, transition, lengths, False, True, entering)
        launch(trace_back, (B,), scores, transition, lengths, total, entering, widths, labels, L, **_tile(scores))
    return total, widths, labels


def linear_chain_sums(scores: Tensor, transition: Tensor, lengths: Tensor, with_marginals: bool) -> Sums:
    """Forward-backward: log Z, the marginals and transition counts, of tag sequences scored by (B, L, Y) and (Y, Y)."""
    sums = semi_markov_sums(scores.unsqueeze(2), transition, lengths, with_marginals)
    return sums._replace(marginals=sums.marginals.squeeze(2)) if with_marginals else sums


def linear_chain_best(scores: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Viterbi: the best score (B,) and its tags (B, L), 0 beyond the sentence and where no tag sequence is possible."""
    max_score, _, tags = semi_markov_best(scores.unsqueeze(2), transition, lengths)
    return max_score, tags


def dense_filter(
    local_scores: Tensor, lengths: Tensor, gold: Gold | None, skip: bool, labels_per_span: int = 1
) -> Tensor:
    """The filter, with the training rules where there is gold, as a mask (B, L, K, Y)."""
    B, L, _, Y = local_scores.shape
    local_scores, lengths = _ready(local_scores, lengths)
    is_candidate = torch.zeros(local_scores.shape, dtype=torch.bool, device=local_scores.device)
    covered = None if gold is None or skip else gold.covered
    gold_index, num_gold = (None, 0) if gold is None else (gold.parts.part, len(gold.parts.part))
    with torch.cuda.device_of(local_scores):
        launch(
            filter_spans, (B, L + _blocks(num_gold, B * _BLOCK)),
            local_scores, lengths, covered, gold_index, is_candidate.view(torch.uint8), L, num_gold,
            LABELS=min(labels_per_span, Y), BLOCK=_BLOCK, **_tile(local_scores),
        )  # fmt: skip
    return is_candidate


def dense_filtered_sums(
    is_candidate: Tensor, scores: Tensor, transition: Tensor, lengths: Tensor, skip: bool, with_marginals: bool
) -> Sums:
    """Forward-backward: log Z, the marginals and transition counts, of paths through the candidates (B, L, K, Y)."""
    return _sums(is_candidate.contiguous().view(torch.uint8), scores, transition, lengths, skip, with_marginals)


def dense_filtered_best(
    is_candidate: Tensor, scores: Tensor, transition: Tensor, lengths: Tensor, skip: bool
) -> tuple[Tensor, list[tuple[Segment, ...]]]:
    """Viterbi: the best score (B,) and the best paths.

    The result is wanted on the host, and the candidates are few: the compiled sweep there is done before a launch would
    have started.
    """
    flat_index, flat, transition_here, lengths_here = _on_host(is_candidate, scores, transition, lengths)
    nodes, order = segments_at(flat_index, scores.shape)
    options = {"skip": skip, "threads": torch.get_num_threads()}
    max_score, is_chosen = cpu.filtered_best(*nodes, flat[order], transition_here, lengths_here, **options)
    return torch.from_numpy(max_score).to(scores.device), nodes.where(is_chosen).by_sentence()


def _on_host(
    is_candidate: Tensor, scores: Tensor, transition: Tensor, lengths: Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Transfer to the host: the flat index of the candidates, their scores, the transition and the lengths."""
    is_small = scores.numel() <= _COPIED_WHOLE and scores.dtype in (torch.float32, torch.float64)
    if not is_small:
        flat_index = is_candidate.view(-1).nonzero()[:, 0]
        flat = scores.flatten().index_select(0, flat_index)
        return tuple(tensor.cpu().numpy() for tensor in (flat_index, flat, transition, lengths))  # type: ignore[return-value]
    # Each copy synchronises the host: all at once, and what is no candidate no number.
    marked = scores.masked_fill(~is_candidate, torch.nan).flatten()
    packed = torch.cat((marked, transition.to(scores.dtype).flatten(), lengths.to(scores.dtype))).cpu().numpy()
    all_scores, transition_here, lengths_here = np.split(packed, np.cumsum((scores.numel(), transition.numel())))
    flat_index = np.flatnonzero(~np.isnan(all_scores))
    return flat_index, all_scores[flat_index], transition_here.reshape(transition.shape), lengths_here.astype(np.int64)


def filtered_sums(
    candidates: Candidates, scores: Tensor, transition: Tensor, skip: bool | Tensor, with_marginals: bool
) -> Sums:
    """Forward-backward for flat candidates and scores (N,), which are scattered to the dense form for the sweep.

    Where only some candidates may be skipped, which is so under constraints, the sweep is the host's.
    """
    if isinstance(skip, Tensor):
        return _on_cpu("filtered_sums", candidates, scores, transition, skip, with_marginals)
    shape = (candidates.num_sentences, candidates.num_tokens, candidates.max_width, len(transition))
    index = (candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label)
    dense = scores.new_zeros(shape).index_put_(index, scores.detach())
    is_candidate = torch.zeros(shape, dtype=torch.bool, device=scores.device)
    is_candidate.index_put_(index, torch.ones_like(scores, dtype=torch.bool))
    sums = dense_filtered_sums(is_candidate, dense, transition, candidates.lengths, skip, with_marginals)
    return sums._replace(marginals=sums.marginals[index]) if with_marginals else sums


def _on_cpu(name: str, c: Candidates, scores: Tensor, transition: Tensor, *options: Any) -> Any:
    """Run a kernel for flat candidates on the host. They go there in two copies: of the integers, and of the scores."""
    integers = (c.offsets, c.start, c.end, c.label, c.lengths)
    *nodes, lengths = torch.cat(integers).cpu().split([len(x) for x in integers])
    values = torch.cat((scores.detach(), transition.detach().flatten())).cpu()
    flat, matrix = values.split([len(scores), transition.numel()])
    arrays = [tensor.numpy() for tensor in (*nodes, flat, matrix.view(transition.shape), lengths)]
    options = tuple(option.cpu().numpy() if isinstance(option, Tensor) else option for option in options)
    result = getattr(cpu, name)(*arrays, *options, threads=torch.get_num_threads())
    tensors = [None if array is None else torch.from_numpy(array).to(scores.device) for array in result]
    return Sums(*tensors) if isinstance(result, Sums) else tensors


# Best paths are wanted on the host, as above. Laminar sets are summed there, too: after a filter the candidates are
# few, and which they are is data that the host needs in any case. A kernel of its own would go through the starts of a
# sentence one by one, with little to do at each.
filtered_best = partial(_on_cpu, "filtered_best")
nested_best, nested_sums = partial(_on_cpu, "nested_best"), partial(_on_cpu, "nested_sums")


def log_prob(parts: Parts, scores: Tensor, transition: Tensor, sums: Sums) -> Tensor:
    """Score less log Z of the structures that were taken apart, (B,).

    Takes what the structures have off the marginals and the counts, in index: what is left is minus the gradient.
    """
    B, Y = sums.transition_counts.shape[:2]
    scores, transition = _ready(scores, transition)
    result = scores.new_empty(B)
    with torch.cuda.device_of(scores):
        launch(
            follow_paths, (B,), scores, transition, parts.part, parts.pair, parts.offsets, sums.log_partition,
            sums.marginals, sums.transition_counts, result, B, PAIRS=Y * Y, BLOCK=_BLOCK,
        )  # fmt: skip
    return result


def weighted_expectations(
    gradient: Tensor, marginals: Tensor, counts: Tensor, sentence: Tensor | None, sign: float = 1.0
):
    """The gradients of scores and transition, from that of log Z; with `sign` -1, from what `log_prob` left."""
    B, Y = counts.shape[:2]
    if sentence is not None:
        to_transition = (gradient @ counts.flatten(1)).view(Y, Y)
        return gradient.index_select(0, sentence) * marginals, to_transition
    each = marginals.numel() // max(1, B)
    to_scores, to_transition = torch.empty_like(marginals), marginals.new_empty((Y, Y))
    blocks = _blocks(each, _WIDE_BLOCK)
    with torch.cuda.device_of(marginals):
        launch(
            weighted, (B, blocks + _blocks(Y * Y, _WIDE_BLOCK)),
            gradient.contiguous(), marginals, counts, to_scores, to_transition, each, B, blocks, sign,
            PAIRS=Y * Y, BLOCK=_WIDE_BLOCK,
        )  # fmt: skip
    return to_scores, to_transition
