"""The filter compiled for the CPU, alone or fused with the best path. NumPy in, NumPy out.

`local_scores[b, i, w, y]` is the local score of the segment that starts at token i, has width w + 1 and label y. A span
is kept, with its best label, when that label is not null; null wins a tie. O(L·K·Y), the one part that looks at every
span: all else is proportional to what is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels.compiled import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu_filtered import Nodes, mark_path, most_in_a_sentence, new_room, sweep

FIRST = np.zeros(1, np.int64)
UNROLLED = 64  # the scan is compiled for each number of labels up to this, so that its inner loop is straight-line code


class Kept(NamedTuple):
    """The candidates, flat and sorted by (sentence, end, start, label), and the best path where it was asked for."""

    offsets: np.ndarray  # (B + 1,)
    start: np.ndarray  # (N,)
    end: np.ndarray
    label: np.ndarray
    is_chosen: np.ndarray  # (N,): whether the best path takes it
    max_score: np.ndarray  # (B,)


def filter_spans(local_scores, lengths, gold=None, keep_all=False, threads=1) -> Kept:
    """The candidates. With gold (offsets, start, end, label), both training rules: what overlaps no gold segment is
    dropped (unless `keep_all`), and every gold segment is a candidate with its gold label."""
    unused = np.empty((1, 1), local_scores.dtype)
    return _run(local_scores, unused, unused, lengths, gold, keep_all, False, threads)


def segments_from_scores(local_scores, global_scores, transition, lengths, skip=False, threads=1) -> Kept:
    """Filter and best path in one pass over each sentence: dense scores in, segments out."""
    flat = global_scores.reshape(len(global_scores), -1)
    return _run(local_scores, flat, transition, lengths, None, skip, True, threads)


def _run(local_scores, global_scores, transition, lengths, gold, skip, find_best, threads) -> Kept:
    num_sentences, num_tokens, max_width, num_labels = local_scores.shape
    flat = local_scores.reshape(num_sentences, num_tokens * max_width * num_labels)
    axis = (0,) * num_labels if num_labels <= UNROLLED else (0,)
    offsets = gold[0] if gold is not None else np.zeros(num_sentences + 1, np.int64)
    segments = np.stack(gold[1:]) if gold is not None else np.zeros((3, 0), np.int64)
    shape = local_scores.shape[1:]
    arguments = (flat, global_scores, transition, lengths, offsets, segments, gold is not None, skip, find_best)
    parts = over_sentences(_filter, num_sentences, threads, local_scores.size, shape, axis, *arguments)
    counts, spans, is_chosen, max_score = parts[0] if len(parts) == 1 else _joined(parts)
    if counts.size and counts.min() < 0:
        raise ValueError("scores must be numbers below +inf, got NaN or +inf")
    return Kept(np.concatenate((FIRST, np.cumsum(counts))), spans[0], spans[1], spans[2], is_chosen, max_score)


def _joined(parts):
    counts, spans, is_chosen, max_score = zip(*parts)
    return tuple(np.concatenate(arrays, axis=-1) for arrays in (counts, spans, is_chosen, max_score))


class _Room(NamedTuple):
    """Room for the filter on one sentence."""

    hits: np.ndarray  # (L·K + 1,)
    spans: np.ndarray  # (3, N): start, end and label
    sorted: np.ndarray  # (3, N)
    covered: np.ndarray  # (L + 1,)
    tally: np.ndarray
    score: np.ndarray  # (N,)


@allocating
def _filter(
    first, last, shape, axis, local_scores, global_scores, transition, lengths, offsets, gold, has_gold, skip, find_best
):
    """How many candidates each sentence has, their starts, ends and labels, which the best path takes, and its score.

    A count of -1 says that a score was not a number.
    """
    num_tokens, max_width, num_labels = shape
    most = num_tokens * max_width + most_in_a_sentence(offsets, first, last)
    room = _Room(
        np.empty(num_tokens * max_width + 1, np.int64),
        np.empty((3, most), np.int64),
        np.empty((3, most), np.int64),
        np.empty(num_tokens + 1, np.int64),
        np.empty(max(num_tokens, num_labels) + 2, np.int64),
        np.empty(most, local_scores.dtype),
    )
    path_room = new_room(num_tokens, most if find_best else 0, num_labels, local_scores)
    counts = np.zeros(last - first, np.int64)
    max_score = np.zeros(last - first, local_scores.dtype)
    capacity = 16 * (last - first)
    kept = np.empty((3, capacity), np.int64)
    is_chosen = np.zeros(capacity, np.bool_)
    total = 0
    for b in range(first, last):
        n = _keep(b, shape, axis, local_scores, lengths[b], offsets, gold, has_gold, skip, room)
        if n > 0 and total + n > capacity:
            capacity = 2 * (total + n)
            kept, is_chosen = (
                _moved(kept, np.empty((3, capacity), np.int64)),
                _moved(is_chosen, np.zeros(capacity, np.bool_)),
            )
        if n > 0:
            chosen = is_chosen[total : total + n]
            n = _take(
                b,
                n,
                shape,
                global_scores,
                transition,
                lengths[b],
                skip,
                find_best,
                room,
                path_room,
                kept,
                total,
                chosen,
                max_score[b - first :],
            )
        counts[b - first] = n
        if n < 0:
            break
        total += n
    return counts, kept[:, :total], is_chosen[:total], max_score


@compiled
def _keep(b, shape, axis, local_scores, length, offsets, gold, has_gold, skip, room):
    """The candidates of one sentence, in order, into `room.sorted`; how many, or -1 if a score is not a number."""
    _, max_width, num_labels = shape
    row = local_scores[b]
    found = _scan(row, length * max_width, num_labels, axis, room.hits)
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
def _take(
    b, n, shape, global_scores, transition, length, skip, find_best, room, path_room, kept, at, is_chosen, max_score
):
    """Copy the candidates of one sentence out, and mark the best path through them where that was asked for."""
    start, end, label = room.sorted[0], room.sorted[1], room.sorted[2]
    for c in range(n):
        kept[0, at + c], kept[1, at + c], kept[2, at + c] = start[c], end[c], label[c]
    if find_best:
        for c in range(n):
            span = start[c] * shape[1] + end[c] - start[c] - 1
            room.score[c] = global_scores[b, span * shape[2] + label[c]]
            if not room.score[c] < np.inf:
                return -1
        nodes = Nodes(start, end, label, room.score)
        max_score[0], last_node = sweep(nodes, n, length, transition, skip, True, path_room)
        mark_path(path_room, last_node, is_chosen)
    return n


@compiled
def _scan(row, num_spans, num_labels, axis, hits):
    """Where null is not the best label. A NaN is a hit too: no comparison with it holds."""
    count = 0
    if len(axis) == 1:
        for s in range(num_spans):
            null = row[s * num_labels]
            is_hit = False
            for y in range(1, num_labels):
                is_hit |= not row[s * num_labels + y] <= null
            if is_hit:
                hits[count] = s
                count += 1
    else:
        for s in range(num_spans):
            at = s * len(axis)
            null = row[at]
            is_hit = False
            for y in range(1, len(axis)):
                is_hit |= not row[at + y] <= null
            if is_hit:
                hits[count] = s
                count += 1
    return count


@compiled
def _label_hits(row, hits, found, shape, length, covered, must_overlap, spans):
    """The hits inside the sentence as (start, end, label), in order of start; -1 if one is not a number."""
    _, max_width, num_labels = shape
    n = 0
    for h in range(found):
        start = hits[h] // max_width
        end = start + hits[h] % max_width + 1
        if end > length:
            continue
        at = hits[h] * num_labels
        best = 0
        for y in range(num_labels):
            if not row[at + y] < np.inf:
                return -1
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


@allocating
def _moved(array, larger):
    larger[..., : array.shape[-1]] = array
    return larger
