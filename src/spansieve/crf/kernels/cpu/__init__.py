"""Compiled sweeps for the CPU, with Numba: NumPy in, NumPy out, no torch, no GIL, sentences in parallel.

Axes: B sentences, L tokens, K widths, Y labels (or tags), N candidates. Each function takes `threads`, and uses them
only where the work outweighs the cost of starting them.
"""

from spansieve.crf.kernels.cpu.chain_sweeps import (
    Predecessors,
    allowed_chain_best,
    linear_chain_sums,
    segments_of_tags,
)
from spansieve.crf.kernels.cpu.dense_filter import is_dense_cheaper, kept_scores
from spansieve.crf.kernels.cpu.dense_skip import dense_skip_best, dense_skip_sums
from spansieve.crf.kernels.cpu.filter import filter_spans, segments_from_scores
from spansieve.crf.kernels.cpu.filtered_sweeps import filtered_best, filtered_sums
from spansieve.crf.kernels.cpu.laminar_sweeps import nested_best, nested_sums
from spansieve.crf.kernels.cpu.semi_markov_sweeps import linear_chain_best, semi_markov_best, semi_markov_sums
from spansieve.crf.kernels.cpu.sums import dense_expectations, weighted_expectations

__all__ = [
    "Predecessors",
    "allowed_chain_best",
    "dense_expectations",
    "dense_skip_best",
    "dense_skip_sums",
    "filter_spans",
    "filtered_best",
    "filtered_sums",
    "is_dense_cheaper",
    "kept_scores",
    "linear_chain_best",
    "linear_chain_sums",
    "nested_best",
    "nested_sums",
    "segments_from_scores",
    "segments_of_tags",
    "semi_markov_best",
    "semi_markov_sums",
    "weighted_expectations",
]
