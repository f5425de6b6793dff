"""The steps that sums and maxima over segmentations are made of.

A sum over predecessors is a product with exp(transition). Where that product underflows, the entry is summed again in
log space: scores of any size, -inf included, come out exact.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels.cpu.jit import compiled, reduction, vectorised
from spansieve.crf.kernels.cpu.simd import exp, log

UNDERFLOW = 1e-290  # a sum of exponentials below this may have lost terms that count
LARGEST_SCALE = 600.0  # exp of more than this overflows with further factors


@vectorised
def transition_weights(transition, weights):
    """weights = exp(transition - offset), and the offset: the largest entry, 0 where all are impossible."""
    num_labels = transition.shape[0]
    offset = -np.inf
    for p in range(num_labels):
        offset = max(offset, largest(transition[p], num_labels))
    offset = offset if offset > -np.inf else 0.0
    for p in range(num_labels):
        for y in range(num_labels):
            weights[p, y] = exp(transition[p, y] - offset)
    return offset


@compiled
def max_step(values, transition, out):
    """out[y] = max_{y'} values[y'] + transition[y', y], four rows at a time: out is read a quarter as often."""
    num_labels = values.size
    for y in range(num_labels):
        out[y] = values[0] + transition[0, y]
    remainder = 1 + (num_labels - 1) // 4 * 4
    for p in range(1, remainder, 4):
        for y in range(num_labels):
            a, b = values[p] + transition[p, y], values[p + 1] + transition[p + 1, y]
            c, d = values[p + 2] + transition[p + 2, y], values[p + 3] + transition[p + 3, y]
            a = b if b > a else a
            c = d if d > c else c
            a = c if c > a else a
            out[y] = a if a > out[y] else out[y]
    for p in range(remainder, num_labels):
        for y in range(num_labels):
            a = values[p] + transition[p, y]
            out[y] = a if a > out[y] else out[y]


@vectorised
def sum_step(values, transition, weights, offset, out, exps, totals):
    """out[y] = log Σ_{y'} exp(values[y'] + transition[y', y]), with weights = exp(transition - offset).

    Leaves exp(values - top) in `exps` and returns the top.
    """
    num_labels = values.size
    top = largest(values, num_labels)
    if top == -np.inf:
        exps[:] = 0.0
        out[:] = -np.inf
        return top
    for y in range(num_labels):
        exps[y] = exp(values[y] - top)
        totals[y] = 0.0
    remainder = num_labels // 4 * 4
    for p in range(0, remainder, 4):
        for y in range(num_labels):
            totals[y] += (exps[p] * weights[p, y] + exps[p + 1] * weights[p + 1, y]) + (
                exps[p + 2] * weights[p + 2, y] + exps[p + 3] * weights[p + 3, y]
            )
    for p in range(remainder, num_labels):
        for y in range(num_labels):
            totals[y] += exps[p] * weights[p, y]
    if log_of_totals(totals, top + offset, out) > 0:
        for y in range(num_labels):
            if totals[y] < UNDERFLOW:
                out[y] = log_sum_into(values, transition, y)
    return top


@vectorised
def sum_by_label(segments, count, out, exps, totals):
    """out[y] = log Σ_w exp(segments[w·Y + y]) over `count` widths; returns the shift that `exps` was made with."""
    num_labels = out.size
    if count == 1:
        for y in range(num_labels):
            out[y] = segments[y]
        return 0.0
    top = largest(segments, count * num_labels)
    if top == -np.inf:
        out[:] = -np.inf
        exps[:] = 0.0
        return 0.0
    for j in range(count * num_labels):
        exps[j] = exp(segments[j] - top)
    add_by_label(exps, count, totals)
    if log_of_totals(totals, top, out) > 0:
        for y in range(num_labels):
            if totals[y] < UNDERFLOW:
                out[y] = log_sum(segments[y : count * num_labels : num_labels])
    return top


@compiled
def add_by_label(exps, count, totals):
    """totals[y] = Σ_w exps[w·Y + y]; the long axis goes inside, for vectors or for a register."""
    num_labels = totals.size
    if num_labels < 8:
        for y in range(num_labels):
            total = 0.0
            for w in range(count):
                total += exps[w * num_labels + y]
            totals[y] = total
    else:
        totals[:] = 0.0
        for w in range(count):
            row = exps[w * num_labels : (w + 1) * num_labels]
            for y in range(num_labels):
                totals[y] += row[y]


@vectorised
def log_of_totals(totals, shift, out):
    """out = shift + log(totals) where there is enough to take a logarithm of; how many there are where there is not."""
    underflows = 0
    for y in range(totals.size):
        underflows += totals[y] < UNDERFLOW
        out[y] = shift + log(totals[y] if totals[y] > UNDERFLOW else UNDERFLOW)
    return underflows


@vectorised
def segment_marginals(segments, exps, top, before, count, log_partition, out, scale):
    """out[w, y] = P(segment) = exp(before[y] + segments[w·Y + y] - log Z), from the exponentials already at hand."""
    num_labels = before.size
    for y in range(num_labels):
        scale[y] = before[y] + top - log_partition
    if count > 1 and largest(scale, num_labels) < LARGEST_SCALE:
        for y in range(num_labels):
            scale[y] = exp(scale[y])
        for w in range(count):
            row = exps[w * num_labels : (w + 1) * num_labels]
            for y in range(num_labels):
                out[w, y] = row[y] * scale[y]
    else:
        for w in range(count):
            for y in range(num_labels):
                out[w, y] = exp(before[y] + segments[w * num_labels + y] - log_partition)


@vectorised
def pair_counts(left, left_exps, left_top, right, right_exps, right_top, length, model, log_partition, scale, out):
    """out[y', y] = Σ_i P(y' ends at i and y begins there), exp(left[i, y'] + transition[y', y] + right[i, y] - log Z).

    Over the inner boundaries i = 1 … length - 1. A product of two matrices, but for positions where the factors are too
    far apart for float64: those are added in log space.
    """
    _, transition, weights, offset, _ = model
    num_labels = transition.shape[0]
    for i in range(1, length):
        exponent = left_top[i] + right_top[i] + offset - log_partition
        scale[i] = exp(exponent) if exponent < LARGEST_SCALE else 0.0
    remainder = 1 + (length - 1) // 4 * 4
    for p in range(num_labels):
        for i in range(1, remainder, 4):
            a, b = left_exps[i, p] * scale[i], left_exps[i + 1, p] * scale[i + 1]
            c, d = left_exps[i + 2, p] * scale[i + 2], left_exps[i + 3, p] * scale[i + 3]
            for y in range(num_labels):
                out[p, y] += (a * right_exps[i, y] + b * right_exps[i + 1, y]) + (
                    c * right_exps[i + 2, y] + d * right_exps[i + 3, y]
                )
        for i in range(remainder, length):
            a = left_exps[i, p] * scale[i]
            for y in range(num_labels):
                out[p, y] += a * right_exps[i, y]
        for y in range(num_labels):
            out[p, y] *= weights[p, y]
    for i in range(1, length):
        if left_top[i] + right_top[i] + offset - log_partition >= LARGEST_SCALE:
            for p in range(num_labels):
                for y in range(num_labels):
                    out[p, y] += exp(left[i, p] + transition[p, y] + right[i, y] - log_partition)


@reduction
def largest(values, count):
    top = values.dtype.type(-np.inf)
    for j in range(count):
        top = values[j] if values[j] > top else top
    return top


@reduction
def log_sum(values):
    top = largest(values, values.size)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += exp(value - top)
    return top + np.log(total)


@reduction
def log_sum_into(values, transition, y):
    """log Σ_{y'} exp(values[y'] + transition[y', y]), in log space from the start."""
    top = -np.inf
    for p in range(values.size):
        value = values[p] + transition[p, y]
        top = value if value > top else top
    if top == -np.inf:
        return top
    total = 0.0
    for p in range(values.size):
        total += exp(values[p] + transition[p, y] - top)
    return top + np.log(total)
