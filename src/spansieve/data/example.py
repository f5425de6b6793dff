"""One sentence with its gold segments: what every reader gives and everything else takes; and what readers and writers
raise, or count where they could not represent something as it stood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spansieve.segments import NamedSegment

MAX_TEXT = 1_000_000  # characters of one text in a file: its tokens take up to 400 bytes for each of them
MAX_MESSAGE = 800  # characters of an error
MAX_LOCATIONS = 3  # of a warning


class DataError(ValueError):
    """Something in a file is not as its format wants it; the message names the file and the line."""

    def __init__(self, message: str) -> None:
        """Keep what a file holds from making a message of megabytes."""
        super().__init__(message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]} …")


def check_length(text: str, location: str) -> None:
    """Refuse a text that is too long to be held in memory as tokens."""
    if len(text) > MAX_TEXT:
        way_out = "cut it into several, such as its chapters"
        raise DataError(f"{location}: a text must have at most {MAX_TEXT:,} characters, got {len(text):,}; {way_out}")


def check_span(start: int, end: int, text: str, location: str) -> None:
    """Refuse an entity that is not within its text."""
    if not 0 <= start <= end <= len(text):
        limits = f"the {len(text)} characters of its text"
        raise DataError(f"{location}: an entity must lie within {limits}, got {start} to {end}")


class ReaderWarnings:
    """Warnings of a reader or writer: how often each thing happened, and where first.

    >>> warnings = ReaderWarnings()
    >>> warnings.add("discontinuous entities read from their first part to their last", "a.ann line 3")
    >>> print(warnings)
    1 × discontinuous entities read from their first part to their last (a.ann line 3)
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.locations: dict[str, list[str]] = {}

    def add(self, what: str, where: str = "", count: int = 1) -> None:
        if not count:
            return
        self.counts[what] += count
        locations = self.locations.setdefault(what, [])
        if where and len(locations) < MAX_LOCATIONS:
            locations.append(where)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """What happened and how often, the most frequent first."""
        return iter(self.counts.most_common())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        lines = []
        for what, count in self:
            locations = ", ".join(self.locations[what])
            more = ", …" if count > len(self.locations[what]) > 0 else ""
            lines.append(f"{count:,} × {what}" + (f" ({locations}{more})" if locations else ""))
        return "\n".join(lines)


class _Ignored(ReaderWarnings):
    def add(self, what: str, where: str = "", count: int = 1) -> None:
        pass


IGNORED = _Ignored()  # for callers who do not ask for them


@dataclass(frozen=True)
class Example:
    """A sentence: its tokens and the gold segments among them, sorted by (start, end, label); they may overlap.

    Where the sentence comes from running text, `text` is that text and `offsets` are the characters of each token in
    it: `text[start:end] == token`.

    Of the tokens in `unknown` nothing is known but the segments given: others may be there, or none. Every other token
    is in a segment given or in none at all.
    """

    tokens: tuple[str, ...]
    segments: tuple[NamedSegment, ...] = ()
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = None  # one (start, end) per token
    document: str | None = None
    unknown: tuple[tuple[int, int], ...] = ()  # (start, end) of tokens; kept in order, touching ones as one

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "segments", tuple(sorted(NamedSegment(*segment) for segment in self.segments)))
        for segment in self.segments:
            if not 0 <= segment.start < segment.end <= len(self.tokens):
                raise ValueError(f"a segment must lie within the {len(self.tokens)} tokens, got {tuple(segment)}")
            if not segment.label:
                raise ValueError(f"a segment must have a label, got {tuple(segment)}")
        object.__setattr__(self, "unknown", joined_ranges(self.unknown, len(self.tokens)))
        if (self.text is None) != (self.offsets is None):
            raise ValueError("text and offsets must be given together, got one of them")
        if self.offsets is not None:
            object.__setattr__(self, "offsets", tuple((start, end) for start, end in self.offsets))
            if len(self.offsets) != len(self.tokens):
                raise ValueError(f"offsets must be one per token, {len(self.tokens)}, got {len(self.offsets)}")

    @classmethod
    def of(cls, tokens: Sequence[str] | str, segments: Sequence[tuple[int, int, str]] = (), **where) -> Example:
        """Make an example from a list of tokens or a string of them, and plain tuples.

        >>> Example.of("Paris is big", [(0, 1, "LOC")]).segments
        (NamedSegment(start=0, end=1, label='LOC'),)
        """
        tokens = tokens.split() if isinstance(tokens, str) else tokens
        return cls(tuple(tokens), tuple(NamedSegment(*segment) for segment in segments), **where)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_unknown(self) -> int:
        """How many tokens nothing is known of."""
        return sum(end - start for start, end in self.unknown)

    def has_overlaps(self) -> bool:
        """True when two gold segments share a token."""
        return any(following.start < previous.end for previous, following in pairwise(self.segments))

    def words(self, segment: NamedSegment) -> str:
        """The segment as it stands in the text, or its tokens joined by blanks."""
        if self.text is not None and self.offsets is not None:
            return self.text[self.offsets[segment.start][0] : self.offsets[segment.end - 1][1]]
        return " ".join(self.tokens[segment.start : segment.end])


def joined_ranges(ranges: Iterable[Sequence[int]], length: int) -> tuple[tuple[int, int], ...]:
    """Sort ranges of tokens and join those that touch or overlap.

    >>> joined_ranges([(4, 6), (0, 2), (2, 3)], 6)
    ((0, 3), (4, 6))
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges):
        if not 0 <= start < end <= length:
            raise ValueError(f"an unknown range must lie between 0 and {length} and not be empty, got {(start, end)}")
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((start, end))
    return tuple(joined)


def check_known(examples: Iterable[Example], name: str) -> None:
    """Check that all of gold is known, which scores need."""
    for number, example in enumerate(examples):
        if example.unknown:
            where = f"unknown tokens {example.unknown[0]} in sentence {number}"
            raise ValueError(f"{name} must be annotated in full to score a model on, got {where}")
