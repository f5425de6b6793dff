"""The Triton kernels for given structures: their scores, and the gradient of their log-probability."""

from __future__ import annotations

import triton
import triton.language as tl


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
        place = first + tl.arange(0, BLOCK)
        here = tl.load(part + place, mask=place < last, other=0)
        total += tl.load(scores + here, mask=place < last, other=0.0).to(tl.float64)
        expected = tl.load(marginals + here, mask=place < last, other=0.0)
        tl.store(marginals + here, expected - 1.0, mask=place < last)
    offsets += B + 1
    last = tl.load(offsets + sentence + 1)
    for first in range(tl.load(offsets + sentence), last, BLOCK):
        place = first + tl.arange(0, BLOCK)
        here = tl.load(pair + place, mask=place < last, other=0)
        total += tl.load(transition + here, mask=place < last, other=0.0).to(tl.float64)
        less = tl.full([BLOCK], -1.0, counts.dtype.element_ty)
        tl.atomic_add(counts + sentence * PAIRS + here, less, mask=place < last)
    tl.store(log_prob + sentence, tl.sum(total, 0) - tl.load(log_partition + sentence))


@triton.jit(do_not_specialize=["each", "B", "blocks", "sign"])
def weighted(
    gradient, marginals, counts, to_scores, to_transition, each, B, blocks, sign,
    PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """to_scores = sign · gradient · marginals and to_transition = sign · Σ_b gradient[b] · counts[b], in one launch."""
    sentence, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if block < blocks:
        place = block * BLOCK + tl.arange(0, BLOCK)
        weight = tl.load(gradient + sentence)
        value = tl.load(marginals + sentence * each + place, mask=place < each, other=0.0)
        tl.store(to_scores + sentence * each + place, sign * weight * value, mask=place < each)
    elif sentence == 0:
        place = (block - blocks) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], counts.dtype.element_ty)
        for b in range(0, B):
            total += tl.load(gradient + b) * tl.load(counts + b * PAIRS + place, mask=place < PAIRS, other=0.0)
        tl.store(to_transition + place, sign * total, mask=place < PAIRS)
