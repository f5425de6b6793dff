"""The gradients of the inputs of log Z: the marginals, weighted by the gradient of log Z."""

from __future__ import annotations

import math

import numpy as np

from spansieve.crf.kernels.cpu.jit import compiled


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
    add_up(gradient, counts, to_transition)
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
def add_up(gradient, counts, out):
    """out += Σ_b gradient[b] · counts[b]."""
    for b in range(counts.shape[0]):
        for p in range(counts.shape[1]):
            for y in range(counts.shape[2]):
                out[p, y] += gradient[b] * counts[b, p, y]
