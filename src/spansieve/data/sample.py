"""A generated sample corpus, so that the first run needs no download.

News, business, sport, science and everyday life, all of it made up. Four labels: PER, ORG, LOC and EVENT; the article
before a name and the title before a person are no part of it. A dictionary does not get far: half of the names in dev
and test are not in train, nor is every tenth of their templates, and the same name may be a person, a town, or a
company. Only the sentence decides which.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from random import Random
from typing import NamedTuple, TypeVar

from spansieve.data.example import Example
from spansieve.segments import NamedSegment

FAMILY_FIRST = ("chinese", "korean")  # cultures that put the family name first
LABELS = ("EVENT", "LOC", "ORG", "PER")
LENGTHS = (4000, 600, 600)  # sentences in train, dev and test

SEEN = 0.3  # of the names in dev and test, how many are taken from train
NEW = 0.5  # of the parts of other names in dev and test, how many are kept from train where there is such a part

# What a template calls the last person it named: a man, a woman.
PRONOUNS = {"{she}": ("he", "she"), "{her}": ("his", "her"), "{herself}": ("himself", "herself")}

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"\{(\w+)\}")
_Item = TypeVar("_Item")


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


class Splits(NamedTuple):
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]


def sample_corpus(seed: int = 0) -> Splits:
    """The corpus of this seed: 4,000 sentences to train on, 600 each for dev and test, no sentence twice.

    The same seed gives the same corpus on every machine and every version of Python.

    >>> len(sample_corpus().train)
    4000
    """
    if not isinstance(seed, int):
        raise TypeError(f"seed must be an integer, got {seed!r}")
    writer = _Writer(seed)
    seen: set[tuple[str, ...]] = set()
    return Splits(*(tuple(writer.sentences(count, seen, is_train=split == 0)) for split, count in enumerate(LENGTHS)))


# Sentences that the corpus does not have, written by hand: what to try a trained model on.
UNSEEN = (
    "Wilhelmina Achterberg flew from Marrakesh to Cape Tindra with nothing but her umbrella .",
    "Jordan cut its sales forecast , so Jordan packed his umbrella and moved to Jordan .",
    "Gingerbread Airlines shares fell 4.2 percent when Storm Philippa closed the port of Genoa .",
    "Valparaíso Wanderers goalkeeper Mireille Santangelo saved two penalties at the Bronze Cup .",
    "In Ushuaia Hyacinth Oyelaran is still remembered for her soup .",
    "On Monday the bakery was closed , and nobody in the queue knew why .",
)


class _Writer:
    """A generator of sentences, with a record of the names that train has."""

    def __init__(self, seed: int) -> None:
        # The one method of chance whose numbers Python promises never to change.
        self._random = Random(seed).random
        self._is_train = True
        self._names: dict[str, list[str]] = defaultdict(list)  # of train, by kind, as often as they occur

    def sentences(self, count: int, seen: set[tuple[str, ...]], is_train: bool) -> Iterator[Example]:
        """Generate as many sentences that have not been seen, and add them to those that have."""
        self._is_train = is_train
        while count:
            example = self._sentence()
            if example.tokens not in seen:
                seen.add(example.tokens)
                count -= 1
                yield example

    def _happens(self, probability: float) -> bool:
        return self._random() < probability

    def _pick(self, items: Sequence[_Item]) -> _Item:
        return items[int(self._random() * len(items))]

    def _sentence(self) -> Example:
        style, kind = self._pick(_KINDS)
        template = self._clauses() if kind is None else self._line(LINES[kind])
        pieces = self._named(self._chosen(template))
        return _example([(style(words), label) for words, label in pieces], is_sentence=style is str)

    def _clauses(self) -> str:
        """One clause or two of one domain, with something before them or behind."""
        domain = self._pick(DOMAINS)
        template = self._line(domain)
        if self._happens(0.15):
            template = f"{template} {self._pick(LINES['joints'])} {self._line(domain)}"
        if self._happens(0.3):
            template = f"{self._pick(LINES['openers'])} {template}"
        if self._happens(0.2):
            template = f"{template} {self._pick(LINES['endings'])}"
        return f"{template} ."

    def _line(self, lines: Sequence[str]) -> str:
        """One of the lines; every tenth is kept from train, so that dev and test have something new."""
        line = self._pick(lines)
        return self._line(lines) if self._is_train and line in lines[9::10] else line

    def _chosen(self, template: str) -> str:
        """The template with one alternative of each `[a|b]`."""
        return _CHOICE.sub(lambda match: self._pick(match[1].split("|")), template)

    def _named(self, template: str) -> list[tuple[str, str | None]]:
        """The words of the template, and the label of those that are a name."""
        pieces: list[tuple[str, str | None]] = [("", None)]
        is_she = self._happens(0.5)
        for token in template.split():
            if token.startswith("<"):
                kind = token.strip("<>")
                pieces.append((self._name(kind, [name for name, _ in pieces]), kind.split(".")[0]))
                if kind.startswith("PER"):
                    (before, label), (name, _) = pieces[-2:]
                    is_she = self._is_she(name if label else f"{before} {name}")
            elif token in PRONOUNS:
                pieces.append((PRONOUNS[token][is_she], None))
            else:
                pieces.append((_PART.sub(lambda match: self._pick(WORDS[match[1]]), token), None))
        return pieces

    def _is_she(self, called: str) -> bool:
        """Whether the pronoun is `she`, by the title or the first name, where one of them decides it."""
        telling = [word in SHE for word in called.split() if word in SHE or word in HE]
        return telling[0] if telling else self._happens(0.5)

    def _name(self, kind: str, taken: Sequence[str]) -> str:
        """A name that the sentence does not have yet."""
        if not self._is_train and self._names[kind] and self._happens(SEEN):
            name = self._pick(self._names[kind])
        else:
            name = _PART.sub(lambda match: self._part(match[1]), self._pick(PATTERNS[kind]))
        if name in taken:
            return self._name(kind, taken)
        if self._is_train:
            self._names[kind].append(name)
        return name

    def _part(self, part: str) -> str:
        is_new = not self._is_train and bool(_NEW_PARTS[part]) and self._happens(NEW)
        return self._pick((_NEW_PARTS if is_new else _KNOWN_PARTS)[part])


def _example(pieces: Sequence[tuple[str, str | None]], is_sentence: bool) -> Example:
    """The pieces one after the other; a sentence begins with a capital."""
    tokens: list[str] = []
    segments = []
    for words, label in pieces:
        start = len(tokens)
        tokens += words.split()
        if label is not None:
            segments.append(NamedSegment(start, len(tokens), label))
    if is_sentence:
        tokens[0] = tokens[0][0].upper() + tokens[0][1:]
    return Example(tuple(tokens), tuple(segments))


_KNOWN_PARTS = {part: tuple(n for n in names if n not in KEPT_FROM_TRAIN) for part, names in PARTS.items()}
_NEW_PARTS = {part: tuple(n for n in names if n in KEPT_FROM_TRAIN) for part, names in PARTS.items()}

# How a line is spelled and where it comes from, None for clauses, as often as it comes up among a hundred.
_KINDS: tuple[tuple[Callable[[str], str], str | None], ...] = (
    *[(str, None)] * 69,
    *[(str, "speech")] * 7,
    *[(str, "nameless")] * 12,
    *[(str, "headlines")] * 4,
    *[(str.upper, "shouted")] * 2,
    *[(str.lower, "chat")] * 3,
    *[(str, "results")] * 2,
    *[(str, "one_token")] * 1,
)
