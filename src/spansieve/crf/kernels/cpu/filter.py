"""The filter compiled for the CPU, alone or fused with the best path. NumPy in, NumPy out.

`local_scores[b, i, w, y]` is the local score of the segment that starts at token i, has width w + 1 and label y. A span
is kept, with its best label, when that label is not null; null wins a tie. With `limits` it is kept with several of its
labels, those that stand above null, and of a sentence's candidates the best ones are. O(L·K·Y), the one part that looks
at every span: all else is proportional to what stands above null.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spansieve.crf.kernels import PLAIN_FILTER
from spansieve.crf.kernels.cpu.budget import NO_BUDGET, overlapping, rank_of_label, within_budget
from spansieve.crf.kernels.cpu.filtered import most_in_a_sentence, sweep
from spansieve.crf.kernels.cpu.jit import allocating, compiled, over_sentences
from spansieve.crf.kernels.cpu.nodes import Nodes, new_room
from spansieve.crf.kernels.cpu.simd import any_above_2, any_above_4, any_above_8

USUAL = 16  # candidates a sentence; where there are more on average the filter runs again with room for all
NO_GOLD = np.zeros(0, np.int64), np.zeros((3, 0), np.int64)
# What stands for the number of candidates when there is none.
FULL, NOT_A_NUMBER, WRONG_TRANSITION, WRONG_LENGTH = -1, -2, -3, -4


class Kept(NamedTuple):
    """The candidates, flat and sorted by (sentence, end, start, label), and the best path where it was wanted.

    The arrays as the compiled code fills them; their rows have names, and become arrays of their own on demand.
    """

    bounds: np.ndarray  # (2, B + 1): of the candidates of each sentence, and of those on its best path
    nodes: np.ndarray  # (5, N): start, end, label, place and sentence
    score: np.ndarray  # (N,): their global scores, where those were given
    chosen: np.ndarray  # (2, M): the candidates on the best path, and where they stand in the scores of their sentence
    max_score: np.ndarray  # (B,)

    @property
    def graph(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Offsets (B + 1,), and start, end and label (N,)."""
        nodes = self.nodes
        return self.bounds[0], nodes[0], nodes[1], nodes[2]

    @property
    def start(self) -> np.ndarray:
        return self.nodes[0]

    @property
    def label(self) -> np.ndarray:
        return self.nodes[2]

    @property
    def index(self) -> np.ndarray:
        """The flat index of the candidates in (B, L, K, Y) scores, (N,)."""
        return self.nodes[3]

    @property
    def sentence(self) -> np.ndarray:
        return self.nodes[4]


def filter_spans(local_scores, lengths, gold=None, keep_all=False, threads=1, limits=PLAIN_FILTER) -> Kept:
    """Filter the spans. With gold (offsets, start, end, label), both training rules hold: what overlaps no gold segment
    is dropped (unless `keep_all`), and every gold segment is a candidate with its gold label."""
    no_scores, no_transition = np.empty((0, 0, 0, 0), local_scores.dtype), np.zeros((1, 1), local_scores.dtype)
    options = (gold, keep_all, False, threads, limits)
    return segments_from_scores(local_scores, no_scores, no_transition, lengths, *options)


def segments_from_scores(
    local_scores,
    global_scores,
    transition,
    lengths,
    gold=None,
    skip=False,
    find_best=True,
    threads=1,
    limits=PLAIN_FILTER,
) -> Kept:
    """Filter and find the best path in one pass over each sentence: dense scores in, segments out."""
    arguments = (local_scores, global_scores, transition, lengths, gold, skip, find_best, limits)
    parts = over_sentences(filter_with_room, len(local_scores), threads, local_scores.size, _filter, *arguments)
    return Kept._make(parts[0] if len(parts) == 1 else joined(parts))


def filter_with_room(first, last, run, local_scores, global_scores, transition, lengths, gold, skip, find_best, limits):
    """Run with a workspace for the usual number of candidates, and where that is too small, for every span."""
    offsets, segments = NO_GOLD if gold is None else (gold[0], np.stack(gold[1:]))
    arguments = (local_scores, global_scores, transition, lengths, offsets, segments)
    budget = NO_BUDGET if limits.budget is None else limits.budget
    options = (gold is not None, skip, find_best, limits.labels_per_span, budget)
    _, num_tokens, max_width, _ = local_scores.shape
    for each in (USUAL, num_tokens * max_width * limits.labels_per_span):
        found = run(first, last, each * (last - first) + segments.shape[1], *arguments, options)
        if found[0] != FULL:
            break
    if found[0] < FULL:
        raise_wrong(found[0], num_tokens, lengths[first:last])
    return found[1:]


def raise_wrong(why, num_tokens, lengths):
    if why == WRONG_LENGTH:
        wrong = lengths.min() if lengths.min() < 0 else lengths.max()
        raise ValueError(f"lengths must lie between 0 and {num_tokens}, the number of tokens, got {wrong}")
    name = "transition" if why == WRONG_TRANSITION else "scores"
    raise ValueError(f"{name} must be numbers below +inf (-inf: impossible), got NaN or +inf")


def joined(parts):
    """The runs of sentences one after the other: counts and positions go on where the last run ended."""
    bounds, nodes, score, chosen, max_score = zip(*parts)
    ends = np.cumsum([run[:, -1] for run in bounds], axis=0)  # candidates and chosen ones up to the end of each run
    before = np.vstack((np.zeros((1, 2), np.int64), ends[:-1]))
    bounds = [np.zeros((2, 1), np.int64), *(run[:, 1:] + low[:, None] for run, low in zip(bounds, before))]
    chosen = [run + np.array([[low[0]], [0]]) for run, low in zip(chosen, before)]
    return [np.concatenate(runs, axis=-1) for runs in (bounds, nodes, score, chosen, max_score)]


class _Room(NamedTuple):
    """The workspace of the filter for one sentence."""

    hits: np.ndarray  # (L·K,)
    spans: np.ndarray  # (3, N): start, end and label
    sorted: np.ndarray  # (3, N)
    covered: np.ndarray  # (L + 1,)
    tally: np.ndarray
    no_block: np.ndarray  # (N,): -1 for each candidate, with `skip`
    above: np.ndarray  # (2, N): how far labels stand above null, with a budget


@allocating
def _filter(first, last, capacity, local_scores, global_scores, transition, lengths, offsets, gold, options):
    """The number of candidates, or why there is none, and of the sentences first … last - 1 what `Kept` holds."""
    arguments = (local_scores, global_scores, transition, lengths, offsets, gold, options)
    n, out = filter_and_trace(first, last, capacity, *arguments)
    count = max(0, n)
    chosen = out.chosen[:, : out.bounds[1, last - first]]
    return n, out.bounds, out.nodes[:, :count], out.score[:count], chosen, out.max_score


@allocating
def filter_and_trace(first, last, capacity, local_scores, global_scores, transition, lengths, offsets, gold, options):
    """The number of candidates, or why there is none, and arrays with room for `capacity` of them."""
    num_sentences, num_tokens, max_width, num_labels = local_scores.shape
    shape = (num_tokens, max_width, num_labels)
    num_spans = num_tokens * max_width
    most = num_spans * options[3] + (most_in_a_sentence(offsets, first, last) if options[0] else 0)
    room = _Room(
        np.empty(num_spans, np.int64),
        np.empty((3, most), np.int64),
        np.empty((3, most), np.int64),
        np.empty(num_tokens + 1, np.int64),
        np.empty(max(num_tokens, num_labels) + 2, np.int64),
        np.full(most if options[1] and options[2] else 0, -1),
        np.empty((2, most if options[4] < most else 0), local_scores.dtype),
    )
    path_room = new_room(num_tokens, most if options[2] else 0, num_labels, local_scores)
    out = Kept(
        np.zeros((2, last - first + 1), np.int64),
        np.empty((5, capacity), np.int64),
        np.empty(capacity, local_scores.dtype),
        np.empty((2, capacity), np.int64),
        np.empty(last - first, local_scores.dtype),
    )
    flat = local_scores.reshape(num_sentences, num_tokens * max_width * num_labels)
    model = (flat, global_scores.reshape(global_scores.size), transition, lengths)
    return _filter_sentences(first, last, shape, model, offsets, gold, options, room, path_room, out), out


@compiled
def _filter_sentences(first, last, shape, model, offsets, gold, options, room, path_room, out):
    local_scores, global_scores, transition, lengths = model
    has_gold, skip, find_best, labels_per_span, budget = options
    why = what_is_wrong(first, last, shape[0], transition, lengths)
    if why < 0:
        return why
    total = 0
    chosen = 0
    for b in range(first, last):
        limits = (labels_per_span, budget)
        n = _keep(b, shape, local_scores[b], lengths[b], offsets, gold, has_gold, skip, limits, room)
        if n < 0:
            return NOT_A_NUMBER
        if total + n > out.score.size:
            return FULL
        _copy_out(b, n, shape, room.sorted, out.nodes[:, total:])
        if global_scores.size > 0:
            for c in range(total, total + n):
                out.score[c] = global_scores[out.nodes[3, c]]
                if not out.score[c] < np.inf:
                    return NOT_A_NUMBER
        if find_best:
            block = room.no_block if skip else room.sorted[0]
            nodes = Nodes(room.sorted[0], room.sorted[1], room.sorted[2], out.score[total : total + n], block)
            out.max_score[b - first], c = sweep(nodes, n, lengths[b], transition, True, path_room)
            before = chosen
            chosen = _copy_path(path_room.origin, c, total, out.chosen[0], chosen)
            for k in range(before, chosen):
                out.chosen[1, k] = out.nodes[3, out.chosen[0, k]] - b * local_scores.shape[1]
        total += n
        out.bounds[0, b - first + 1] = total
        out.bounds[1, b - first + 1] = chosen
    return total


@compiled
def what_is_wrong(first, last, num_tokens, transition, lengths):
    """The lengths must be looked at before they are used; the transition is, since to do so elsewhere takes longer."""
    is_number = True
    for row in transition:
        for value in row:
            is_number &= value < np.inf
    if not is_number:
        return WRONG_TRANSITION
    for b in range(first, last):
        if lengths[b] < 0 or lengths[b] > num_tokens:
            return WRONG_LENGTH
    return 0


@compiled
def _copy_path(origin, c, base, path, count):
    """Append the path that ends in node c, from left to right; how many are there now."""
    first = count
    while c >= 0:
        path[count] = base + c
        count += 1
        c = origin[c]
    for k in range((count - first) // 2):
        path[first + k], path[count - 1 - k] = path[count - 1 - k], path[first + k]
    return count


@compiled
def _keep(b, shape, row, length, offsets, gold, has_gold, skip, limits, room):
    """The candidates of one sentence, in order, into `room.sorted`; how many, or NOT_A_NUMBER."""
    _, max_width, num_labels = shape
    labels_per_span, budget = limits
    found = _scan(row, length, max_width, num_labels, room.hits)
    n = _label_hits(row, room.hits, found, shape, labels_per_span, room.spans)
    if n < 0:
        return n
    if n > budget:
        n = within_budget(row, shape, room.spans, n, budget, room.above[0], room.above[1])
    if not has_gold:
        _sort_by(room.spans, 1, n, length + 1, room.tally, room.sorted)
        return n
    _cover(gold, offsets[b], offsets[b + 1], length, room.covered)
    if not skip:
        n = overlapping(room.spans, n, room.covered)
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
def _scan(row, length, max_width, num_labels, hits):
    """Find where in the sentence null is not the best label. A NaN is a hit too.

    Each span's labels are compared a vector at a time, the last one reaching back over what was seen.
    """
    count = 0
    for start in range(length):
        for s in range(start * max_width, start * max_width + min(max_width, length - start)):
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
def _label_hits(row, hits, found, shape, labels_per_span, spans):
    """The hits as (start, end, label), in order; NOT_A_NUMBER if one is none."""
    _, max_width, num_labels = shape
    n = 0
    start = 0
    for h in range(found):
        while hits[h] >= (start + 1) * max_width:
            start += 1
        end = hits[h] - start * (max_width - 1) + 1
        at = hits[h] * num_labels
        best = 0
        for y in range(num_labels):
            if not row[at + y] < np.inf:
                return NOT_A_NUMBER
            if row[at + y] > row[at + best]:
                best = y
        if labels_per_span == 1:
            spans[0, n], spans[1, n], spans[2, n] = start, end, best
            n += 1
            continue
        for y in range(1, num_labels):
            if row[at + y] > row[at] and rank_of_label(row, at, y, num_labels) < labels_per_span:
                spans[0, n], spans[1, n], spans[2, n] = start, end, y
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
