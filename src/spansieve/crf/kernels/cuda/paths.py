"""The Triton kernels for given structures: their scores, and their share of the gradient."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_parts", "num_pairs"])
def path_scores(
    scores, transition, part, sentence, num_parts, pair, pair_sentence, num_pairs, total, BLOCK: tl.constexpr
):  # fmt: skip
    """total[b] += the scores of the parts and of the transitions of sentence b, in float64."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_part = place < num_parts
    value = tl.load(scores + tl.load(part + place, mask=is_part, other=0), mask=is_part, other=0.0)
    tl.atomic_add(total + tl.load(sentence + place, mask=is_part, other=0), value.to(tl.float64), mask=is_part)
    place = place - num_parts
    is_pair = (place >= 0) & (place < num_pairs)
    value = tl.load(transition + tl.load(pair + place, mask=is_pair, other=0), mask=is_pair, other=0.0)
    tl.atomic_add(total + tl.load(pair_sentence + place, mask=is_pair, other=0), value.to(tl.float64), mask=is_pair)


@triton.jit(do_not_specialize=["num_parts", "num_pairs"])
def scatter_parts(
    gradient, to_scores, to_transition, part, sentence, num_parts, pair, pair_sentence, num_pairs, BLOCK: tl.constexpr
):  # fmt: skip
    """to_scores[part] += gradient[sentence], and the same for the transitions."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_part = place < num_parts
    value = tl.load(gradient + tl.load(sentence + place, mask=is_part, other=0), mask=is_part, other=0.0)
    tl.atomic_add(to_scores + tl.load(part + place, mask=is_part, other=0), value, mask=is_part)
    place = place - num_parts
    is_pair = (place >= 0) & (place < num_pairs)
    value = tl.load(gradient + tl.load(pair_sentence + place, mask=is_pair, other=0), mask=is_pair, other=0.0)
    tl.atomic_add(to_transition + tl.load(pair + place, mask=is_pair, other=0), value, mask=is_pair)


@triton.jit(do_not_specialize=["each", "B", "blocks"])
def weighted_expectations(
    gradient, marginals, counts, to_scores, to_transition, each, B, blocks, PAIRS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """to_scores = -gradient · marginals and to_transition = -Σ_b gradient[b] · counts[b]: two jobs in one launch."""
    sentence, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if block < blocks:
        place = block * BLOCK + tl.arange(0, BLOCK)
        weight = tl.load(gradient + sentence)
        value = tl.load(marginals + sentence * each + place, mask=place < each, other=0.0)
        tl.store(to_scores + sentence * each + place, -weight * value, mask=place < each)
    elif sentence == 0:
        place = (block - blocks) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], counts.dtype.element_ty)
        for b in range(0, B):
            total -= tl.load(gradient + b) * tl.load(counts + b * PAIRS + place, mask=place < PAIRS, other=0.0)
        tl.store(to_transition + place, total, mask=place < PAIRS)
