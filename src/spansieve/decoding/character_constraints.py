"""Constraints in characters of a text as constraints in tokens of its sentences: no torch here.

A required or forbidden span must begin where a token begins and end where one ends; blanks at its ends do not count. A
complete span takes in every token that it shares a character with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from spansieve.crf.evidence import Span
from spansieve.data.tokenizer import Token
from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.segments import NamedSegment

AROUND = 12  # characters that are shown on either side of a span that is refused


def placed(constraints: Constraints, text: str, sentences: Sequence[Sequence[Token]]) -> list[Constraints]:
    """Translate the constraints of a text into those of its sentences. What concerns labels alone holds in each.

    O((C + T) log T) for C constraints and T tokens.
    """
    borders = Borders(text, sentences)
    required: list[list[NamedSegment]] = [[] for _ in sentences]
    forbidden: list[list[NamedSegment | Span]] = [[] for _ in sentences]
    complete: list[list[Span]] = [[] for _ in sentences]
    for segment in constraints.required:
        b, span = borders.in_sentence(segment)
        required[b].append(NamedSegment(*span, segment.label))
    for ban in constraints.forbidden:
        b, span = borders.in_sentence(ban)
        forbidden[b].append(span if isinstance(ban, Span) else NamedSegment(*span, ban.label))
    for whole in constraints.complete:
        for b, span in borders.parts(whole):
            complete[b].append(span)
    rest = replace(constraints, required=(), forbidden=(), complete=())
    own = zip(required, forbidden, complete)
    return [replace(rest, required=r, forbidden=f, complete=c) if r or f or c else rest for r, f, c in own]


class Borders:
    """The borders of a text's tokens and sentences, by which spans of characters are looked up."""

    def __init__(self, text: str, sentences: Sequence[Sequence[Token]]) -> None:
        self.text = text
        self.tokens = [token for sentence in sentences for token in sentence]
        self.starts, self.ends = [token.start for token in self.tokens], [token.end for token in self.tokens]
        self.first = [0, *accumulate(map(len, sentences))]  # the first token of each sentence, and behind the last

    def in_sentence(self, constraint: NamedSegment | Span) -> tuple[int, Span]:
        """Return the sentence of a span, and the span in tokens of that; its ends must fall on borders of tokens."""
        span = self._of_tokens(constraint)
        b = bisect_right(self.first, span.start) - 1
        if span.end > self.first[b + 1]:
            raise ConstraintError(
                f"{_quoted(constraint, self.text)} must lie within one sentence, got one across two; a text can be "
                "read as one sequence, with sentences=False"
            )
        return b, self._from_first(b, *span)

    def parts(self, span: Span) -> list[tuple[int, Span]]:
        """Cut what a span shares a character with into spans of tokens, sentence by sentence."""
        _check_within(span, self.text)
        low, high = bisect_right(self.ends, span.start), bisect_left(self.starts, span.end)
        if low >= high:
            return []
        sentences = range(bisect_right(self.first, low) - 1, bisect_left(self.first, high))
        return [(b, self._from_first(b, max(low, self.first[b]), min(high, self.first[b + 1]))) for b in sentences]

    def _from_first(self, b: int, start: int, end: int) -> Span:
        return Span(start - self.first[b], end - self.first[b])

    def _of_tokens(self, constraint: NamedSegment | Span) -> Span:
        _check_within(constraint, self.text)
        inner = self.text[constraint.start : constraint.end]
        start, end = constraint.end - len(inner.lstrip()), constraint.start + len(inner.rstrip())
        if start >= end:
            raise ConstraintError(f"{_quoted(constraint, self.text)} must hold a token, got blanks alone")
        low, high = bisect_right(self.starts, start) - 1, bisect_left(self.ends, end)
        for index, position, border in ((low, start, "start"), (high, end, "end")):
            token = self.tokens[index] if 0 <= index < len(self.tokens) else None
            if token is None or getattr(token, border) != position:
                is_inside = token is not None and token.start < position < token.end
                where = f"within the token {token.text!r}" if is_inside and token is not None else "between two tokens"
                got = f"got one that {border}s {where}"
                raise ConstraintError(f"{_quoted(constraint, self.text)} must {border} where a token {border}s, {got}")
        return Span(low, high + 1)


def _check_within(constraint: NamedSegment | Span, text: str) -> None:
    if constraint.end > len(text):
        where = f"the {len(text)} characters of its text"
        raise ConstraintError(f"a constraint must lie within {where}, got {tuple(constraint)}")


def _quoted(constraint: NamedSegment | Span, text: str) -> str:
    start, end = constraint.start, constraint.end
    around = f"{text[max(0, start - AROUND) : start]}[{text[start:end]}]{text[end : end + AROUND]}"
    return f"the constraint ({start}, {end}) in {around!r}"
