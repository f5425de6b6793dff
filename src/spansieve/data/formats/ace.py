"""ACE 2005: pairs of `.sgm` (the text, with markup) and `.apf.xml` (its entities), in any language.

Offsets count the characters of the `.sgm` without its tags; escapes such as `&amp;` become their characters after
that, so that the examples' offsets differ from the file's behind one. What stands outside `<TEXT>` is not read.
Entity mentions are read, by their heads (the default, nearly flat) or their full extents (nested); values, times,
relations and events are not. Nested mentions are kept; `data/overlap_resolution.py` chooses those of a flat model.
Of the copies that a release holds of one document, `timex2norm` is taken before `adj` and that before any other.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
import xml.parsers.expat as expat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, check_length
from spansieve.data.formats.files import files_of, in_pair, offset_in, read_bytes, read_text
from spansieve.data.tokenizer import split_at, tokens_of_text

SUFFIX = ".apf.xml"
_LINE = "{}line"  # an attribute that no file can have
_PART = re.compile(r"<(?P<tag>[^<>]+)>|(?P<escape>&#?\w+;)|[^<&]+|[<&]")
_COPIES = ("timex2norm", "adj")


class _Mention(NamedTuple):
    start: int
    end: int  # exclusive
    label: str
    words: str


class _Reading(NamedTuple):
    """Text without tags and escapes."""

    text: str
    body: tuple[int, int]  # what `<TEXT>` holds
    breaks: list[int]  # where tags stood
    positions: list[int]  # where in the text each character stands that the file's offsets count

    def span(self, mention: _Mention) -> tuple[int, int]:
        """Where a mention stands in the text; of no characters where other words do."""
        if not mention.start < mention.end < len(self.positions):
            return 0, 0
        start, end = self.positions[mention.start], self.positions[mention.end]
        return (start, end) if _letters(self.text[start:end]) == _letters(mention.words) else (0, 0)


def read_ace(
    path: str | Path,
    *,
    spans: str = "head",
    mentions: Iterable[str] = ("NAM", "NOM", "PRO"),
    split_sentences: bool = True,
    warnings: ReaderWarnings = IGNORED,
) -> list[Example]:
    """The sentences of a pair (give either file) or of all the pairs below a folder.

    `spans`: "head" or "extent". `mentions`: the kinds to read, names, nominals and pronouns.
    """
    if spans not in ("head", "extent"):
        raise ValueError(f"spans must be head or extent, got {spans!r}")
    kinds = {mentions} if isinstance(mentions, str) else set(mentions)
    documents = (_document(file, spans, kinds, warnings) for file in _files(path, warnings))
    return examples_of_documents(documents, split_sentences, warnings)


def _files(path: str | Path, warnings: ReaderWarnings) -> list[Path]:
    """The annotations to read, one of each document."""
    chosen: dict[str, Path] = {}
    for file in files_of(path, SUFFIX):
        known = chosen.setdefault(file.name, file)
        warnings.add("copies of a document left out", str(file), int(known is not file))
        chosen[file.name] = min(known, file, key=_rank)
    return sorted(chosen.values())


def _rank(path: Path) -> int:
    return next((rank for rank, name in enumerate(_COPIES) if name in path.parts), len(_COPIES))


def _document(file: Path, spans: str, kinds: set[str], warnings: ReaderWarnings) -> Document:
    annotation, source = in_pair(file, SUFFIX, ".sgm")
    annotated = list(_mentions(annotation, spans, kinds))
    content = read_text(source)
    check_length(content, str(source))
    # Releases differ in whether `&amp;` and CRLF count as one character or as they are written.
    sources = dict.fromkeys((content.replace("\r\n", "\n"), content))
    readings = [_reading(raw, is_as_written) for raw in sources for is_as_written in (True, False)]
    reading = max(readings, key=lambda reading: sum(any(reading.span(mention)) for mention in annotated))
    kept = list(_inside(reading, annotated, str(annotation), warnings))
    cuts = [border for start, end, _ in kept for border in (start, end)]
    tokens = split_at(tokens_of_text(reading.text), [*cuts, *reading.breaks])
    tokens = [token for token in tokens if reading.body[0] <= token.start < reading.body[1]]
    name = source.name.removesuffix(".gz").removesuffix(".sgm")
    return Document(name, reading.text, kept, str(annotation), tokens, reading.breaks)


def _mentions(file: Path, spans: str, kinds: set[str]) -> Iterator[_Mention]:
    for entity in _tree(file).iter("entity"):
        for mention in entity.iter("entity_mention"):
            characters = mention.find(f"{spans}/charseq")
            if mention.get("TYPE") not in kinds:
                continue
            label, location = entity.get("TYPE"), f"{file} line {mention.get(_LINE)}"
            if characters is None or not label:
                requirement = f"mention {mention.get('ID')} must have a {spans} and its entity a TYPE"
                raise DataError(f"{location}: {requirement}")
            start, last = (offset_in(characters.get(name, ""), location) for name in ("START", "END"))
            yield _Mention(start, last + 1, label, characters.text or "")


def _tree(file: Path) -> ElementTree.Element:
    """The elements of a file, each with its line. Entities of its own, which may grow without end, are refused."""
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        builder.start(name, {**attributes, _LINE: str(parser.CurrentLineNumber)})

    def refuse(name: str, *_: object) -> None:
        raise DataError(f"{file} line {parser.CurrentLineNumber}: must use no entities of its own, got {name!r:.40}")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(read_bytes(file), True)
    except DataError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise DataError(f"{file} line {parser.CurrentLineNumber}: must be XML, got {error}") from error
    return builder.close()


def _reading(source: str, is_as_written: bool) -> _Reading:
    """Read a source whose offsets count an escape as it is written, or as the character that it stands for."""
    parts, breaks, length, body_start, body_end = [], [], 0, 0, None
    positions: list[int] = []
    for match in _PART.finditer(source):
        if match["tag"]:
            breaks.append(length)
            name = match["tag"].upper().split()[:1]
            body_start = length if name == ["TEXT"] else body_start
            body_end = length if name == ["/TEXT"] else body_end
            continue
        written = match.group()
        part = html.unescape(written) if match["escape"] else written
        end = length + len(part)
        positions += [length] * len(written) if is_as_written and part != written else range(length, end)
        parts.append(part)
        length = end
    return _Reading(
        "".join(parts), (body_start, length if body_end is None else body_end), breaks, [*positions, length]
    )


def _inside(
    reading: _Reading, mentions: list[_Mention], location: str, warnings: ReaderWarnings
) -> Iterator[tuple[int, int, str]]:
    for mention in mentions:
        start, end = reading.span(mention)
        if start == end:
            warnings.add("mentions left out whose characters are not those of the text", location)
        elif not reading.body[0] <= start < end <= reading.body[1]:
            warnings.add("mentions outside <TEXT> left out", location)
        else:
            yield start, end, mention.label


def _letters(words: str) -> str:
    return "".join(html.unescape(words).split())
