"""The compiled CPU kernels for tensors: the same memory, seen by NumPy.

What each function computes is said in `cpu`. Here it takes tensors for arrays, and torch's number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.candidates import Candidates
from spansieve.crf.kernels import Sums, cpu
from spansieve.crf.kernels.cpu.filter import Kept


def _for_tensors(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: _tensors(kernel(*map(_array, arguments)))


def _in_threads(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: _tensors(kernel(*map(_array, arguments), threads=torch.get_num_threads()))


def _for_candidates(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes flat candidates, with scores (N,) and the transition, and then what else it takes."""
    flat = _in_threads(kernel)

    def run(candidates: Candidates, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        nodes = (candidates.offsets, candidates.start, candidates.end, candidates.label)
        return flat(*nodes, scores, transition, candidates.lengths, *options)

    return run


def _array(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad:
        value = value.detach()
    return value.numpy() if value.is_contiguous() else value.contiguous().numpy()


def _tensors(result: Any) -> Any:
    """Arrays as tensors; of what the filter keeps, those are made on demand."""
    if isinstance(result, np.ndarray):
        return torch.from_numpy(result)
    if isinstance(result, Kept) or not isinstance(result, tuple):
        return result
    tensors = map(_tensors, result)
    return Sums(*tensors) if isinstance(result, Sums) else tuple(tensors)


linear_chain_sums, linear_chain_best = _in_threads(cpu.linear_chain_sums), _in_threads(cpu.linear_chain_best)
semi_markov_sums, semi_markov_best = _in_threads(cpu.semi_markov_sums), _in_threads(cpu.semi_markov_best)
filtered_sums, filtered_best = _for_candidates(cpu.filtered_sums), _for_candidates(cpu.filtered_best)
nested_sums, nested_best = _for_candidates(cpu.nested_sums), _for_candidates(cpu.nested_best)
dense_skip_sums, dense_skip_best = _in_threads(cpu.dense_skip_sums), _in_threads(cpu.dense_skip_best)

filter_spans, is_dense_cheaper = _in_threads(cpu.filter_spans), _for_tensors(cpu.is_dense_cheaper)
segments_from_scores, kept_scores = _in_threads(cpu.segments_from_scores), _in_threads(cpu.kept_scores)
kept_sums = _in_threads(cpu.filtered_sums)  # of flat candidates, as `segments_from_scores` keeps them
dense_expectations = _for_tensors(cpu.dense_expectations)
