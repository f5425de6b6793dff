"""The filtered semi-Markov model with skipping, swept over every span: for filters that keep nearly all of them; and
whether one keeps enough for that.

`scores[b, i, w, y]` is the segment at i of width w + 1 with label y; it is -inf for what is no candidate. Any set of
disjoint candidates is a path, and the one before a segment may have ended anywhere to its left. So what has ended is
carried along, in O(L·K·Y + L·Y²) as in the semi-Markov model:

    ended[m, y]  = ended[m-1, y] ⊕ (⊕_w before[m-w, y] + scores[m-w, w-1, y])
    before[m, y] = ⊕_{y'} ended[m, y'] + transition[y', y]

Null is no segment, so its place stands for the empty path: ended[m, 0] = 0, and its transitions are 0. From right to
left the same place stands for the end.

Sums run in float64 whatever the scores are; maxima run in the scores' own type. NumPy in, NumPy out.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.flat_segments import FlatSegments, dense_index
from spansieve.crf.kernels import NO_BUDGET, PLAIN_FILTER, Sums
from spansieve.crf.kernels.cpu.filter import (
    NOT_A_NUMBER,
    raise_wrong,
    rank_of_label,
    segments_from_scores,
    what_is_wrong,
)
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.semi_markov_sweeps import max_forward, new_forward, span_sums

DENSE_FROM = 0.45  # candidates a span, about where the two break even: results/soft_filters_cpu.md
STARTS = 16  # looked at to estimate how many candidates there are


def dense_skip_sums(scores, transition, lengths, with_marginals=True, threads=1) -> Sums:
    """Forward-backward: log Z (B,) and, if wanted, P(segment) (B, L, K, Y) and the expected label pairs (B, Y, Y)."""
    return span_sums(scores, _free_of_null(transition), lengths, True, with_marginals, threads)


def dense_skip_best(scores, transition, lengths, threads=1):
    """Viterbi: the best score (B,), and at the start of each segment of the best path the width and the label (B, L).

    Ties go as in `filtered_best`: the empty path wins, then the first predecessor in (end, start, label) order. Widths
    are 0 where no segment starts.
    """
    max_score = np.empty(len(scores), scores.dtype)
    widths, labels = np.zeros((2, *scores.shape[:2]), np.int64)
    arguments = (scores, _free_of_null(transition), lengths, max_score, widths, labels)
    over_sentences(_best, len(scores), threads, scores.size, *arguments)
    return max_score, widths, labels


def _free_of_null(transition):
    """What comes before the first segment and after the last adds nothing."""
    transition = transition.copy()
    transition[0] = transition[:, 0] = 0.0
    return transition


@allocating
def _best(first, last, scores, *arguments):
    _trace(first, last, new_forward(scores, False, scores), scores, *arguments)


@compiled
def _trace(first, last, space, scores, transition, lengths, max_score, widths, labels):
    for b in range(first, last):
        position, label = lengths[b], 0
        max_forward(scores[b], transition, position, space, True)
        max_score[b] = space.before[position, 0]
        while space.before[position, label] != 0:  # the empty path comes first
            position, end, label = _segment_before(scores[b], space, transition, position, label)
            widths[b, position] = end - position
            labels[b, position] = label


@compiled
def _segment_before(scores, space, transition, position, following):
    """Start, end and label of the first segment in (end, start, label) order that leads best to a segment with the
    label `following` at this position, or with 0 to the end."""
    max_width, num_labels = scores.shape[1:]
    best = space.before[position, following]
    end = position
    for y in range(1, num_labels):
        if space.ended[end, y] + transition[y, following] == best:
            end = _first_end(space.ended, y, transition[y, following], best, end)
    for start in range(max(0, end - max_width), end):
        for y in range(1, num_labels):
            value = space.before[start, y] + scores[start, end - start - 1, y]
            if value + transition[y, following] == best:
                return start, end, y
    return 0, 0, 0  # not reached: something attains the maximum


@compiled
def _first_end(ended, y, onward, best, last):
    """The first position by which what ended with label y attains the best, by halving: `ended` never falls."""
    first = 1
    while first < last:
        middle = (first + last) // 2
        if ended[middle, y] + onward == best:
            last = middle
        else:
            first = middle + 1
    return last


# ---- The filter ------------------------------------------------------------------------------------------------------


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
    """About how many candidates there are, by the spans from a few starts all over the batch, and how many spans.

    The lengths were not looked at before.
    """
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
    share = kept / max(1, spans)
    num_kept = 0.0
    num_spans = 0
    for length in lengths:
        widest = min(max(0, length), max_width)
        spans = widest * max(0, length) - widest * (widest - 1) // 2
        num_spans += spans
        num_kept += min(share * spans, budget)
    return num_kept, num_spans


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
