"""The filter for a sweep over every span: whether it keeps enough for one, and what the sweep is given then.

NumPy in, NumPy out.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.flat_segments import FlatSegments, dense_index
from spansieve.crf.kernels import NO_BUDGET, PLAIN_FILTER
from spansieve.crf.kernels.cpu.filter import NOT_A_NUMBER, raise_wrong, segments_from_scores, what_is_wrong
from spansieve.crf.kernels.cpu.jit import compiled, over_sentences
from spansieve.crf.kernels.cpu.sentence_filter import rank_of_label

DENSE_FROM = 0.45  # candidates a span, about where the two break even: results/soft_filters_cpu.md
STARTS = 16  # looked at to estimate how many candidates there are


def is_dense_cheaper(local_scores, lengths, limits=PLAIN_FILTER) -> bool:
    """Whether with skipping a sweep over every span costs less than one over what the filter keeps.

    Estimated from a few spans: a wrong guess costs time and nothing else.
    """
    limits = limits.within(local_scores.shape[-1])
    budget = NO_BUDGET if limits.budget is None else limits.budget
    kept, spans = _num_kept(local_scores, lengths, limits.labels_per_span, budget)
    return bool(kept >= DENSE_FROM * spans)


def kept_scores(
    local_scores, global_scores, transition, lengths, gold=None, limits=PLAIN_FILTER, threads=1
) -> np.ndarray:
    """The global scores of the candidates where they stand, and -inf elsewhere, (B, L, K, Y).

    With gold (offsets, start, end, label), every gold segment is a candidate too. Nothing is dropped for its sake: this
    is for paths that may skip.
    """
    scores, limits = np.full(global_scores.shape, -np.inf, global_scores.dtype), limits.within(global_scores.shape[-1])
    if limits.budget is not None:
        arguments = (local_scores, global_scores, transition, lengths, gold, True, False, limits)
        kept = segments_from_scores(*arguments, threads=threads)
        scores.reshape(-1)[kept.index] = kept.score
        return scores
    arguments = (local_scores, global_scores, transition, lengths, limits.labels_per_span, scores)
    wrong = min(over_sentences(_keep, len(scores), threads, scores.size, *arguments))
    if wrong:
        raise_wrong(wrong, scores.shape[1], lengths)
    if gold is not None:
        index = dense_index(FlatSegments(*gold), scores.shape)
        scores.reshape(-1)[index] = kept = global_scores.reshape(-1)[index]
        if not (kept < np.inf).all():
            raise_wrong(NOT_A_NUMBER, scores.shape[1], lengths)
    return scores


@compiled
def _num_kept(local_scores, lengths, labels_per_span, budget):
    """About how many candidates there are, and how many spans."""
    share = _kept_per_span(local_scores, lengths, labels_per_span)
    kept = 0.0
    num_spans = 0
    for length in lengths:
        spans = _num_spans(max(0, length), local_scores.shape[2])
        num_spans += spans
        kept += min(share * spans, budget)
    return kept, num_spans


@compiled
def _kept_per_span(local_scores, lengths, labels_per_span):
    """How much of the spans from a few starts, all over the batch, is kept. The lengths were not looked at before."""
    num_sentences, num_tokens, max_width, num_labels = local_scores.shape
    kept = 0
    spans = 0
    step = num_sentences * num_tokens // STARTS + 1  # the 1 moves it on within the sentences, where all are alike
    for at in range(0, num_sentences * num_tokens, step):
        b, start = at // num_tokens, at % num_tokens
        for w in range(min(max_width, min(lengths[b], num_tokens) - start)):
            row = local_scores[b, start, w]
            above = 0
            for y in range(1, num_labels):
                above += row[y] > row[0]
            kept += min(above, labels_per_span)
            spans += 1
    return kept / spans if spans > 0 else 0.0


@compiled
def _num_spans(length, max_width):
    longest = min(length, max_width)
    return longest * length - longest * (longest - 1) // 2


@compiled
def _keep(first, last, local_scores, global_scores, transition, lengths, labels_per_span, scores):
    """Fill in what is kept; 0, or why there are no candidates."""
    num_tokens, max_width, _ = local_scores.shape[1:]
    wrong = what_is_wrong(first, last, num_tokens, transition, lengths)
    if wrong < 0:
        return wrong
    is_number = True
    for b in range(first, last):
        for start in range(lengths[b]):
            for w in range(min(max_width, lengths[b] - start)):
                span = (local_scores[b, start, w], global_scores[b, start, w])
                is_number &= _keep_labels(*span, labels_per_span, scores[b, start, w])
    return 0 if is_number else NOT_A_NUMBER


@compiled
def _keep_labels(local_scores, global_scores, labels_per_span, scores):
    """Keep labels of one span; whether all that was looked at is a number."""
    num_labels = scores.size
    best, is_hit, is_number = 0, False, True
    for y in range(num_labels):
        is_hit |= not local_scores[y] <= local_scores[0]
        is_number &= local_scores[y] < np.inf
        best = y if local_scores[y] > local_scores[best] else best
    if labels_per_span == 1 or best == 0:
        if best > 0:
            scores[best] = global_scores[best]
            is_number &= scores[best] < np.inf
        return is_number or not is_hit
    for y in range(1, num_labels):
        is_kept = local_scores[y] > local_scores[0]
        if labels_per_span < num_labels - 1:
            is_kept = is_kept and rank_of_label(local_scores, 0, y, num_labels) < labels_per_span
        if is_kept:
            scores[y] = global_scores[y]
            is_number &= scores[y] < np.inf
    return is_number
