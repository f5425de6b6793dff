"""Constraints on a prediction, as users give them, in characters or tokens, and as decoders take them: no torch here.

In characters, a required or forbidden span must begin where a token begins and end where one ends; blanks at its ends
do not count. A complete span takes in every token that it shares a character with.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from spansieve.crf.evidence import Known, Pair, Span
from spansieve.crf.flat_segments import first_clash
from spansieve.segments import Entity, LabelSet, NamedSegment, Segment

if TYPE_CHECKING:
    from spansieve.data.tokenizer import Token

MAX_WATCHES = 500  # starts of forbidden entities, by label, in a sentence of a linear chain
MAX_WATCH_WORK = 10**8  # tokens times their square, about half a second
MAX_FORBIDDEN_TOGETHER = 16  # in a sentence that shares its batch: the sentences of a batch share such starts
AROUND = 12  # characters that are shown on either side of a span that is refused


class ConstraintError(ValueError):
    """Constraints cannot be met, or are none of this text."""


@dataclass(frozen=True, init=False)
class Constraints:
    """Constraints that the entities of one text must agree with. Positions are characters of the text, or tokens of a
    sentence that is tokens already. Plain tuples will do, and entities as they were predicted.

    Required and forbidden segments, complete spans and banned pairs are knowledge: the entities are the best set that
    agrees with it, and their probabilities are conditioned on it. Thresholds are a wish: an entity whose probability
    lies below its label's is not returned, and nothing else changes.

    >>> Constraints(required=[(0, 3, "PER")], forbidden=[(9, 12), (9, 17, "ORG")]).forbidden
    (Span(start=9, end=12), NamedSegment(start=9, end=17, label='ORG'))
    """

    required: Sequence[NamedSegment]  # are there
    forbidden: Sequence[NamedSegment | Span]  # are not, with this label or with any
    complete: Sequence[Span]  # what shares a token with these and is not required is no entity
    banned: Collection[tuple[str, str]]  # labels that must not meet: see spansieve.crf.conditioning
    thresholds: Mapping[str, float]  # by label

    def __init__(
        self,
        required: Iterable[tuple[int, int, str] | Entity] = (),
        forbidden: Iterable[tuple[int, int] | tuple[int, int, str | None] | Entity] = (),
        complete: Iterable[tuple[int, int]] = (),
        banned: Iterable[tuple[str, str]] = (),
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        object.__setattr__(self, "required", tuple(NamedSegment(*_place(one), one[2]) for one in required))
        object.__setattr__(self, "forbidden", tuple(map(_forbidden, forbidden)))
        object.__setattr__(self, "complete", tuple(Span(*_place(span)) for span in complete))
        object.__setattr__(self, "banned", frozenset((first, second) for first, second in banned))
        object.__setattr__(self, "thresholds", dict(thresholds or {}))
        for label, threshold in self.thresholds.items():
            if not 0 <= threshold <= 1:
                raise ConstraintError(f"the threshold of {label} must lie between 0 and 1, got {threshold}")

    def __bool__(self) -> bool:
        return bool(self.has_spans or self.banned or self.thresholds)

    @property
    def has_spans(self) -> bool:
        return bool(self.required or self.forbidden or self.complete)


def _place(one: Sequence[Any]) -> tuple[int, int]:
    start, end = one[0], one[1]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end):
        raise ConstraintError(f"a span must be (start, end) with 0 <= start < end, got {tuple(one)}")
    return start, end


def _forbidden(one: Sequence[Any]) -> NamedSegment | Span:
    """Read a forbidden span from two numbers, or from three of which the label may be None."""
    is_any = len(one) == 2 or one[2] is None
    return Span(*_place(one)) if is_any else NamedSegment(*_place(one), one[2])


class Rules(NamedTuple):
    """The constraints of one sentence, in tokens, with ids for labels."""

    known: Known = Known()
    banned: frozenset[Pair] = frozenset()
    thresholds: tuple[float, ...] = ()  # by label, null's first; none at all: all are 0
    required: frozenset[Segment] = frozenset()  # those of `known`

    @property
    def is_knowledge(self) -> bool:
        """Whether they change the distribution, as thresholds do not."""
        return bool(self.known or self.banned)

    def is_below(self, segment: Segment, probability: float) -> bool:
        return bool(self.thresholds) and probability < self.thresholds[segment.label] and not self.requires(segment)

    def requires(self, segment: Segment) -> bool:
        return segment in self.required


NO_RULES = Rules()


class Support(NamedTuple):
    """The support of a model: its labels, how wide its segments may be, and whether one may lie within another."""

    labels: LabelSet
    max_width: int | None  # None: of any width
    takes_nested: bool

    def rules(self, constraints: Constraints | None, tokens: Sequence[str]) -> Rules:
        """Translate the constraints of a sentence, checked, so that errors are in the caller's terms."""
        if not constraints:
            return NO_RULES
        required = [self._segment(one, tokens) for one in constraints.required]
        self._check_required(required, tokens)
        forbidden = [
            Span(*_within(one, tokens)) if isinstance(one, Span) else self._segment(one, tokens)
            for one in constraints.forbidden
        ]
        self._check_watches(forbidden, len(tokens))
        banned_spans = set(forbidden)
        for segment in required:
            if segment in banned_spans or Span(segment.start, segment.end) in banned_spans:
                raise ConstraintError(f"{self._quoted(segment, tokens)} is required, and forbidden too")
        complete = [Span(*_within(span, tokens)) for span in constraints.complete]
        banned = frozenset((self._id(first), self._id(second)) for first, second in constraints.banned)
        known = Known(required, forbidden, complete)
        return Rules(known, banned, self._thresholds(constraints.thresholds), frozenset(required))

    def _check_watches(self, forbidden: Iterable[Segment | Span], length: int) -> None:
        """Check what a linear chain decodes with: tags of its own for each start of a forbidden entity, and it takes as
        long as their number squared."""
        if self.max_width is not None:
            return
        starts = {(one.start, one.label if isinstance(one, Segment) else None) for one in forbidden}
        watches = sum(1 if label is not None else len(self.labels) - 1 for _, label in starts)
        most = min(MAX_WATCHES, int((MAX_WATCH_WORK / length) ** 0.5))
        if watches > most:
            raise ConstraintError(
                f"forbidden must have at most {most} starts in a sentence of {length} tokens, of a linear-chain model, "
                f"got {watches}: without a label each counts once per label; complete spans have no limit"
            )

    def _thresholds(self, thresholds: Mapping[str, float]) -> tuple[float, ...]:
        by_id = {self._id(label): threshold for label, threshold in thresholds.items()}
        return tuple(by_id.get(y, 0.0) for y in range(len(self.labels))) if any(by_id.values()) else ()

    def _check_required(self, required: Sequence[Segment], tokens: Sequence[str]) -> None:
        for segment in required:
            if self.max_width is not None and segment.width > self.max_width:
                wide = f"is {segment.width} tokens wide, and the model has no entity wider than {self.max_width}"
                raise ConstraintError(f"required {self._quoted(segment, tokens)} {wide}")
        if pair := first_clash(set(required), self.takes_nested):
            both = " and ".join(self._quoted(segment, tokens) for segment in pair)
            raise ConstraintError(f"required entities must not overlap, got {both}")

    def _segment(self, one: NamedSegment, tokens: Sequence[str]) -> Segment:
        return Segment(*_within(one, tokens), self._id(one.label))

    def _quoted(self, segment: Segment, tokens: Sequence[str]) -> str:
        return f"{self.labels.name(segment.label)} {' '.join(tokens[segment.start : segment.end])!r}"

    def _id(self, label: str) -> int:
        if label not in self.labels.names:
            known = ", ".join(sorted(self.labels.names))
            raise ConstraintError(f"unknown label {label!r} in constraints; the model knows {known}")
        return self.labels.id(label)


def _within(one: NamedSegment | Span, tokens: Sequence[str]) -> tuple[int, int]:
    if one.end > len(tokens):
        raise ConstraintError(
            f"a constraint must lie within the {len(tokens)} tokens of its sentence, got {tuple(one)}"
        )
    return one.start, one.end


def checked_constraints(
    constraints: Sequence[Constraints | None] | None, count: int, name: str = "sentence"
) -> Sequence[Constraints | None]:
    if constraints is None:
        return [None] * count
    if isinstance(constraints, Constraints) or len(constraints) != count:
        got = "one for all" if isinstance(constraints, Constraints) else str(len(constraints))
        raise ConstraintError(f"constraints must be one per {name}, {count}, got {got}")
    return constraints


def with_threshold(constraints: Constraints | None, threshold: float, labels: Iterable[str]) -> Constraints | None:
    """Add a threshold of all labels to the constraints of a text; the threshold of a single label in them stays.

    >>> with_threshold(Constraints(thresholds={"LOC": 0.2}), 0.9, ["LOC", "PER"]).thresholds
    {'LOC': 0.2, 'PER': 0.9}
    """
    check_threshold(threshold)
    if not threshold:
        return constraints
    own = constraints or Constraints()
    return replace(own, thresholds={**dict.fromkeys(labels, threshold), **own.thresholds})


def check_threshold(threshold: float) -> None:
    if not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise ConstraintError(f"threshold must be a probability from 0 to 1, got {threshold!r}")


def group_by_banned_pairs(rules: Iterable[Rules]) -> list[list[int]]:
    """Group sentences that may share a batch: those with the same banned pairs, since a batch has one transition. One
    with many forbidden segments is alone."""
    groups: dict[tuple[frozenset[Pair], int | None], list[int]] = {}
    for i, rule in enumerate(rules):
        is_alone = len(rule.known.forbidden) > MAX_FORBIDDEN_TOGETHER
        groups.setdefault((rule.banned, i if is_alone else None), []).append(i)
    return list(groups.values())


# ---- In characters ---------------------------------------------------------------------------------------------------


def placed(constraints: Constraints, text: str, sentences: Sequence[Sequence[Token]]) -> list[Constraints]:
    """Translate the constraints of a text into those of its sentences. What concerns labels alone holds in each.

    O((C + T) log T) for C constraints and T tokens.
    """
    borders = Borders(text, sentences)
    parts: list[dict[str, Any]] = [{} for _ in sentences]
    for name in ("required", "forbidden"):
        for one in getattr(constraints, name):
            b, span = borders.in_sentence(one)
            own = span if isinstance(one, Span) else NamedSegment(*span, one.label)
            parts[b].setdefault(name, []).append(own)
    for whole in constraints.complete:
        for b, span in borders.parts(whole):
            parts[b].setdefault("complete", []).append(span)
    rest = replace(constraints, required=(), forbidden=(), complete=())
    return [replace(rest, **of_sentence) if of_sentence else rest for of_sentence in parts]


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
