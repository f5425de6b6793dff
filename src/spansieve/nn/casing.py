"""How a token is written: what an uncased encoder loses."""

from __future__ import annotations

from functools import lru_cache

LOWER, UPPER, TITLE, MIXED, NUMBER, OTHER = range(1, 7)
NUM_CASINGS = 7  # 0 stands for what is no token


@lru_cache(maxsize=1 << 16)
def casing_of(word: str) -> int:
    """The casing of a word, as a small integer.

    >>> [casing_of(word) for word in ("paris", "UN", "Paris", "McGill", "1996-08-30", "…")] == [1, 2, 3, 4, 5, 6]
    True
    """
    if word.islower():
        return LOWER
    if word.isupper():
        # One capital may begin a name as well as be one: "A" is written as a title is.
        return UPPER if len(word) > 1 else TITLE
    if word[:1].isupper() and word[1:].islower():
        return TITLE
    if any(character.isupper() for character in word):
        return MIXED
    return NUMBER if any(character.isdigit() for character in word) else OTHER
