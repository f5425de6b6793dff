"""Data augmentation: sentences in capitals, as headlines are. A model that learns some of them relies less on case."""

from __future__ import annotations

import random
from collections.abc import Sequence


def recased(tokens: Sequence[str], rate: float, seed: str) -> Sequence[str]:
    """The tokens in capitals in one of 1 / rate cases, which follow from the seed; else as they are.

    Where a token has no capitals, or would become longer by them, it stays.

    >>> recased(["Straße", "in", "Rome"], 1.0, "0/0/0")
    ['Straße', 'IN', 'ROME']
    """
    if not rate or random.Random(seed).random() >= rate:
        return tokens
    return [token.upper() if len(token.upper()) == len(token) else token for token in tokens]
