"""The compiled CPU kernels for tensors: the same memory, seen by NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.kernels import PLAIN_FILTER, FilterLimits, RequiredDepths, Sums, cpu
from spansieve.crf.kernels.cpu.filter import Kept


def linear_chain_sums(scores: Tensor, transition: Tensor, lengths: Tensor, with_marginals: bool) -> Sums:
    return _sums(
        cpu.linear_chain_sums(*_arrays(scores, transition, lengths), with_marginals=with_marginals, threads=_threads())
    )


def linear_chain_best(scores: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    return _tensors(cpu.linear_chain_best(*_arrays(scores, transition, lengths), threads=_threads()))


def semi_markov_sums(scores: Tensor, transition: Tensor, lengths: Tensor, with_marginals: bool) -> Sums:
    return _sums(
        cpu.semi_markov_sums(*_arrays(scores, transition, lengths), with_marginals=with_marginals, threads=_threads())
    )


def semi_markov_best(scores: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    return _tensors(cpu.semi_markov_best(*_arrays(scores, transition, lengths), threads=_threads()))


def filtered_sums(
    candidates: Candidates, scores: Tensor, transition: Tensor, skip: bool | Tensor, with_marginals: bool
) -> Sums:
    arrays, skip = _flat(candidates, scores, transition), skip.numpy() if isinstance(skip, Tensor) else skip
    return _sums(cpu.filtered_sums(*arrays, skip=skip, with_marginals=with_marginals, threads=_threads()))


def filtered_best(
    candidates: Candidates, scores: Tensor, transition: Tensor, skip: bool | Tensor
) -> tuple[Tensor, ...]:
    """The best score (B,) and whether the best path takes each candidate (N,)."""
    arrays, skip = _flat(candidates, scores, transition), skip.numpy() if isinstance(skip, Tensor) else skip
    return _tensors(cpu.filtered_best(*arrays, skip=skip, threads=_threads()))


def nested_sums(
    candidates: Candidates,
    scores: Tensor,
    transition: Tensor,
    with_marginals: bool,
    required: RequiredDepths | None = None,
) -> Sums:
    arrays = _flat(candidates, scores, transition)
    return _sums(cpu.nested_sums(*arrays, with_marginals, _threads(), required))


def nested_best(
    candidates: Candidates, scores: Tensor, transition: Tensor, required: RequiredDepths | None = None
) -> tuple[Tensor, ...]:
    """The best score (B,) and whether the best set takes each candidate (N,)."""
    return _tensors(cpu.nested_best(*_flat(candidates, scores, transition), _threads(), required))


def weighted_expectations(gradient: Tensor, marginals: Tensor, counts: Tensor, sentence: Tensor | None):
    """The gradients of the scores and of the transition, from that of log Z."""
    sentences = None if sentence is None else _array(sentence)
    return _tensors(cpu.weighted_expectations(*_arrays(gradient, marginals, counts), sentences))


def filter_spans(
    local_scores: Tensor,
    lengths: Tensor,
    gold: FlatSegments | None,
    keep_all: bool,
    limits: FilterLimits = PLAIN_FILTER,
) -> tuple[Tensor, ...]:
    """Offsets, start, end and label of the candidates."""
    arrays = _arrays(local_scores, lengths)
    return _tensors(cpu.filter_spans(*arrays, gold, keep_all, _threads(), limits).graph)


def is_dense_cheaper(local_scores: Tensor, lengths: Tensor, limits: FilterLimits = PLAIN_FILTER) -> bool:
    return cpu.is_dense_cheaper(*_arrays(local_scores, lengths), limits)


def segments_from_scores(
    local_scores, global_scores, transition, lengths, gold, skip: bool, find_best: bool, limits=PLAIN_FILTER
) -> Kept:
    """The candidates with their global scores and, if wanted, which of them the best path takes and its score."""
    arrays = _array(local_scores), _array(global_scores), _array(transition), _array(lengths)
    return cpu.segments_from_scores(*arrays, gold, skip, find_best, torch.get_num_threads(), limits)


def kept_sums(kept: Kept, transition: Tensor, lengths: Tensor, skip: bool, with_marginals: bool) -> Sums:
    """The sums over the paths through what `segments_from_scores` kept, with the scores that it found."""
    arrays = (*kept.graph, kept.score, *_arrays(transition, lengths))
    return _sums(cpu.filtered_sums(*arrays, skip=skip, with_marginals=with_marginals, threads=_threads()))


def dense_expectations(gradient: Tensor, marginals: Tensor, counts: Tensor, kept: Kept, shape: Sequence[int]):
    """The gradients of the dense scores and of the transition, from that of log Z."""
    return _tensors(cpu.dense_expectations(*_arrays(gradient, marginals, counts), kept, tuple(shape)))


def kept_scores(local_scores, global_scores, transition, lengths, gold, limits=PLAIN_FILTER) -> Tensor:
    """Scatter the global scores of the candidates into (B, L, K, Y), with -inf elsewhere."""
    arrays = _arrays(local_scores, global_scores, transition, lengths)
    return torch.from_numpy(cpu.kept_scores(*arrays, gold, _threads(), limits))


def dense_skip_sums(scores: Tensor, transition: Tensor, lengths: Tensor, with_marginals: bool) -> Sums:
    return _sums(cpu.dense_skip_sums(*_arrays(scores, transition, lengths), with_marginals, _threads()))


def dense_skip_best(scores: Tensor, transition: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    return _tensors(cpu.dense_skip_best(*_arrays(scores, transition, lengths), _threads()))


def _flat(candidates: Candidates, scores: Tensor, transition: Tensor):
    nodes = (candidates.offsets, candidates.start, candidates.end, candidates.label)
    return _arrays(*nodes, scores, transition, candidates.lengths)


def _arrays(*tensors):
    return [_array(tensor) for tensor in tensors]


def _array(tensor: Tensor):
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.numpy() if tensor.is_contiguous() else tensor.contiguous().numpy()


def _tensors(arrays):
    return tuple(torch.from_numpy(array) for array in arrays)


def _sums(sums: Sums) -> Sums:
    return Sums(*(None if array is None else torch.from_numpy(array) for array in sums))


def _threads() -> int:
    return torch.get_num_threads()
