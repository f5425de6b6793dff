"""The linear-chain CRF: a score per token and tag, a transition between neighbours; and which tags may follow which.

Axes: B sentences, L tokens, Y tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from spansieve.crf.distribution import Distribution
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.kernels import kernel_for, reference
from spansieve.crf.kernels.semirings import Semiring
from spansieve.crf.validation import checked_lengths, checked_scores, checked_transition, to_device

# Prefixes that open an entity, go on with one, and close one. BILOU's L and U are BIOES's E and S.
OPENS = frozenset("BSU")
GOES_ON = frozenset("IEL")
CLOSES = frozenset("ESLU")


class LinearChain(Distribution):
    """A distribution over the tag sequences of each sentence (Lafferty et al., Conditional Random Fields, ICML 2001).

    A structure is a list of tag ids, one per token.

    `scores[b, i, y]` is the score of tag y at token i of sentence b; `transition[y', y]` of y' followed by y. With
    `constraints`, sequences that break them are no part of the model: they have no probability and are never predicted.
    Time O(L·Y²) per sentence.
    """

    def __init__(
        self,
        scores: Tensor,
        transition: Tensor,
        lengths: Tensor | Sequence[int],
        constraints: TagConstraints | None = None,
        *,
        kernel: ModuleType | None = None,
    ) -> None:
        scores = checked_scores("scores", scores, 3)
        num_sentences, num_tokens, num_tags = scores.shape
        if num_tags < 1:
            raise ValueError(f"scores must have at least one tag, got {tuple(scores.shape)}")
        transition = checked_transition(transition, scores, num_tags)
        self.lengths = checked_lengths(lengths, num_sentences, num_tokens, scores)
        if constraints is not None:
            scores, transition = _constrained(scores, transition, self.lengths, constraints)
        super().__init__(scores, transition, num_sentences, kernel or kernel_for(scores))

    def _total(self, semiring: Semiring, scores: Tensor, transition: Tensor) -> Tensor:
        return reference.linear_chain(semiring, scores, transition, self.lengths)

    def _compiled(self, verb: str, scores: Tensor, transition: Tensor, *options: Any) -> Any:
        return getattr(self._kernel, f"linear_chain_{verb}")(scores, transition, self.lengths, *options)

    def _structures(self, is_part: Tensor) -> list[list[int]]:
        return self._found(is_part.int().argmax(-1) if is_part.shape[1] else is_part[..., 0].int())

    def _found(self, tags: Tensor) -> list[list[int]]:
        return [row[:length] for row, length in zip(tags.cpu().numpy().tolist(), self.lengths.tolist())]

    def _parts(self, structures: Sequence[Sequence[int]]) -> Parts:
        return self._parts_of_gold(Gold.from_tags(structures, self.scores.shape, self.scores.device))

    def _parts_of_gold(self, gold: Gold) -> Parts:
        parts = super()._parts_of_gold(gold)
        if self.lengths.is_cpu:  # elsewhere that would synchronise the host
            counts = parts.offsets[0].diff()
            if not torch.equal(counts, self.lengths):
                b = int((counts != self.lengths).int().argmax())
                raise ValueError(f"tags of sentence {b} must be {self.lengths[b]}, one per token, got {counts[b]}")
        return parts


def _constrained(scores, transition, lengths, constraints: TagConstraints):
    """Scores and transition with -inf for what the constraints forbid."""
    num_tags = scores.shape[2]
    if constraints.is_allowed.shape != (num_tags, num_tags):
        raise ValueError(f"constraints must be for {num_tags} tags, as scores has, got {len(constraints.can_start)}")
    device = scores.device
    is_allowed, can_start, can_end = (
        to_device(mask, device) for mask in (constraints.is_allowed, constraints.can_start, constraints.can_end)
    )
    position = torch.arange(scores.shape[1], device=device)
    is_first, is_last = position == 0, position == lengths[:, None] - 1  # (L,), (B, L)
    is_impossible = (is_first[:, None] & ~can_start) | (is_last[..., None] & ~can_end)  # (B, L, Y)
    return scores.masked_fill(is_impossible, -torch.inf), transition.masked_fill(~is_allowed, -torch.inf)


@dataclass(frozen=True)
class TagConstraints:
    """Which transitions between tags are allowed, and which tags may come first and last."""

    is_allowed: Tensor  # (Y, Y) bool: is_allowed[previous, next]
    can_start: Tensor  # (Y,) bool
    can_end: Tensor  # (Y,) bool

    @classmethod
    def from_tags(cls, tags: Sequence[str]) -> TagConstraints:
        """Derive the constraints of tags such as O, B-PER, I-PER: those of BIO, or of BIOES (BILOU) when there is a
        prefix that closes an entity.

        >>> TagConstraints.from_tags(["O", "B-PER", "I-PER"]).can_start
        tensor([ True,  True, False])
        """
        parsed = [_parsed(tag) for tag in tags]
        must_close = any(prefix in CLOSES for prefix, _ in parsed)
        allowed = [[_may_follow(previous, following, must_close) for following in parsed] for previous in parsed]
        outside = ("O", "")
        return cls(
            torch.tensor(allowed, dtype=torch.bool).reshape(len(parsed), len(parsed)),
            torch.tensor([_may_follow(outside, tag, must_close) for tag in parsed], dtype=torch.bool),
            torch.tensor([_may_follow(tag, outside, must_close) for tag in parsed], dtype=torch.bool),
        )


def _parsed(tag: str) -> tuple[str, str]:
    prefix, _, name = tag.partition("-")
    if tag != "O" and not (prefix in OPENS | GOES_ON and name):
        raise ValueError(f"a tag must be O or a prefix B, I, E, S, L or U with a label, such as B-PER, got {tag!r}")
    return prefix, name


def _may_follow(previous: tuple[str, str], following: tuple[str, str], must_close: bool) -> bool:
    is_inside = previous[0] in ("B", "I")  # the entity of `previous` may go on
    if following[0] in GOES_ON:
        return is_inside and previous[1] == following[1]
    return not (must_close and is_inside)
