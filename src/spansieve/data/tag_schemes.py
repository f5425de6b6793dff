"""Segments ↔ tags: BIO, IOB1, BIOES, BILOU, IO and plain labels.

Reading is lenient by default and then equals conlleval's: `B` and `S` always begin a segment; `I` and `E` continue the
one before when it is open and has the same label, and begin one otherwise; `E` and `S` close theirs. No sequence is
ill-formed under this rule, whatever subset of the prefixes it uses, and IOB1 and BIO need not be distinguished.
`strict=True` holds a sequence to its scheme and names the first position that breaks it. `O`, `_`, `-` and an empty tag
are null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from spansieve.data.example import DataError
from spansieve.segments import NamedSegment

SCHEMES = ("BIO", "IOB1", "BIOES", "BILOU", "IO", "plain")
NULL_TAGS = frozenset({"O", "_", "-", ""})
UNNAMED = "ENTITY"  # the label of `B`, `I` and the like without a name behind them

_CANONICAL = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
_WRITTEN = {"BIOES": {"E": "E", "S": "S"}, "BILOU": {"E": "L", "S": "U"}}
_NAMES = {scheme.lower(): scheme for scheme in SCHEMES}
_NAMES |= {"iob": "BIO", "iob2": "BIO", "iobes": "BIOES", "bmes": "BIOES", "bmeso": "BIOES", "bioul": "BILOU"}
_ALLOWED = {"BIO": "BI", "IOB1": "BI", "IO": "I", "BIOES": "BIMES", "BILOU": "BILU"}


def segments_of_tags(tags: Sequence[str], scheme: str = "auto", strict: bool = False) -> list[NamedSegment]:
    """The segments that a sequence of tags stands for, in order.

    `scheme` is one of `SCHEMES` or "auto", which looks at these tags alone: pass `scheme_of_tags` of the whole file
    where you have one.

    >>> segments_of_tags(["B-PER", "I-PER", "O", "I-LOC"])
    [NamedSegment(start=0, end=2, label='PER'), NamedSegment(start=3, end=4, label='LOC')]
    """
    scheme = scheme_of_tags([tags]) if scheme == "auto" else known_scheme(scheme)
    if strict:
        check_tags(tags, scheme)
    segments: list[NamedSegment] = []
    start, open_label = 0, None  # the segment under way, if any
    for position, tag in enumerate(tags):
        if scheme == "plain":
            prefix, label = "I", None if tag in NULL_TAGS else tag
        else:
            prefix, label = split_tag(tag, position)
        if open_label is not None and (label != open_label or prefix in "BS"):
            segments.append(NamedSegment(start, position, open_label))
            open_label = None
        if label is not None and open_label is None:
            start, open_label = position, label
        if open_label is not None and prefix in ("E", "S"):
            segments.append(NamedSegment(start, position + 1, open_label))
            open_label = None
    if open_label is not None:
        segments.append(NamedSegment(start, len(tags), open_label))
    return segments


def tags_of_segments(segments: Iterable[tuple[int, int, str]], length: int, scheme: str = "BIO") -> list[str]:
    """The tags of a sentence of `length` tokens; the segments must not overlap.

    >>> tags_of_segments([(0, 2, "PER")], 3, "BILOU")
    ['B-PER', 'L-PER', 'O']
    """
    scheme = known_scheme(scheme)
    tags = ["O"] * length
    previous = NamedSegment(0, 0, "")
    for segment in sorted(NamedSegment(*segment) for segment in segments):
        if segment.start < previous.end:
            raise ValueError(
                f"segments must not overlap to be written as tags, got {tuple(previous)} and {tuple(segment)}; "
                "make them flat first"
            )
        if not segment.start < segment.end <= length:
            raise ValueError(f"a segment must lie within the {length} tokens, got {tuple(segment)}")
        is_adjacent = segment.start == previous.end and segment.label == previous.label
        tags[segment.start : segment.end] = _tags_of_segment(segment, scheme, is_adjacent)
        previous = segment
    return tags


def scheme_of_tags(sequences: Iterable[Sequence[str]]) -> str:
    """The scheme that a file's tags are written in, judged from all of them.

    Prefixes `E` or `S` mean BIOES, `L` or `U` BILOU; `I` alone means IO; of the two with `B` and `I`, it is IOB1 when
    more segments begin with `I` than with a `B` that IOB1 has no need of, and BIO otherwise: real files have slips.
    Tags without prefixes are plain.
    """
    seen: dict[str, str] = {}  # each prefix, "" for none, with the first tag that has it
    begins: Counter[str] = Counter()  # the prefixes where the token before has another label or none
    mixed = 0  # the first sequence with which some tags have a prefix and others none
    for number, tags in enumerate(sequences, start=1):
        before: str | None = None
        for tag in tags:
            prefix, label = _parts(tag)
            seen.setdefault(prefix, tag)
            if label is not None and label != before:
                begins[prefix] += 1
            before = label
        if not mixed and "" in seen and seen.keys() - {"O", ""}:
            mixed = number
    seen.pop("O", None)
    if "" in seen:
        if len(seen) > 1:
            found = " and ".join(f"{tag!r:.40}" for tag in seen.values())
            raise DataError(
                f"tags must all have a prefix or none, got {found} up to sentence {mixed}; "
                "give the scheme: plain, where prefixes are part of the labels"
            )
        return "plain"
    if seen.keys() & {"L", "U"}:
        return "BILOU"
    if seen.keys() & {"E", "S", "M"}:
        return "BIOES"
    if seen.keys() == {"I"}:
        return "IO"
    return "IOB1" if begins["I"] > begins["B"] else "BIO"


def check_tags(tags: Sequence[str], scheme: str) -> None:
    """Raise at the first tag that the scheme does not allow where it stands."""
    scheme = known_scheme(scheme)
    if scheme == "plain":
        return
    before: tuple[str, str | None] = ("O", None)
    for position, tag in enumerate([*tags, "O"]):
        prefix, label = split_tag(tag, position)
        if label is not None and tag[0] not in _ALLOWED[scheme]:
            raise DataError(f"tag {position + 1} must be of scheme {scheme}, got {tag!r}")
        if not _may_follow(before, (prefix, label), scheme):
            seen = tags[position - 1] if position else "the start"
            came = repr(tag) if position < len(tags) else "the end"
            raise DataError(f"tag {position + 1} breaks {scheme}: {came} after {seen!r}; read it without strict")
        before = (prefix, label)


def is_tag(text: str) -> bool:
    """True for `O` and for anything with a prefix."""
    return _parts(text)[0] != ""


def split_tag(tag: str, position: int) -> tuple[str, str | None]:
    """Split a tag into its prefix, as one of B, I, E, S and O, and its label."""
    prefix, label = _parts(tag)
    if not prefix:
        raise DataError(f"tag {position + 1} must be O or begin with a prefix such as B- or I-, got {tag!r}")
    return _CANONICAL.get(prefix, "O"), label


def _parts(tag: str) -> tuple[str, str | None]:
    """Prefix as written, "" for none and "O" for null, and label."""
    if tag in NULL_TAGS:
        return "O", None
    if len(tag) > 2 and tag[1] == "-" and tag[0] in _CANONICAL:
        return tag[0], tag[2:]
    return (tag, UNNAMED) if tag in _CANONICAL else ("", tag)


def _tags_of_segment(segment: NamedSegment, scheme: str, is_adjacent: bool) -> list[str]:
    """`is_adjacent`: the token before ends a segment with the same label."""
    inside = segment.label if scheme == "plain" else f"I-{segment.label}"
    tags = [inside] * segment.width
    if scheme in ("IO", "plain"):
        if is_adjacent:
            raise ValueError(
                f"scheme {scheme} cannot tell two adjacent {segment.label} segments apart, got one that starts at "
                f"token {segment.start}; take BIO"
            )
        if inside in NULL_TAGS:
            raise ValueError(f"label {segment.label!r} means null in the plain scheme; take BIO")
        return tags
    if scheme != "IOB1" or is_adjacent:
        tags[0] = f"B-{segment.label}"
    if scheme in _WRITTEN:
        tags[-1] = f"{_WRITTEN[scheme]['S' if segment.width == 1 else 'E']}-{segment.label}"
    return tags


def _may_follow(before: tuple[str, str | None], tag: tuple[str, str | None], scheme: str) -> bool:
    prefix, label = tag
    if scheme == "IO":
        return True
    if scheme == "BIO":
        return prefix != "I" or label == before[1]
    if scheme == "IOB1":
        return prefix != "B" or label == before[1]
    is_open = before[0] in ("B", "I")
    continues = prefix in ("I", "E")
    return is_open == continues and (not continues or label == before[1])


def known_scheme(scheme: str) -> str:
    """Return a scheme by the name that `SCHEMES` has for it."""
    if scheme.lower() not in _NAMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    return _NAMES[scheme.lower()]
