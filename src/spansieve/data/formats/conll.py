"""CoNLL columns: one token per line, its tag in a column, a blank line after each sentence.

Columns are separated by tabs where every line has one, else by blanks. `-DOCSTART-` lines begin a document and are no
sentences. A line that begins with `#` is a comment when it has not as many columns as the tokens have, or no tag where
theirs is, since `#` is a token too. A CoNLL-U Plus header (`# global.columns = …`) names the columns. Tags may be IOB1,
BIO, BIOES, BILOU or plain labels; see `spansieve.data.tag_schemes` for ill-formed ones.

Also one sentence per line, each token with its columns behind bars: `Ada|NNP|B-PER Lovelace|NNP|I-PER`. The token is
what stands before the first bar, the tag what stands behind the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, check_length
from spansieve.data.formats.files import errors_at, read_lines, write_text
from spansieve.data.overlap_resolution import flat
from spansieve.data.tag_schemes import NULL_TAGS, check_tags, is_tag, scheme_of_tags, segments_of_tags, tags_of_segments
from spansieve.segments import NamedSegment

Column = int | str  # a number, counted from 0 or from the end with -1, or a name of a CoNLL-U Plus header

_DOCSTART = "-DOCSTART-"
_NEW_DOCUMENT = re.compile(r"#\s*newdoc(?:\s+id\s*=\s*(.+))?|-DOCSTART-(?:\s+\((.+)\))?")
_HEADER = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
_Rows = list[tuple[int, list[str]]]  # line number, columns
_Sentences = Sequence[tuple[str | None, _Rows]]  # each with the name of its document


class TaggedSentence(NamedTuple):
    """A sentence as formats with tags have it."""

    location: str
    document: str | None
    tokens: list[str]
    layers: list[list[str]]  # of tags, one per token; several are levels of nested segments


def read_conll(
    path: str | Path,
    *,
    token_column: Column | None = None,
    tag_column: Column | Sequence[Column] | None = None,
    scheme: str = "auto",
    strict: bool = False,
    warnings: ReaderWarnings = IGNORED,
) -> list[Example]:
    """The sentences of a file in columns.

    `token_column`: by default the first, or the second where the first counts the tokens of each sentence, or `FORM`.
    `tag_column`: by default the last in which some token has the tag `O`, or the one whose name holds `NER`; several
    give one level of nested segments each.
    """
    lines = list(read_lines(path))
    names = next((match[1].split() for _, line in lines if (match := _HEADER.match(line))), None)
    sentences = list(_sentences(path, lines))
    if not sentences:
        return []
    rows = [row for _, numbered in sentences for _, row in numbered]
    rows = [row for row in rows if not row[0].startswith("#")] or rows  # those that are no comments for certain
    token = _column(token_column, names, path, _token_column(sentences, rows, names))
    wanted = [tag_column] if tag_column is None or isinstance(tag_column, (int, str)) else list(tag_column)
    tags = [_column(column, names, path, _tag_column(rows, names)) for column in wanted]
    if tag_column is None and not names and not any(is_tag(row[tags[0]]) for row in rows if len(row) > 1):
        got = " ".join(rows[0])
        raise DataError(f"{path} must have a column of tags, some O or like B-PER, got {got!r:.80}; or give tag_column")
    width = len(rows[0])
    tagged = []
    for document, numbered in sentences:
        numbered = [(number, row) for number, row in numbered if not _is_comment(row, width, tags)]
        _check_rows(path, numbered, token, tags)
        if numbered:
            tokens, *layers = ([row[column] for _, row in numbered] for column in (token, *tags))
            tagged.append(TaggedSentence(f"{path} line {numbered[0][0]}", document, tokens, layers))
    return examples_of_tags(str(path), tagged, scheme, strict, warnings)


def examples_of_tags(
    source: str, sentences: Sequence[TaggedSentence], scheme: str, strict: bool, warnings: ReaderWarnings
) -> list[Example]:
    """The examples of tagged sentences; where the scheme is "auto", it is that of all of a layer's tags."""
    layers = [[[tag.strip() for tag in tags] for tags in layer] for layer in zip(*(s.layers for s in sentences))]
    with errors_at(source):
        schemes = [scheme_of_tags(layer) if scheme == "auto" else scheme for layer in layers]
    examples = []
    for number, sentence in enumerate(sentences):
        segments: set[NamedSegment] = set()
        for own, own_scheme in zip((layer[number] for layer in layers), schemes):
            if all(tag in NULL_TAGS for tag in own):
                continue
            with errors_at(f"{sentence.location}, the sentence that begins there"):
                segments |= set(segments_of_tags(own, own_scheme, strict))
            if warnings is not IGNORED:  # the check reads every tag once more
                try:
                    check_tags(own, own_scheme)
                except DataError:
                    ill_formed = f"sentences whose tags are not well-formed {own_scheme}, read as conlleval does"
                    warnings.add(ill_formed, sentence.location)
        examples.append(Example(tuple(sentence.tokens), tuple(segments), document=sentence.document))
    return examples


def read_iob_lines(path: str | Path, *, scheme: str = "auto", warnings: ReaderWarnings = IGNORED) -> list[Example]:
    """The sentences of a file with one on each line."""
    sentences = []
    for number, line in read_lines(path):
        location = f"{path} line {number}"
        check_length(line, location)
        pairs = [_pair(location, word) for word in line.split()]
        if pairs:
            tokens, tags = map(list, zip(*pairs))
            sentences.append(TaggedSentence(location, None, tokens, [tags]))
    return examples_of_tags(str(path), sentences, scheme, False, warnings)


def write_conll(
    examples: Iterable[Example], path: str | Path, *, scheme: str = "BIO", warnings: ReaderWarnings = IGNORED
) -> None:
    """Write token and tag, separated by a tab. Tags cannot overlap: `flat` chooses, with a warning of what it drops."""
    lines: list[str] = []
    document = None
    for number, example in enumerate(examples, start=1):
        location = f"sentence {number}"
        if example.document != document:
            document = example.document
            lines += [f"{_DOCSTART} ({document})" if document else _DOCSTART, ""]
        tags = tags_of_example(example, scheme, location, warnings)
        if not example.tokens:
            warnings.add("sentences without tokens left out", location)
            continue
        lines += [f"{_writable(token, location)}\t{tag}" for token, tag in zip(example.tokens, tags)]
        lines.append("")
    write_text("\n".join(lines) + "\n" if lines else "", path)


def tags_of_example(example: Example, scheme: str, location: str, warnings: ReaderWarnings) -> list[str]:
    """The tags of an example made flat, with warnings of what tags cannot represent."""
    kept, dropped = flat(example)
    warnings.add("texts, and the characters of tokens in them, not kept", location, int(example.text is not None))
    warnings.add("overlapping entities dropped, since tags are flat", location, len(dropped))
    return tags_of_segments(kept.segments, len(kept), scheme)


def _sentences(path: str | Path, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[str | None, _Rows]]:
    tokens = [line for _, line in lines if line.strip() and not line.startswith(("#", _DOCSTART))]
    is_tabbed = all("\t" in line for line in tokens)
    document, count = None, 0
    rows: _Rows = []
    for number, line in [*lines, (0, "")]:
        started = _NEW_DOCUMENT.match(line) if line[:1] in ("#", "-") else None
        if started or not line.strip():
            if rows:
                yield document, rows
                rows = []
            if started:
                count += 1
                document = started[1] or started[2] or f"{Path(path).name.removesuffix('.gz')}-{count}"
        elif line[0] != "#" or not (_HEADER.match(line) or (is_tabbed and "\t" not in line)):
            rows.append((number, line.split("\t") if is_tabbed else _fields(line)))


def _fields(line: str) -> list[str]:
    # Beyond ASCII, `str.split` takes part of some tokens for blanks.
    return line.split() if line.isascii() else re.split(r"[ \t]+", line.strip(" \t"))


def _token_column(sentences: _Sentences, rows: list[list[str]], names: list[str] | None) -> int:
    if names:
        return names.index("FORM") if "FORM" in names else 0
    firsts = [[row[0] for _, row in numbered if not row[0].startswith("#")] for _, numbered in sentences]
    is_counted = all(column == [str(n) for n in range(1, len(column) + 1)] for column in firsts)
    # Two columns of which the first counts are a text of numbers, not numbers and a text.
    return 1 if is_counted and all(len(row) > 2 for row in rows) else 0


def _tag_column(rows: list[list[str]], names: list[str] | None) -> int:
    if names:
        named = [position for position, name in enumerate(names) if "NER" in name.upper()]
        return named[0] if named else len(names) - 1
    width = min(len(row) for row in rows)
    for column in range(width - 1, 0, -1):
        if any(row[column] == "O" for row in rows):
            return column - width
    return -1


def _column(column: Column | None, names: list[str] | None, path: str | Path, otherwise: int) -> int:
    if column is None:
        return otherwise
    if isinstance(column, str) and not column.lstrip("-").isdigit():
        if not names or column not in names:
            known = ", ".join(names) if names else "none, since it has no global.columns header"
            raise DataError(f"{path} must have a column named {column!r}, it has {known}")
        return names.index(column)
    return int(column)


def _is_comment(row: list[str], width: int, tags: Sequence[int]) -> bool:
    return row[0].startswith("#") and (len(row) != width or not all(is_tag(row[tag]) for tag in tags))


def _check_rows(path: str | Path, rows: _Rows, token: int, tags: Sequence[int]) -> None:
    needed = max(2, *(column + 1 if column >= 0 else -column for column in (token, *tags)))
    for number, row in rows:
        if len(row) < needed:
            columns = "column" if len(row) == 1 else "columns"
            raise DataError(
                f"{path} line {number}: must have at least {needed} columns, a token and its tag among them, "
                f"got {len(row)} {columns}: {' '.join(row)!r:.200}"
            )
        if not row[token]:
            raise DataError(f"{path} line {number}: must have a token in column {token}, got an empty one")


def _writable(token: str, location: str) -> str:
    if not token or "\t" in token or "\n" in token or "\r" in token:
        raise DataError(f"a token in columns must not be empty or hold tabs or line ends, got {token!r} in {location}")
    return token


def _pair(location: str, word: str) -> tuple[str, str]:
    # A bar may itself be the token: "|||O".
    token, _, rest = (word[0], "", word[1:]) if word.startswith("|") else word.partition("|")
    if not rest:
        raise DataError(f"{location}: every token must have its tag behind a bar, like Ada|B-PER, got {word!r:.200}")
    return token, rest.rpartition("|")[2]
