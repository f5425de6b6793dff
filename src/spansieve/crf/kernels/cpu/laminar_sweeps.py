"""Laminar sets of candidates compiled for the CPU. NumPy in, NumPy out.

Candidates are flat and ragged: those of sentence b are `offsets[b] … offsets[b+1] - 1`, sorted by (end, start, label).

The sweep is the inside algorithm of `reference.nested`, from the last start to the first, over the spans that have
candidates. There is one *row* for each start and label of a container, as wide as the widest of those containers: it
serves all that start there with that label. Gradients go back through the sweep, from the whole sentence inwards, as in
the outside algorithm.

Time O(L + N·Y + Σ over the rows of their width and of the spans inside them): for N candidates, none within another,
O(L + N·(K + Y)); with every span up to width K kept, O(L·K²) for each label that the containers at a start have.
"""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels import Sums
from spansieve.crf.kernels.cpu.filtered_sweeps import longest, most_in_a_sentence
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.laminar_workspace import most_slots, new_workspace, prepare
from spansieve.crf.kernels.cpu.simd import exp


def nested_sums(
    offsets, start, end, label, scores, transition, lengths, required=None, with_marginals=True, threads=1
) -> Sums:
    """Inside-outside: log Z (B,) and, if wanted, P(candidate) (N,) and the expected pairs of labels, (B, Y, Y)."""
    # In float64 whatever comes in: to compile for each type takes seconds, to convert a few candidates nothing.
    in_float64 = scores.astype(np.float64)
    sums = Sums.allocated(in_float64, lengths.size, len(transition), with_marginals)
    model = (offsets, start, end, label, in_float64, transition.astype(np.float64), lengths)
    model += _depths(required, lengths, len(transition))
    over_sentences(_sum_sentences, lengths.size, threads, scores.size, *model, *sums, with_marginals)
    return Sums(*(array.astype(scores.dtype, copy=False) for array in sums)).wanted(with_marginals)


def nested_best(offsets, start, end, label, scores, transition, lengths, required=None, threads=1):
    """The best set: its score (B,), and which candidates it takes (N,)."""
    max_score = np.empty(lengths.size, scores.dtype)
    is_chosen = np.zeros(scores.size, np.bool_)
    model = (offsets, start, end, label, scores, transition, lengths, *_depths(required, lengths, len(transition)))
    over_sentences(_best_sentences, lengths.size, threads, scores.size, *model, max_score, is_chosen)
    return max_score, is_chosen


def _depths(required, lengths, num_labels):
    """The depths of the tokens (B, L) and of the content of each label (Y,): see `RequiredDepths`."""
    if required is None:
        return np.zeros((lengths.size, lengths.max(initial=0)), np.int64), np.zeros(num_labels, np.int64)
    return required


# ---- Inwards to outwards ------------------------------------------------------------------------------------------


@compiled
def _sweep(length, label, score, transition, take_max, space):
    """⊕ over all sets; ⊕ is max or log-sum."""
    spans, rows, inside, within = space.spans, space.rows, space.inside, space.within
    for i in range(length - 1, -1, -1):
        low, high = rows.of_start[i], rows.of_start[i + 1]
        farthest = 0
        for r in range(low, high):
            inside[rows.base[r]] = 0.0
            farthest = max(farthest, rows.reach[r])
        for j in range(i + 1, farthest + 1):
            inner = _first_after(spans, i, j)
            for r in range(low, high):
                if rows.reach[r] >= j:
                    at = rows.base[r] + j - i
                    value = _extended(spans, inner, j, i, inside, rows.base[r], space.into, rows.label[r], take_max)
                    within[at] = value
                    inside[at] = value
            own = inner - 1
            if own >= spans.ending[j] and spans.start[own] == i:
                _enter(own, j - i, label, score, transition, take_max, space)
                for r in range(low, high):
                    if rows.reach[r] > j:
                        at = rows.base[r] + j - i
                        inside[at] = _added(within[at], space.into[own, rows.label[r]], take_max)
    space.whole[0] = 0.0
    for j in range(1, length + 1):
        space.whole[j] = _extended(spans, spans.ending[j], j, 0, space.whole, 0, space.into, 0, take_max)
    return space.whole[length]


@compiled
def _first_after(spans, i, j):
    """The first span in order that ends at j and starts after i."""
    s = spans.ending[j + 1]
    while s > spans.ending[j] and spans.start[s - 1] > i:
        s -= 1
    return s


@compiled
def _extended(spans, first, j, i, inside, base, into, p, take_max):
    """⊕ of inside[j - 1] and, over the spans [m, j) from `first` on, of inside[m] and what comes with the span."""
    before = inside[base + j - 1 - i] if _is_bare(spans, j, p) else inside.dtype.type(-np.inf)
    last = spans.ending[j + 1]
    if first == last:
        return before
    best = before
    for s in range(first, last):
        value = inside[base + spans.start[s] - i] + into[s, p]
        best = value if value > best else best
    if take_max or best == -np.inf:
        return best
    total = exp(before - best)
    for s in range(first, last):
        total += exp(inside[base + spans.start[s] - i] + into[s, p] - best)
    return best + np.log(total)


@compiled
def _is_bare(spans, j, p):
    """Whether token j - 1 may lie right below a container with label p, in no further segment."""
    return spans.depth[j - 1] == spans.content[p]


@compiled
def _added(a, b, take_max):
    high, low = (a, b) if a >= b else (b, a)
    return high if take_max or low == -np.inf else high + np.log1p(exp(low - high))


@compiled
def _enter(s, width, label, score, transition, take_max, space):
    """The candidates on span s with what is within them, and into[s, p] of them all for each label p around them."""
    first, last = space.spans.first[s], space.spans.first[s + 1]
    for c in range(first, last):
        space.value[c] = score[c] + space.within[space.rows.base[space.rows.of_node[c]] + width]
    for p in range(transition.shape[0]):
        best = space.value[first] + transition[p, label[first]]
        for c in range(first + 1, last):
            value = space.value[c] + transition[p, label[c]]
            best = value if value > best else best
        if not take_max and last - first > 1 and best > -np.inf:
            total = 0.0
            for c in range(first, last):
                total += exp(space.value[c] + transition[p, label[c]] - best)
            best += np.log(total)
        space.into[s, p] = best
        space.to_into[s, p] = 0.0


# ---- Outwards to inwards ------------------------------------------------------------------------------------------


@compiled
def _spread(length, label, transition, space, marginals, counts):
    """Gradients of log Z, which are probabilities: of each candidate, and of each pair of container and content."""
    spans, rows, inside, within = space.spans, space.rows, space.inside, space.within
    space.to_whole[: length + 1] = 0.0
    space.to_whole[length] = 1.0
    whole, to_whole = space.whole, space.to_whole
    for j in range(length, 0, -1):
        _share(spans, spans.ending[j], j, 0, whole, whole[j], to_whole[j], 0, 0, space, to_whole)
    for i in range(length):
        low, high = rows.of_start[i], rows.of_start[i + 1]
        farthest = 0
        for r in range(low, high):
            farthest = max(farthest, rows.reach[r])
            space.to_inside[rows.base[r] : rows.base[r] + rows.reach[r] - i + 1] = 0.0
        for j in range(farthest, i, -1):
            inner = _first_after(spans, i, j)
            own = inner - 1 if inner > spans.ending[j] and spans.start[inner - 1] == i else -1
            if own >= 0:
                for r in range(low, high):
                    if rows.reach[r] > j:
                        _part(space, rows.base[r] + j - i, own, rows.label[r])
                _leave(own, j - i, label, transition, space, marginals, counts)
            for r in range(low, high):
                if rows.reach[r] >= j:
                    base, at = rows.base[r], rows.base[r] + j - i
                    weight = space.to_inside[at]
                    _share(spans, inner, j, i, inside, within[at], weight, base, rows.label[r], space, space.to_inside)


@compiled
def _part(space, at, own, p):
    """What reaches inside[at] is parted between the span itself and what is within it."""
    weight = space.to_inside[at]
    if weight == 0.0:
        return
    space.to_into[own, p] += weight * exp(space.into[own, p] - space.inside[at])
    space.to_inside[at] = weight * exp(space.within[at] - space.inside[at])


@compiled
def _leave(s, width, label, transition, space, marginals, counts):
    """What reaches into[s] goes to the candidates on the span, and through them to what is within."""
    for c in range(space.spans.first[s], space.spans.first[s + 1]):
        y = label[c]
        total = 0.0
        for p in range(transition.shape[0]):
            weight = space.to_into[s, p]
            if weight > 0.0:
                weight *= exp(space.value[c] + transition[p, y] - space.into[s, p])
                counts[p, y] += weight
                total += weight
        marginals[c] = total
        space.to_inside[space.rows.base[space.rows.of_node[c]] + width] += total


@compiled
def _share(spans, first, j, i, inside, result, weight, base, p, space, to_inside):
    """The terms of `_extended`, each with its part of the weight that reaches their sum."""
    if weight == 0.0:
        return
    if _is_bare(spans, j, p):
        to_inside[base + j - 1 - i] += weight * exp(inside[base + j - 1 - i] - result)
    for s in range(first, spans.ending[j + 1]):
        m = base + spans.start[s] - i
        part = weight * exp(inside[m] + space.into[s, p] - result)
        to_inside[m] += part
        space.to_into[s, p] += part


# ---- The best set --------------------------------------------------------------------------------------------------


@compiled
def _trace(length, start, end, label, transition, space, is_chosen):
    """Mark the best set. Of equals, that whose last outermost segment comes first in (end, start, label) order, and
    none before any; then likewise for what is within that segment, and for what is before it."""
    rows, stack = space.rows, space.stack
    count = _trace_row(length, 0, 0, space.whole, space.whole, 0, 0, label, transition, space, is_chosen, 0)
    while count > 0:
        count -= 1
        c = stack[count]
        base, i = rows.base[rows.of_node[c]], start[c]
        count = _trace_row(
            end[c], i, i + 1, space.within, space.inside, base, label[c], label, transition, space, is_chosen, count
        )


@compiled
def _trace_row(j, i, lowest, at_first, inside, base, p, label, transition, space, is_chosen, count):
    """Mark the segments right below a container [i, j) with label p; what is within them comes later.

    The first of them to be found must start at `lowest` or after: a container is not its own content.
    """
    spans, values = space.spans, at_first
    while j > i:
        value = values[base + j - i]
        if value == inside[base + j - 1 - i] and _is_bare(spans, j, p):
            j -= 1
        else:
            s = spans.ending[j]
            while spans.start[s] < lowest or inside[base + spans.start[s] - i] + space.into[s, p] != value:
                s += 1
            c = spans.first[s]
            while space.value[c] + transition[p, label[c]] != space.into[s, p]:
                c += 1
            is_chosen[c] = True
            space.stack[count] = c
            count += 1
            j = spans.start[s]
        values, lowest = inside, i
    return count


# ---- All sentences -------------------------------------------------------------------------------------------------


@allocating
def _sum_sentences(first, last, offsets, start, end, label, scores, transition, lengths, depth, content, *results):
    model = (offsets, start, end, label, scores, transition, lengths, depth)
    _sums(first, last, model, _space_for(first, last, model, content, transition), *results)


@compiled
def _sums(first, last, model, space, log_partition, marginals, counts, with_marginals):
    offsets, starts, ends, labels, scores, transition, lengths, depth = model
    for b in range(first, last):
        low, high, length = offsets[b], offsets[b + 1], lengths[b]
        label = labels[low:high]
        prepare(length, starts[low:high], ends[low:high], label, depth[b], space)
        log_partition[b] = _sweep(length, label, scores[low:high], transition, False, space)
        if with_marginals and log_partition[b] > -np.inf:
            _spread(length, label, transition, space, marginals[low:high], counts[b])


@allocating
def _best_sentences(first, last, offsets, start, end, label, scores, transition, lengths, depth, content, *results):
    model = (offsets, start, end, label, scores, transition, lengths, depth)
    _best(first, last, model, _space_for(first, last, model, content, scores), *results)


@compiled
def _best(first, last, model, space, max_score, is_chosen):
    offsets, starts, ends, labels, scores, transition, lengths, depth = model
    for b in range(first, last):
        low, high, length = offsets[b], offsets[b + 1], lengths[b]
        start, end, label = starts[low:high], ends[low:high], labels[low:high]
        prepare(length, start, end, label, depth[b], space)
        max_score[b] = _sweep(length, label, scores[low:high], transition, True, space)
        if max_score[b] > -np.inf:
            _trace(length, start, end, label, transition, space, is_chosen[low:high])


@allocating
def _space_for(first, last, model, content, like):
    offsets, start, end, _, _, transition, lengths, _ = model
    slots = most_slots(first, last, offsets, start, end, lengths, transition.shape[0])
    most = most_in_a_sentence(offsets, first, last)
    return new_workspace(longest(lengths), most, transition.shape[0], slots, content, like)
