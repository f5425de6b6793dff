"""The sums over all structures as the kernels fill them, and the gradients of log Z, which are marginals, weighted."""

from __future__ import annotations

import math

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.jit import compiled


def new_sums(scores, num_sentences, num_labels, with_marginals) -> Sums:
    """Allocate the sums in the type of the scores; without marginals, for log Z alone."""
    shape = scores.shape if with_marginals else (0,) * scores.ndim
    return Sums(
        np.empty(num_sentences, scores.dtype),
        np.zeros(shape, scores.dtype),
        np.zeros((num_sentences if with_marginals else 0, num_labels, num_labels), scores.dtype),
    )


def asked_for(sums: Sums, with_marginals) -> Sums:
    return sums if with_marginals else Sums(sums.log_partition, None, None)


def weighted_expectations(gradient, marginals, counts, sentence=None):
    """gradient[b] · marginals[b, …] and Σ_b gradient[b] · counts[b].

    Where marginals are flat, `sentence` is the sentence that each belongs to.
    """
    to_scores = np.empty(marginals.shape, marginals.dtype)
    to_transition = np.zeros(counts.shape[1:], counts.dtype)
    if sentence is None:
        rows = (len(gradient), math.prod(marginals.shape[1:]))
        _by_row(gradient, marginals.reshape(rows), to_scores.reshape(rows))
    else:
        _by_sentence(gradient, sentence, marginals, to_scores)
    _add_weighted(gradient, counts, to_transition)
    return to_scores, to_transition


def dense_expectations(gradient, marginals, counts, kept, shape):
    """gradient[b] · marginals of sentence b, scattered into dense scores, and Σ_b gradient[b] · counts[b]."""
    to_scores = np.zeros(shape, marginals.dtype)
    to_transition = np.zeros(counts.shape[1:], counts.dtype)
    _scatter_weighted(gradient, kept.nodes, marginals, counts, to_scores, to_transition)
    return to_scores, to_transition


@compiled
def _by_row(gradient, values, out):
    for b in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[b, j] = gradient[b] * values[b, j]


@compiled
def _by_sentence(gradient, sentence, values, out):
    for c in range(values.size):
        out[c] = gradient[sentence[c]] * values[c]


@compiled
def _add_weighted(gradient, counts, out):
    """out += Σ_b gradient[b] · counts[b]."""
    for b in range(counts.shape[0]):
        for p in range(counts.shape[1]):
            for y in range(counts.shape[2]):
                out[p, y] += gradient[b] * counts[b, p, y]


@compiled
def _scatter_weighted(gradient, nodes, marginals, counts, to_scores, to_transition):
    flat = to_scores.reshape(to_scores.size)
    for c in range(marginals.size):
        flat[nodes[3, c]] = gradient[nodes[4, c]] * marginals[c]
    _add_weighted(gradient, counts, to_transition)
