"""Which tags may follow which: the well-formedness of BIO-like tag sequences as part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Prefixes that open an entity, go on with one, and close one. BILOU's L and U are BIOES's E and S.
OPENS = frozenset("BSU")
GOES_ON = frozenset("IEL")
CLOSES = frozenset("ESLU")


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
