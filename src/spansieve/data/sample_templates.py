"""The templates of the sample corpus, read from `data/templates/*.txt`: clauses, lines, words, and parts of names."""

from __future__ import annotations

from importlib import resources

FAMILY_FIRST = ("chinese", "korean")  # cultures that put the family name first


def _sections(name: str) -> dict[str, tuple[str, ...]]:
    """The lines of a file by its sections, `== title`, without comments. `@title` is all of an earlier section."""
    sections: dict[str, tuple[str, ...]] = {}
    title = ""
    for line in (resources.files("spansieve.data") / "templates" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            title = line.removeprefix("== ")
            sections[title] = ()
        elif line and not line.startswith("# "):
            sections[title] += sections[line[1:]] if line.startswith("@") else (line,)
    return sections


def _lists(name: str) -> dict[str, tuple[str, ...]]:
    """The entries of a file by its sections, separated by commas and line ends."""
    return {title: tuple(", ".join(lines).split(", ")) for title, lines in _sections(name).items()}


DOMAINS = tuple(_sections("clauses.txt").values())
LINES = _sections("lines.txt")
PATTERNS = _sections("patterns.txt")

_NUMBERS = tuple(str(n) for n in range(3, 99))
WORDS = _lists("words.txt") | {
    "number": (*_NUMBERS, *_NUMBERS, "120", "250", "400", "1,200", "3,500", "12,000", "40,000"),
    "age": tuple(str(n) for n in range(71, 104)),
    "rank": tuple(str(n) for n in range(1, 21)),
    "year": tuple(str(n) for n in range(1951, 2031)),
    "percent": tuple(f"{n}.{m}" for n in range(1, 12) for m in (1, 3, 4, 7, 8)),
    "money": tuple(f"$ {n}.{m} {unit}" for n in range(1, 30) for m in (2, 5, 6) for unit in ("million", "billion")),
    "score": tuple(f"{a}-{b}" for a in range(1, 7) for b in range(a)),
    "day": tuple(str(n) for n in range(1, 29)),
    "time": tuple(f"{n}:{m:02d}.{m % 10}" for n in range(1, 15) for m in range(3, 60, 7)),
    "clock": tuple(f"{n} {half}" for n in range(1, 13) for half in ("a.m.", "p.m.", "o'clock")),
}

_OPEN_PARTS = _lists("names.txt")
CULTURES = tuple(part.removesuffix("_last") for part in _OPEN_PARTS if part.endswith("_last"))
_NAME_FIRST = [culture for culture in CULTURES if culture not in FAMILY_FIRST]
PARTS = {
    **_OPEN_PARTS,
    **_lists("closed_names.txt"),
    "first": tuple(name for culture in _NAME_FIRST for name in _OPEN_PARTS[f"{culture}_first"]),
    "last": tuple(name for culture in _NAME_FIRST for name in _OPEN_PARTS[f"{culture}_last"]),
}
# Two names in eight, which only dev and test have.
KEPT_FROM_TRAIN = frozenset(name for names in _OPEN_PARTS.values() for name in (*names[3::8], *names[6::8]))

_GIVEN = [PARTS[f"{culture}_first"] for culture in CULTURES]
SHE = frozenset(name for names in _GIVEN for name in names[0::2]) | {"Mrs", "Ms", "Sister", "Florence", "Georgia"}
HE = frozenset(name for names in _GIVEN for name in names[1::2]) | {"Mr", "Frank", "Bill"}
