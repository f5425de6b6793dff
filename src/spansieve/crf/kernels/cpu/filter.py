"""The filter compiled for the CPU, alone or fused with the best path. NumPy in, NumPy out.

`local_scores[b, i, w, y]` is the local score of the segment that starts at token i, has width w + 1 and label y. A span
is kept, with its best label, when that label is not null; null wins a tie. O(L·K·Y), the one part that looks at every
span: all else is proportional to what is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.cpu.compiled import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.filtered import most_in_a_sentence, sweep
from spansieve.crf.kernels.cpu.nodes import Nodes, new_room
from spansieve.crf.kernels.cpu.vector_math import any_above_2, any_above_4, any_above_8

USUAL = 16  # candidates a sentence; where there are more on average the filter runs again with room for all
NO_GOLD = np.zeros(0, np.int64), np.zeros((3, 0), np.int64)
FULL, NOT_A_NUMBER = -1, -2  # what stands for the number of candidates when there is none


class Kept(NamedTuple):
    """The candidates, flat and sorted by (sentence, end, start, label), and the best path where it was asked for."""

    offsets: np.ndarray  # (B + 1,)
    start: np.ndarray  # (N,)
    end: np.ndarray
    label: np.ndarray
    index: np.ndarray  # (N,): where they stand in flattened (B, L, K, Y) scores
    sentence: np.ndarray  # (N,)
    score: np.ndarray  # (N,): their global scores, where those were given
    best: np.ndarray  # (M,): the candidates that the best path takes
    best_offsets: np.ndarray  # (B + 1,)
    max_score: np.ndarray  # (B,)


def filter_spans(local_scores, lengths, gold=None, keep_all=False, threads=1) -> Kept:
    """The candidates. With gold (offsets, start, end, label), both training rules: what overlaps no gold segment is
    dropped (unless `keep_all`), and every gold segment is a candidate with its gold label."""
    no_scores, no_transition = np.empty((1, 0), local_scores.dtype), np.empty((1, 1), local_scores.dtype)
    return _run(local_scores, no_scores, no_transition, lengths, gold, keep_all, False, threads)


def segments_from_scores(
    local_scores, global_scores, transition, lengths, gold=None, skip=False, find_best=True, threads=1
) -> Kept:
    """Filter and best path in one pass over each sentence: dense scores in, segments out."""
    flat = global_scores.reshape(len(global_scores), math.prod(global_scores.shape[1:]))
    return _run(local_scores, flat, transition, lengths, gold, skip, find_best, threads)


def _run(local_scores, global_scores, transition, lengths, gold, skip, find_best, threads) -> Kept:
    num_sentences = len(local_scores)
    shape = local_scores.shape[1:]
    flat = local_scores.reshape(num_sentences, math.prod(shape))
    offsets, segments = NO_GOLD if gold is None else (gold[0], np.stack(gold[1:]))
    arguments = (flat, global_scores, transition, lengths, offsets, segments, (gold is not None, skip, find_best))
    parts = over_sentences(_filtered_run, num_sentences, threads, local_scores.size, shape, *arguments)
    offsets, kept, score, best, max_score = parts[0] if len(parts) == 1 else _joined(parts)
    return Kept(offsets[0], *kept, score, best, offsets[1], max_score)


def _filtered_run(first, last, shape, *arguments):
    """With room for the usual number of candidates, and where that is not enough, for every span."""
    num_gold = arguments[5].shape[1]
    for each in (USUAL, shape[0] * shape[1]):
        found = _filter(first, last, shape, each * (last - first) + num_gold, *arguments)
        if found[0] != FULL:
            break
    if found[0] == NOT_A_NUMBER:
        raise ValueError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")
    return found[1:]


def _joined(parts):
    """The runs of sentences one after the other: counts and positions go on where the last run ended."""
    offsets, kept, score, best, max_score = zip(*parts)
    ends = np.cumsum([run[:, -1] for run in offsets], axis=0)  # candidates and chosen ones up to the end of each run
    before = np.vstack((np.zeros((1, 2), np.int64), ends[:-1]))
    offsets = [np.zeros((2, 1), np.int64), *(run[:, 1:] + low[:, None] for run, low in zip(offsets, before))]
    best = [run + low[0] for run, low in zip(best, before)]
    return tuple(np.concatenate(runs, axis=-1) for runs in (offsets, kept, score, best, max_score))


class _Room(NamedTuple):
    """Room for the filter on one sentence."""

    hits: np.ndarray  # (L·K,)
    spans: np.ndarray  # (3, N): start, end and label
    sorted: np.ndarray  # (3, N)
    covered: np.ndarray  # (L + 1,)
    tally: np.ndarray


class _Out(NamedTuple):
    offsets: np.ndarray  # (2, B + 1): of the candidates, and of those on the best path
    kept: np.ndarray  # (5, N): start, end, label, index and sentence
    score: np.ndarray  # (N,)
    best: np.ndarray  # (M,)
    max_score: np.ndarray  # (B,)


@allocating
def _filter(first, last, shape, capacity, local_scores, global_scores, transition, lengths, offsets, gold, options):
    """The number of candidates, or why there is none, and of the sentences first … last - 1 what `_Out` says."""
    num_tokens, max_width, num_labels = shape
    num_spans = num_tokens * max_width
    most = num_spans + (most_in_a_sentence(offsets, first, last) if options[0] else 0)
    room = _Room(
        np.empty(num_spans, np.int64),
        np.empty((3, most), np.int64),
        np.empty((3, most), np.int64),
        np.empty(num_tokens + 1, np.int64),
        np.empty(max(num_tokens, num_labels) + 2, np.int64),
    )
    path_room = new_room(num_tokens, most if options[2] else 0, num_labels, local_scores)
    out = _Out(
        np.zeros((2, last - first + 1), np.int64),
        np.empty((5, capacity), np.int64),
        np.empty(capacity, local_scores.dtype),
        np.empty(capacity, np.int64),
        np.empty(last - first, local_scores.dtype),
    )
    model = (local_scores, global_scores, transition, lengths)
    n = _filter_sentences(first, last, shape, model, offsets, gold, options, room, path_room, out)
    count = max(0, n)
    best = out.best[: out.offsets[1, last - first]]
    return n, out.offsets, out.kept[:, :count], out.score[:count], best, out.max_score


@compiled
def _filter_sentences(first, last, shape, model, offsets, gold, options, room, path_room, out):
    local_scores, global_scores, transition, lengths = model
    has_gold, skip, find_best = options
    total = 0
    chosen = 0
    for b in range(first, last):
        n = _keep(b, shape, local_scores[b], lengths[b], offsets, gold, has_gold, skip, room)
        if n < 0:
            return NOT_A_NUMBER
        if total + n > out.best.size:
            return FULL
        _copy_out(b, n, shape, room.sorted, out.kept[:, total:])
        if global_scores.size > 0:
            for c in range(total, total + n):
                out.score[c] = global_scores[b, out.kept[3, c] - b * global_scores.shape[1]]
                if not out.score[c] < np.inf:
                    return NOT_A_NUMBER
        if find_best:
            nodes = Nodes(room.sorted[0], room.sorted[1], room.sorted[2], out.score[total : total + n])
            out.max_score[b - first], c = sweep(nodes, n, lengths[b], transition, skip, True, path_room)
            chosen = _copy_path(path_room.origin, c, total, out.best, chosen)
        total += n
        out.offsets[0, b - first + 1] = total
        out.offsets[1, b - first + 1] = chosen
    return total


@compiled
def _copy_path(origin, c, base, best, count):
    """Append the path that ends in node c, from left to right; how many are there now."""
    first = count
    while c >= 0:
        best[count] = base + c
        count += 1
        c = origin[c]
    for k in range((count - first) // 2):
        best[first + k], best[count - 1 - k] = best[count - 1 - k], best[first + k]
    return count


@compiled
def _keep(b, shape, row, length, offsets, gold, has_gold, skip, room):
    """The candidates of one sentence, in order, into `room.sorted`; how many, or NOT_A_NUMBER."""
    _, max_width, num_labels = shape
    found = _scan(row, length * max_width, num_labels, room.hits)
    if not has_gold:
        n = _label_hits(row, room.hits, found, shape, length, room.covered, False, room.spans)
        _sort_by(room.spans, 1, n, length + 1, room.tally, room.sorted)
        return n
    _cover(gold, offsets[b], offsets[b + 1], length, room.covered)
    n = _label_hits(row, room.hits, found, shape, length, room.covered, not skip, room.spans)
    if n < 0:
        return n
    for g in range(offsets[b], offsets[b + 1]):
        room.spans[0, n], room.spans[1, n], room.spans[2, n] = gold[0, g], gold[1, g], gold[2, g]
        n += 1
    _sort_by(room.spans, 2, n, num_labels, room.tally, room.sorted)
    _sort_by(room.sorted, 0, n, length, room.tally, room.spans)
    _sort_by(room.spans, 1, n, length + 1, room.tally, room.sorted)
    return _without_repeats(room.sorted, n)


@compiled
def _copy_out(b, n, shape, spans, kept):
    num_tokens, max_width, num_labels = shape
    for c in range(n):
        start, end, label = spans[0, c], spans[1, c], spans[2, c]
        kept[0, c], kept[1, c], kept[2, c] = start, end, label
        kept[3, c] = ((b * num_tokens + start) * max_width + end - start - 1) * num_labels + label
        kept[4, c] = b


@compiled
def _scan(row, num_spans, num_labels, hits):
    """Where null is not the best label. A NaN is a hit too.

    Each span's labels are compared a vector at a time, the last one reaching back over what was seen.
    """
    count = 0
    for s in range(num_spans):
        at = s * num_labels
        null = row[at]
        if num_labels > 8:
            is_hit = any_above_8(row, at + 1, null) | any_above_8(row, at + num_labels - 8, null)
            for y in range(9, num_labels - 8, 8):
                is_hit |= any_above_8(row, at + y, null)
        elif num_labels > 4:
            is_hit = any_above_4(row, at + 1, null) | any_above_4(row, at + num_labels - 4, null)
        elif num_labels > 2:
            is_hit = any_above_2(row, at + 1, null) | any_above_2(row, at + num_labels - 2, null)
        else:
            is_hit = num_labels > 1 and not row[at + 1] <= null
        if is_hit:
            hits[count] = s
            count += 1
    return count


@compiled
def _label_hits(row, hits, found, shape, length, covered, must_overlap, spans):
    """The hits inside the sentence as (start, end, label), in order of start; NOT_A_NUMBER if one is none."""
    _, max_width, num_labels = shape
    n = 0
    start = 0
    for h in range(found):
        while hits[h] >= (start + 1) * max_width:
            start += 1
        end = hits[h] - start * (max_width - 1) + 1
        if end > length:
            continue
        at = hits[h] * num_labels
        best = 0
        for y in range(num_labels):
            if not row[at + y] < np.inf:
                return NOT_A_NUMBER
            if row[at + y] > row[at + best]:
                best = y
        if must_overlap and covered[end] == covered[start]:
            continue
        spans[0, n], spans[1, n], spans[2, n] = start, end, best
        n += 1
    return n


@compiled
def _cover(gold, first, last, length, covered):
    """covered[i]: how many of the tokens before i lie in a gold segment."""
    covered[: length + 1] = 0
    for g in range(first, last):
        for i in range(gold[0, g], gold[1, g]):
            covered[i + 1] = 1
    for i in range(length):
        covered[i + 1] += covered[i]


@compiled
def _sort_by(spans, key, n, num_keys, tally, out):
    """Counting sort of the columns by one row, stable."""
    tally[: num_keys + 1] = 0
    for c in range(n):
        tally[spans[key, c] + 1] += 1
    for k in range(1, num_keys + 1):
        tally[k] += tally[k - 1]
    for c in range(n):
        at = tally[spans[key, c]]
        tally[spans[key, c]] += 1
        for row in range(3):
            out[row, at] = spans[row, c]


@compiled
def _without_repeats(spans, n):
    kept = 0
    for c in range(n):
        is_repeat = kept > 0
        for row in range(3):
            is_repeat = is_repeat and spans[row, c] == spans[row, kept - 1]
        if not is_repeat:
            for row in range(3):
                spans[row, kept] = spans[row, c]
            kept += 1
    return kept
