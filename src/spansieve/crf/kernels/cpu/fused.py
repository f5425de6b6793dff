"""The filter fused with the sums over the paths, and the gradient that comes of them. NumPy in, NumPy out."""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels import PLAIN_FILTER, Sums
from spansieve.crf.kernels.cpu.filter import Kept, filter_and_trace, filter_with_room, joined
from spansieve.crf.kernels.cpu.filtered import sum_sentences
from spansieve.crf.kernels.cpu.gradients import add_up
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences


def sums_from_scores(
    local_scores, global_scores, transition, lengths, gold=None, skip=False, threads=1, limits=PLAIN_FILTER
) -> tuple[Kept, Sums]:
    """Filter, and run forward-backward over what is kept: log Z and the marginals, (N,). Dense scores in, one call."""
    arguments = (local_scores, global_scores, transition, lengths, gold, skip, False, limits)
    parts = over_sentences(filter_with_room, len(local_scores), threads, local_scores.size, _filter_and_sum, *arguments)
    if len(parts) == 1:
        return Kept._make(parts[0][:5]), Sums._make(parts[0][5:])
    sums = Sums._make(np.concatenate(runs) for runs in list(zip(*parts))[5:])
    return Kept._make(joined([part[:5] for part in parts])), sums


@allocating
def _filter_and_sum(first, last, capacity, local_scores, global_scores, transition, lengths, offsets, gold, options):
    arguments = (local_scores, global_scores, transition, lengths, offsets, gold, options)
    n, out = filter_and_trace(first, last, capacity, *arguments)
    count = max(0, n)
    num_sentences, num_labels = (last - first if n >= 0 else 0), transition.shape[0]
    score = out.score[:count]
    start, end, label = out.nodes[0, :count], out.nodes[1, :count], out.nodes[2, :count]
    log_partition = np.empty(num_sentences, score.dtype)
    marginals = np.zeros(count, score.dtype)
    counts = np.zeros((num_sentences, num_labels, num_labels), score.dtype)
    graph = (out.bounds[0], start, end, label, score, transition.astype(np.float64), lengths[first:last])
    block = np.full(count, -1) if options[1] else start
    sum_sentences(0, num_sentences, *graph, block, log_partition, marginals, counts, True)
    kept = (out.bounds, out.nodes[:, :count], score, out.chosen[:, :0], out.max_score)
    return (n, *kept, log_partition, marginals, counts)


def dense_expectations(gradient, marginals, counts, kept, shape):
    """gradient[b] · marginals of sentence b where they stand in dense scores, 0 elsewhere, and Σ_b gradient[b] ·
    counts[b]."""
    to_scores = np.zeros(shape, marginals.dtype)
    to_transition = np.zeros(counts.shape[1:], counts.dtype)
    _spread(gradient, kept.nodes, marginals, counts, to_scores, to_transition)
    return to_scores, to_transition


@compiled
def _spread(gradient, nodes, marginals, counts, to_scores, to_transition):
    flat = to_scores.reshape(to_scores.size)
    for c in range(marginals.size):
        flat[nodes[3, c]] = gradient[nodes[4, c]] * marginals[c]
    add_up(gradient, counts, to_transition)
