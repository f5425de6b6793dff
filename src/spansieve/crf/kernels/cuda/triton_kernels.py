"""The Triton kernels for forward-backward and Viterbi: one program per sentence and direction, one launch per sweep.

Axes: B sentences, L tokens, K widths, Y labels. `scores[b, i, w, y]` is the segment that starts at i, has width w + 1
and label y. ⊕ is log Σ exp, or for the semi-Markov model max, under one flag. A sweep goes over end positions
e = 1 … length and keeps what it needs of the past K positions in registers, as a ring whose row `p mod K` belongs to
position p.

Semi-Markov, O(K·Y + Y²) per position (a linear chain is its case K = 1):
    arriving[e, y] = ⊕_w entering[e-w-1, y] + scores[e-w-1, w, y]          segments that end at e
    entering[e, y] = ⊕_y' arriving[e, y'] + transition[y', y]              what may precede a segment that starts at e
    entering[0, y] = 0;  log Z = ⊕_y arriving[length, y]

Filtered, O(K·Y + Y²) per position, by the window theorem, with M(e) the latest start of a candidate that is over by e:
    arriving[e, y] = the same ⊕ over candidates only
    window[e, y]   = ⊕_{M(e) < e' <= e} arriving[e', y]                    a prefix, every e' <= e, with skipping
    entering[e, y] = ⊕_y' window[e, y'] + transition[y', y], and 0 where nothing has ended; 0 ⊕ that with skipping

Read from the right, a sentence with its transitions transposed obeys the same recursions, so the backward sweep is the
forward one in direction 1, with position p read as length - p. Neither needs the other: one launch runs both, and
everything else is parallel over positions. With `entering` and `arriving` of both directions (0 and 1):
    marginal(i, w, y)    = exp(entering0[i, y] + scores[i, w, y] + entering1[i+w+1, y] - log Z)
    transition count     = Σ_i exp(window0[i, y'] + transition[y', y] + arriving1[i, y] - log Z)

Sums are kept in float64: log Z grows with the sentence, and a float32 difference of such numbers would spoil the
marginals. Their exp and log run in the scores' precision, on differences from a maximum. Maxima stay in the scores'
own type.
"""

from __future__ import annotations

import triton
import triton.language as tl

_IMPOSSIBLE = tl.constexpr(float("-inf"))
# With no promise of alignment a thread takes one label and not four, and ⊕ over widths or previous labels stays in it.
_UNALIGNED = ["scores", "transition", "is_candidate"]


@triton.jit
def _exp_relative(values, peak, PRECISION: tl.constexpr):
    """exp(values - peak); a peak of -inf is taken as 0, since -inf minus -inf is no number."""
    return tl.exp((values - tl.where(peak == _IMPOSSIBLE, 0.0, peak)).to(PRECISION))


@triton.jit
def _plus(values, PRECISION: tl.constexpr, TAKE_MAX: tl.constexpr):
    """⊕ along the first axis; -inf where every part is impossible."""
    result = tl.max(values, 0)
    if not TAKE_MAX:
        # The part at the peak contributes 1, so the logarithm is at least 0 and a peak of -inf stays -inf.
        total = tl.sum(_exp_relative(values, tl.expand_dims(result, 0), PRECISION), 0)
        result += tl.log(tl.maximum(total, 1.0))
    return result


@triton.jit
def _plus_pair(left, right, PRECISION: tl.constexpr):
    """log(exp(left) + exp(right)), elementwise."""
    peak = tl.maximum(left, right)
    total = _exp_relative(left, peak, PRECISION) + _exp_relative(right, peak, PRECISION)
    return peak + tl.log(tl.maximum(total, 1.0))


@triton.jit
def _start_of_row(end, row, K: tl.constexpr):
    """The start in end - K … end - 1 that a ring keeps in this row; negative when there is none."""
    return end - 1 - (end - 1 + K - row) % K


@triton.jit
def _ending_at(end, length, direction, row, label, K: tl.constexpr, Y: tl.constexpr):
    """The addresses of the scores of the segments that end at `end`, a row for each start, and which of them exist."""
    start = _start_of_row(end, row, K)
    first = tl.where(direction == 0, start, length - end)
    offset = (first * K + (end - start - 1))[:, None] * Y + label[None, :]
    # Triton's interpreter cannot join a scalar comparison to a mask with &, so `end <= length` acts through the start.
    exists = (row < K) & (tl.where(end <= length, start, -1) >= 0)
    return offset, exists[:, None] & (label < Y)[None, :]


@triton.jit
def _load_transition(transition, direction, label, Y: tl.constexpr):
    """The transition (previous, next) as the direction reads it, -inf beyond Y."""
    is_label = (label < Y)[:, None] & (label < Y)[None, :]
    link = tl.load(transition + label[:, None] * Y + label[None, :], mask=is_label, other=_IMPOSSIBLE)
    return tl.where(direction == 0, link, tl.trans(link))


@triton.jit
def _store_at(position, tensor, values, sentence, direction, length, label, L, Y: tl.constexpr):
    """Store (Y,) values in a tensor (2, B, L + 1, Y), where there is one, at a position of the sweep."""
    if tensor is not None:
        index = tl.where(direction == 0, position, length - position)
        batch = direction * tl.num_programs(0) + sentence
        tl.store(tensor + (batch * (L + 1) + index) * Y + label, values, mask=label < Y)


@triton.jit(do_not_specialize=["L"], do_not_specialize_on_alignment=_UNALIGNED)
def semi_markov_sweep(
    scores, transition, lengths, total, entering, arriving, L,
    K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TAKE_MAX: tl.constexpr,
):  # fmt: skip
    """The semi-Markov recursion over one sentence in one direction."""
    sentence, direction = tl.program_id(0).to(tl.int64), tl.program_id(1)
    KEPT: tl.constexpr = total.dtype.element_ty
    PRECISION: tl.constexpr = scores.dtype.element_ty
    row, label = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    length = tl.load(lengths + sentence).to(tl.int32)
    scores += sentence * L * K * Y
    link = _load_transition(transition, direction, label, Y).to(KEPT)  # (Y, Y)

    arrive = tl.full([COLUMNS], _IMPOSSIBLE, KEPT)
    enter = tl.zeros([COLUMNS], KEPT)
    ring = tl.zeros([ROWS, COLUMNS], KEPT)  # `entering`; rows before the sentence are met by no existing segment
    _store_at(0, entering, enter, sentence, direction, length, label, L, Y)
    offset, exists = _ending_at(1, length, direction, row, label, K, Y)
    ending = tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE)  # (K, Y)
    for end in range(1, length + 1):
        # The next scores are loaded before this position's arithmetic, which hides the latency.
        offset, exists = _ending_at(end + 1, length, direction, row, label, K, Y)
        ending_next = tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE)
        arrive = _plus(ring + ending, PRECISION, TAKE_MAX)
        enter = _plus(arrive[:, None] + link, PRECISION, TAKE_MAX)
        ring = tl.where((row == end % K)[:, None], enter[None, :], ring)
        ending = ending_next
        _store_at(end, entering, enter, sentence, direction, length, label, L, Y)
        _store_at(end, arriving, arrive, sentence, direction, length, label, L, Y)
    result = tl.where(length == 0, 0.0, _plus(arrive, PRECISION, TAKE_MAX))
    tl.store(total + sentence, result, mask=direction == 0)


@triton.jit(do_not_specialize=["L"], do_not_specialize_on_alignment=_UNALIGNED)
def filtered_sweep(
    is_candidate, scores, transition, lengths, total, entering, arriving, L,
    K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    SKIP: tl.constexpr,
):  # fmt: skip
    """The filtered recursion over one sentence in one direction, for sums."""
    sentence, direction = tl.program_id(0).to(tl.int64), tl.program_id(1)
    KEPT: tl.constexpr = total.dtype.element_ty
    PRECISION: tl.constexpr = scores.dtype.element_ty
    row, label = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    length = tl.load(lengths + sentence).to(tl.int32)
    scores += sentence * L * K * Y
    is_candidate += sentence * L * K * Y
    link = _load_transition(transition, direction, label, Y).to(KEPT)  # (Y, Y)

    latest = tl.full([], -1, tl.int32)  # M(e); -1 while no candidate has ended
    window = tl.full([COLUMNS], _IMPOSSIBLE, KEPT)
    enter = tl.zeros([COLUMNS], KEPT)
    entered = tl.zeros([ROWS, COLUMNS], KEPT)  # ring of `entering`
    arrived = tl.full([ROWS, COLUMNS], _IMPOSSIBLE, KEPT)  # ring of `arriving`, for the latest end of each row
    arrived_at = tl.full([ROWS], -1, tl.int32)  # which end that is
    _store_at(0, entering, enter, sentence, direction, length, label, L, Y)
    offset, exists = _ending_at(1, length, direction, row, label, K, Y)
    ending = tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE)  # (K, Y)
    is_kept = tl.load(is_candidate + offset, mask=exists, other=0)
    for end in range(1, length + 1):
        offset, exists = _ending_at(end + 1, length, direction, row, label, K, Y)
        ending_next = tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE)
        is_kept_next = tl.load(is_candidate + offset, mask=exists, other=0)
        arrive = _plus(tl.where(is_kept != 0, entered + ending, _IMPOSSIBLE), PRECISION, False)
        if SKIP:
            window = _plus_pair(window, arrive, PRECISION)
            enter = _plus(window[:, None] + link, PRECISION, False)
            enter = _plus_pair(enter, tl.zeros([COLUMNS], KEPT), PRECISION)
        else:
            # A candidate blocks and precedes by being kept, whatever its score.
            start = tl.where(is_kept != 0, _start_of_row(end, row, K)[:, None], -1)
            latest_here = tl.max(tl.max(start, 0), 0)
            latest = tl.maximum(latest, latest_here)
            # Where a candidate ends at `end`, M(end) >= end - K: the end that held the row has left the window.
            is_new = row == tl.where(latest_here >= 0, end % K, -1)
            arrived = tl.where(is_new[:, None], arrive[None, :], arrived)
            arrived_at = tl.where(is_new, end, arrived_at)
            window = _plus(tl.where((arrived_at > latest)[:, None], arrived, _IMPOSSIBLE), PRECISION, False)
            enter = tl.where(latest < 0, 0.0, _plus(window[:, None] + link, PRECISION, False))
        entered = tl.where((row == end % K)[:, None], enter[None, :], entered)
        ending, is_kept = ending_next, is_kept_next
        _store_at(end, entering, enter, sentence, direction, length, label, L, Y)
        # The transition counts join all that may precede a position to what starts right there.
        joined = tl.where(direction == 0, window, arrive)
        _store_at(end, arriving, joined, sentence, direction, length, label, L, Y)
    result = _plus(window, PRECISION, False)
    if SKIP:
        result = _plus_pair(result, tl.zeros([], KEPT), PRECISION)
    else:
        result = tl.where(latest < 0, 0.0, result)
    tl.store(total + sentence, result, mask=direction == 0)


@triton.jit(do_not_specialize=["L"])
def expectations(
    is_candidate, scores, transition, lengths, total, entering, arriving, marginals, counts, L,
    K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """The marginals at one start of a sentence, or the transition counts of one label: (B, L + Y) programs."""
    sentence, which = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if which < L:
        _segment_marginals(
            is_candidate, scores, lengths, total, entering, marginals, L, sentence, which, K, Y, ROWS, COLUMNS
        )
    else:
        _transition_counts(transition, lengths, total, arriving, counts, L, sentence, which - L, Y, COLUMNS, POSITIONS)


@triton.jit
def _segment_marginals(
    is_candidate, scores, lengths, total, entering, marginals, L, sentence, start,
    K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The marginals of the segments that start at one position of one sentence."""
    row, label = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    length = tl.load(lengths + sentence).to(tl.int32)
    end = start + row + 1
    offset = ((sentence * L + start) * K + row) * Y + label  # (K, Y)
    is_stored = (row < K) & (label < Y)
    exists = is_stored & (end <= length)
    if is_candidate is not None:
        exists = exists & (tl.load(is_candidate + offset, mask=exists, other=0) != 0)
    score = tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE)
    before = tl.load(entering + (sentence * (L + 1) + start) * Y + label + 0 * row, mask=exists, other=_IMPOSSIBLE)
    after_sentence = tl.num_programs(0) + sentence
    after = tl.load(entering + (after_sentence * (L + 1) + end) * Y + label, mask=exists, other=_IMPOSSIBLE)
    marginal = _exp_relative(before + score + after, tl.load(total + sentence), scores.dtype.element_ty)
    tl.store(marginals + offset, marginal, mask=is_stored)


@triton.jit
def _transition_counts(
    transition, lengths, total, arriving, counts, L, sentence, previous,
    Y: tl.constexpr, COLUMNS: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """The expected number of times one label is followed by each, in one sentence."""
    PRECISION: tl.constexpr = counts.dtype.element_ty
    label = tl.arange(0, COLUMNS)
    length = tl.load(lengths + sentence).to(tl.int32)
    link = tl.load(transition + previous * Y + label, mask=label < Y, other=_IMPOSSIBLE)
    log_partition = tl.load(total + sentence)
    forward = arriving + sentence * (L + 1) * Y
    backward = arriving + (tl.num_programs(0) + sentence) * (L + 1) * Y
    result = tl.zeros([COLUMNS], PRECISION)
    for first in range(1, length, POSITIONS):
        position = first + tl.arange(0, POSITIONS)
        is_inside = position < length
        before = tl.load(forward + position * Y + previous, mask=is_inside, other=_IMPOSSIBLE)
        is_inside = is_inside[:, None] & (label < Y)[None, :]
        after = tl.load(backward + position[:, None] * Y + label[None, :], mask=is_inside, other=_IMPOSSIBLE)
        result += tl.sum(_exp_relative(before[:, None] + link[None, :] + after, log_partition, PRECISION), 0)
    tl.store(counts + (sentence * Y + previous) * Y + label, result, mask=label < Y)


@triton.jit(do_not_specialize=["L"])
def trace_back(
    scores, transition, lengths, total, entering, widths, labels, L,
    K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The best segmentation, last segment first; of equal ones the smallest start wins, then the smallest label."""
    sentence = tl.program_id(0).to(tl.int64)
    KEPT: tl.constexpr = total.dtype.element_ty
    row, label = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    is_possible = tl.load(total + sentence) > _IMPOSSIBLE
    end = tl.where(is_possible, tl.load(lengths + sentence).to(tl.int32), 0)
    link = tl.zeros([1, COLUMNS], KEPT)  # the transition to the segment found before; nothing follows the last
    while end > 0:
        start = end - 1 - row
        exists = (start >= 0) & (row < K) & (label < Y)
        offset = ((sentence * L + start) * K + row) * Y + label  # (K, Y)
        value = tl.load(entering + (sentence * (L + 1) + start) * Y + label, mask=exists, other=_IMPOSSIBLE)
        value = value + tl.load(scores + offset, mask=exists, other=_IMPOSSIBLE) + link
        is_best = exists & (value == tl.max(tl.max(value, 0), 0))
        # The rest share the last rank there is, so that even a NaN among the scores leaves a start before `end`.
        rank = tl.where(is_best, start * COLUMNS + label, (end - 1) * COLUMNS + Y - 1)
        best = tl.min(tl.min(rank, 0), 0)
        best_start, best_label = best // COLUMNS, best % COLUMNS
        tl.store(widths + sentence * L + best_start, end - best_start)
        tl.store(labels + sentence * L + best_start, best_label)
        link = tl.load(transition + label * Y + best_label, mask=label < Y, other=_IMPOSSIBLE).to(KEPT)
        end = best_start


@triton.jit(do_not_specialize=["L", "num_gold"])
def filter_spans(
    local_scores, lengths, covered, gold, is_candidate, L, num_gold,
    LABELS: tl.constexpr, K: tl.constexpr, Y: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Mark what is kept in a mask of zeros: a program for each start, and beyond them programs for the gold segments.

    All write ones, so that their order does not matter. Of a span, the best LABELS that stand above null are kept.
    """
    sentence, start = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if start >= L:
        if gold is not None:
            index = ((start - L) * tl.num_programs(0) + sentence) * BLOCK + tl.arange(0, BLOCK)
            is_gold = index < num_gold
            one = tl.full([BLOCK], 1, tl.uint8)
            tl.store(is_candidate + tl.load(gold + index, mask=is_gold, other=0), one, mask=is_gold)
    else:
        row, label = tl.arange(0, ROWS), tl.arange(0, COLUMNS)[None, :]
        offset = ((sentence * L + start) * K + row[:, None]) * Y + label  # (K, Y)
        is_stored = (row < K)[:, None] & (label < Y)
        score = tl.load(local_scores + offset, mask=is_stored, other=_IMPOSSIBLE)
        null = tl.max(tl.where(label == 0, score, _IMPOSSIBLE), 1)  # (K,)
        end = start + row + 1
        is_span = end <= tl.load(lengths + sentence).to(tl.int32)
        if covered is not None:
            inside = covered + sentence * (L + 1)
            is_span = is_span & (tl.load(inside + end, mask=is_span, other=0) > tl.load(inside + start))
        ones = tl.full([ROWS, COLUMNS], 1, tl.uint8)
        is_above = is_stored & is_span[:, None] & (label > 0) & (score > null[:, None])
        if LABELS >= Y - 1:
            tl.store(is_candidate + offset, ones, mask=is_above)
        else:
            rest = tl.where(is_above, score, _IMPOSSIBLE)
            for _ in tl.static_range(LABELS):
                best = tl.argmax(rest, 1, tie_break_left=True)  # (K,)
                is_best = label == best[:, None]
                tl.store(is_candidate + offset, ones, mask=is_above & is_best)
                rest = tl.where(is_best, _IMPOSSIBLE, rest)


# ---- Given structures: their scores, and the gradient of their log-probability ---------------------------------------


@triton.jit(do_not_specialize=["B"])
def follow_paths(
    scores, transition, part, pair, offsets, log_partition, marginals, counts, log_prob, B,
    PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """log_prob[b] = the scores of the parts and transitions of sentence b, less log Z, added up in float64.

    What a structure has is taken off the marginals, where each part stands once, and off the counts, where a pair of
    labels may stand more than once.
    """
    sentence = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float64)
    last = tl.load(offsets + sentence + 1)
    for first in range(tl.load(offsets + sentence), last, BLOCK):
        index = first + tl.arange(0, BLOCK)
        here = tl.load(part + index, mask=index < last, other=0)
        total += tl.load(scores + here, mask=index < last, other=0.0).to(tl.float64)
        expected = tl.load(marginals + here, mask=index < last, other=0.0)
        tl.store(marginals + here, expected - 1.0, mask=index < last)
    offsets += B + 1
    last = tl.load(offsets + sentence + 1)
    for first in range(tl.load(offsets + sentence), last, BLOCK):
        index = first + tl.arange(0, BLOCK)
        here = tl.load(pair + index, mask=index < last, other=0)
        total += tl.load(transition + here, mask=index < last, other=0.0).to(tl.float64)
        less = tl.full([BLOCK], -1.0, counts.dtype.element_ty)
        tl.atomic_add(counts + sentence * PAIRS + here, less, mask=index < last)
    tl.store(log_prob + sentence, tl.sum(total, 0) - tl.load(log_partition + sentence))


@triton.jit(do_not_specialize=["each", "B", "blocks", "sign"])
def weighted(
    gradient, marginals, counts, to_scores, to_transition, each, B, blocks, sign,
    PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """to_scores = sign · gradient · marginals and to_transition = sign · Σ_b gradient[b] · counts[b], in one launch."""
    sentence, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if block < blocks:
        index = block * BLOCK + tl.arange(0, BLOCK)
        weight = tl.load(gradient + sentence)
        value = tl.load(marginals + sentence * each + index, mask=index < each, other=0.0)
        tl.store(to_scores + sentence * each + index, sign * weight * value, mask=index < each)
    elif sentence == 0:
        index = (block - blocks) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], counts.dtype.element_ty)
        for b in range(0, B):
            total += tl.load(gradient + b) * tl.load(counts + b * PAIRS + index, mask=index < PAIRS, other=0.0)
        tl.store(to_transition + index, sign * total, mask=index < PAIRS)
