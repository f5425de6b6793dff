"""A sentence within its document: what stands around it helps the encoder to read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import overload

from spansieve.data.example import Example


@dataclass(frozen=True)
class InContext(Sequence[str]):
    """The tokens of a sentence, for all who take a sequence of tokens; an encoder reads those around them, too."""

    tokens: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self.tokens[index]

    @property
    def whole(self) -> tuple[str, ...]:
        return self.before + self.tokens + self.after


def read_with(sentence: Sequence[str]) -> Sequence[str]:
    """All that an encoder reads for a sentence."""
    return sentence.whole if isinstance(sentence, InContext) else sentence


def in_context(document: Sequence[Sequence[str]], size: int) -> list[Sequence[str]]:
    """The sentences of a document, each with up to `size` tokens on either side.

    >>> in_context([["Paris", "."], ["It", "rains", "."]], 2)[1]
    InContext(tokens=('It', 'rains', '.'), before=('Paris', '.'), after=())
    """
    if size < 1 or len(document) < 2:
        return list(document)
    tokens = tuple(chain.from_iterable(document))
    found: list[Sequence[str]] = []
    end = 0
    for sentence in document:
        start, end = end, end + len(sentence)
        found.append(InContext(tuple(sentence), tokens[max(0, start - size) : start], tokens[end : end + size]))
    return found


def sentences_of(examples: Sequence[Example], size: int) -> list[Sequence[str]]:
    """The tokens of each example, in the context of its document where it names one; a document's examples stand one
    after the other."""
    if size < 1:
        return [example.tokens for example in examples]
    found: list[Sequence[str]] = []
    for document, members in groupby(examples, lambda example: example.document):
        tokens = [example.tokens for example in members]
        found += tokens if document is None else in_context(tokens, size)
    return found
