"""Constraints in characters of a text as constraints in tokens of its sentences: no torch here.

A required or forbidden span must begin where a token begins and end where one ends; blanks at its ends do not count. A
complete span takes in every token that it shares a character with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from spansieve.crf.evidence import Span
from spansieve.data.tokenizer import Token
from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.segments import NamedSegment

AROUND = 12  # characters that are shown on either side of a span that is refused


def placed(constraints: Constraints, text: str, sentences: Sequence[Sequence[Token]]) -> list[Constraints]:
    """Translate the constraints of a text into those of its sentences. What concerns labels alone holds in each."""
    tokens = [token for sentence in sentences for token in sentence]
    first = [0]  # of each sentence among all tokens, and behind the last
    for sentence in sentences:
        first.append(first[-1] + len(sentence))
    required: list[list[NamedSegment]] = [[] for _ in sentences]
    forbidden: list[list[NamedSegment | Span]] = [[] for _ in sentences]
    complete: list[list[Span]] = [[] for _ in sentences]
    for one in constraints.required:
        b, span = _in_sentence(_on_borders(one, text, tokens), first, one, text)
        required[b].append(NamedSegment(*span, one.label))
    for other in constraints.forbidden:
        b, span = _in_sentence(_on_borders(other, text, tokens), first, other, text)
        forbidden[b].append(span if isinstance(other, Span) else NamedSegment(*span, other.label))
    for span in constraints.complete:
        for b, part in _parts(_touched(span, text, tokens), first):
            complete[b].append(part)
    return [
        replace(constraints, required=required[b], forbidden=forbidden[b], complete=complete[b])
        for b in range(len(sentences))
    ]


def _on_borders(one: NamedSegment | Span, text: str, tokens: Sequence[Token]) -> Span:
    """The span in tokens, by their indices; its ends must fall on the borders of tokens."""
    _check_within(one, text)
    there = text[one.start : one.end]
    start, end = one.end - len(there.lstrip()), one.start + len(there.rstrip())
    if start >= end:
        raise ConstraintError(f"{_quoted(one, text)} must hold a token, got blanks alone")
    low = bisect_right([token.start for token in tokens], start) - 1
    high = bisect_left([token.end for token in tokens], end)
    for index, position, border in ((low, start, "start"), (high, end, "end")):
        token = tokens[index] if 0 <= index < len(tokens) else None
        if token is None or getattr(token, border) != position:
            is_inside = token is not None and token.start < position < token.end
            where = f"within the token {token.text!r}" if is_inside and token is not None else "between two tokens"
            got = f"got one that {border}s {where}"
            raise ConstraintError(f"{_quoted(one, text)} must {border} where a token {border}s, {got}")
    return Span(low, high + 1)


def _touched(span: Span, text: str, tokens: Sequence[Token]) -> Span | None:
    _check_within(span, text)
    low = bisect_right([token.end for token in tokens], span.start)
    high = bisect_left([token.start for token in tokens], span.end)
    return Span(low, high) if low < high else None


def _in_sentence(span: Span, first: Sequence[int], one: NamedSegment | Span, text: str) -> tuple[int, Span]:
    b = bisect_right(first, span.start) - 1
    if span.end > first[b + 1]:
        raise ConstraintError(
            f"{_quoted(one, text)} must lie within one sentence, got one across two; a text can be read as one "
            "sequence, with sentences=False"
        )
    return b, Span(span.start - first[b], span.end - first[b])


def _parts(span: Span | None, first: Sequence[int]) -> list[tuple[int, Span]]:
    """Cut a span of tokens into its parts, sentence by sentence."""
    if span is None:
        return []
    shares = [(b, max(span.start, low), min(span.end, high)) for b, (low, high) in enumerate(zip(first, first[1:]))]
    return [(b, Span(start - first[b], end - first[b])) for b, start, end in shares if start < end]


def _check_within(one: NamedSegment | Span, text: str) -> None:
    if one.end > len(text):
        raise ConstraintError(f"a constraint must lie within the {len(text)} characters of its text, got {tuple(one)}")


def _quoted(one: NamedSegment | Span, text: str) -> str:
    before, after = text[max(0, one.start - AROUND) : one.start], text[one.end : one.end + AROUND]
    return f"the constraint ({one.start}, {one.end}) in {before + '[' + text[one.start : one.end] + ']' + after!r}"
