"""CSV and TSV: one row per token, one row per entity, or what Label Studio exports.

Which of the three a file is follows from its header, in small letters or capitals:

    sentence, token, tag             a sentence's number may stand in its first row alone; without it, blank rows end
                                     sentences
    text, start, end, label          characters, end exclusive; a text without entities has one row with the three empty
    text, label, annotation_id, …    Label Studio: one row per annotation, its regions as JSON in `label`

A column `doc` has the names of documents. Rows are counted as spreadsheets count them: the header is row 1. Quotes may
hold separators and line ends.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from spansieve.data.alignment import Document, documents_of_examples, examples_of_documents
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings, check_length, check_span
from spansieve.data.formats.conll import TaggedSentence, examples_of_tags
from spansieve.data.formats.files import offset_in, package, parsed_json, read_text, write_text
from spansieve.data.formats.label_studio import documents_of_tasks
from spansieve.segments import Entity

if TYPE_CHECKING:
    import pandas

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
# What each column may be called, letters and digits alone.
NAMES = {
    "token": ("token", "word", "form"),
    "tag": ("tag", "nertag", "ner", "label"),
    "sentence": ("sentence", "sentenceid", "sentencenumber", "sent", "sentid"),
    "text": ("text", "content"),
    "start": ("start", "begin", "startoffset", "startchar"),
    "end": ("end", "stop", "endoffset", "endchar"),
    "label": ("label", "type", "entitytype", "tag"),
    "document": ("doc", "document", "docid", "documentid"),
    "entity": ("entity",),
    "task": ("id",),
    "annotation": ("annotationid",),
    "probability": ("probability",),
}
FORMS = (
    ("entities", ("text", "start", "end", "label")),
    ("tokens", ("token", "tag")),
    ("tasks", ("text", "label")),
    ("tasks", ("text", "annotation")),  # as Label Studio has it where nothing was labelled
)
_WAY_OUT = "name columns by options, as in `spansieve convert IN OUT -o text_column=body`"
ENTITY_COLUMNS = ("start", "end", "label", "entity", "probability")


class Row(NamedTuple):
    """A row of a table: its number, its cells, and which of them holds what."""

    path: str | Path
    number: int
    cells: list[str]
    columns: dict[str, int]

    @property
    def location(self) -> str:
        return f"{self.path} row {self.number}"

    def cell(self, name: str) -> str:
        return self.cells[self.columns[name]] if name in self.columns else ""

    def value(self, name: str) -> str:
        """The cell, which must not be empty."""
        if not self.cell(name).strip():
            raise DataError(f"{self.location}: {name} is missing")
        return self.cell(name)

    def offset(self, name: str) -> int:
        """The cell as a number of characters; 3.0 is what a column with missing values makes of 3."""
        return offset_in(self.value(name).strip().removesuffix(".0"), self.location, name)


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    quotes: bool = True,
    token_column: str | None = None,
    tag_column: str | None = None,
    sentence_column: str | None = None,
    text_column: str | None = None,
    start_column: str | None = None,
    end_column: str | None = None,
    label_column: str | None = None,
    document_column: str | None = None,
    scheme: str = "auto",
    split_sentences: bool = True,
    warnings: ReaderWarnings = IGNORED,
) -> list[Example]:
    """The sentences of a CSV or TSV file.

    Columns are found by their names in the header, unless they are given. `separator` is a character or one of comma,
    semicolon, tab and bar, by default the one that the header has most of. `quotes=False` takes quotes as letters.
    """
    given = {
        "token": token_column, "tag": tag_column, "sentence": sentence_column, "text": text_column,
        "start": start_column, "end": end_column, "label": label_column, "document": document_column,
    }  # fmt: skip
    header, rows = _read_rows(path, given, separator, quotes)
    if not any(any(row.cells) for row in rows):
        return []
    form = _form(header.columns)
    if form == "tokens":
        return examples_of_tags(str(path), list(_sentences(header, rows)), scheme, False, warnings)
    if form is None:
        wanted = "; or ".join(", ".join(needed) for _, needed in FORMS[:3])
        raise DataError(f"{path} must have the columns {wanted}, got {', '.join(header.cells)}; {_WAY_OUT}")
    rows = [row for row in rows if any(row.cells)]
    documents = _documents(rows, warnings) if form == "entities" else documents_of_tasks(map(_task, rows), warnings)
    return examples_of_documents(documents, split_sentences, warnings)


def read_texts(path: str | Path, text_column: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a table as records with a `text`: that of the column given, or of `text`, or of the only column.

    Of a table with one row per entity each text comes once, without the entities.
    """
    header, rows = _read_rows(path, {"text": text_column})
    columns = header.columns  # which all rows share
    if len(header.cells) == 1:
        columns["text"] = 0
    if "text" not in columns:
        got = ", ".join(header.cells) or "none"
        raise DataError(f"{path} must have a column text, or --text-column be given, got {got}")
    is_labelled = _form(columns) == "entities"
    left_out = {columns.get(name) for name in (("text", *ENTITY_COLUMNS) if is_labelled else ("text",))}
    kept = [(i, name) for i, name in enumerate(header.cells) if name and i not in left_out]
    seen = set()
    for row in rows:
        key = (row.cell("document"), row.cell("text"))
        if any(row.cells) and not (is_labelled and key in seen):
            seen.add(key)
            check_length(row.cell("text"), row.location)
            yield {"text": row.cell("text"), **{name: row.cells[i] for i, name in kept}}


def form_of_header(header: Sequence[str]) -> str | None:
    """Which of the forms a table with this header has; None where it is no header."""
    return _form(_columns("", header, {}))


def write_csv(
    examples: Iterable[Example], path: str | Path, *, separator: str = ",", warnings: ReaderWarnings = IGNORED
) -> None:
    """Write one row per entity; one without an entity for a text that has none."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, delimiter=SEPARATORS.get(separator, separator), lineterminator="\n")
    writer.writerow(("doc", "text", *ENTITY_COLUMNS[:-1]))
    for number, document in enumerate(documents_of_examples(examples, warnings)):
        name, text = number if document.name is None else document.name, document.text
        entities = [Entity(start, end, label, text[start:end]) for start, end, label in document.annotations]
        writer.writerows((name, text, *cells[:-1]) for cells in entity_rows(entities))
    write_text(target.getvalue(), path)


def write_tsv(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write the same with tabs."""
    write_csv(examples, path, separator="\t", warnings=warnings)


def entity_rows(entities: Iterable[Entity]) -> list[tuple[Any, ...]]:
    """The cells of `ENTITY_COLUMNS` for each entity of a text; one row of empty cells where it has none."""
    rows = [(entity.start, entity.end, entity.label, entity.text, entity.probability) for entity in entities]
    return rows or [(None,) * len(ENTITY_COLUMNS)]


# ---- The three forms -------------------------------------------------------------------------------------------------


def _form(columns: Iterable[str]) -> str | None:
    return next((form for form, needed in FORMS if set(needed) <= set(columns)), None)


def _sentences(header: Row, rows: Sequence[Row]) -> Iterator[TaggedSentence]:
    """The sentences of rows of tokens. One ends where its name changes, or that of its document, or at a blank row."""
    if "sentence" not in header.columns and all(any(row.cells) for row in rows):
        raise DataError(f"{header.path} must have a column sentence, or blank rows between sentences; {_WAY_OUT}")
    sentence: TaggedSentence | None = None
    name = document = ""
    for row in rows:
        if not any(row.cells):
            sentence, name = None, ""
            continue
        names = row.cell("sentence") or name, row.cell("document") or document
        if "sentence" in header.columns and not names[0]:
            row.value("sentence")
        if sentence is None or names != (name, document):
            name, document = names
            sentence = TaggedSentence(row.location, document or None, [], [[]])
            yield sentence
        sentence.tokens.append(row.value("token"))
        sentence.layers[0].append(row.value("tag"))
        if "\n" in row.cell("token"):
            raise DataError(f"{row.location}: a token must have no line end; is a quote a token? give quotes=false")


def _documents(rows: Iterable[Row], warnings: ReaderWarnings) -> Iterator[Document]:
    """The texts of rows of entities, each with the location of its first row."""
    texts: dict[tuple[str, str], tuple[str, list[tuple[int, int, str]]]] = {}
    for row in rows:
        text = row.value("text")
        _, spans = texts.setdefault((row.cell("document"), text), (row.location, []))
        if not any(row.cell(name).strip() for name in ("start", "end", "label")):
            continue
        start, end, label = row.offset("start"), row.offset("end"), row.value("label").strip()
        check_span(start, end, text, row.location)
        if row.cell("entity") not in ("", text[start:end]):
            warnings.add("entities that are not what stands from start to end, which are read", row.location)
        spans.append((start, end, label))
    return (Document(name or None, text, spans, location) for (name, text), (location, spans) in texts.items())


def _task(row: Row) -> tuple[str, dict[str, Any]]:
    """A row as a task of Label Studio's JSON."""
    if "annotation" in row.columns and not row.cell("annotation"):
        return row.location, {"data": {"text": row.cell("text")}, "annotations": []}
    try:
        regions = parsed_json(row.cell("label") or "[]", row.location)
    except DataError as error:
        requirement = "label must be Label Studio's JSON where there is no start"
        raise DataError(f"{row.location}: {requirement}, got {row.cell('label')!r:.60}; {_WAY_OUT}") from error
    return row.location, {"text": row.cell("text"), "label": regions, "id": row.cell("task") or None}


# ---- Rows and columns ------------------------------------------------------------------------------------------------


def _read_rows(
    path: str | Path, given: Mapping[str, str | None], separator: str | None = None, quotes: bool = True
) -> tuple[Row, list[Row]]:
    """The header of a file and the rows below it, each with as many cells."""
    text = read_text(path)
    first = text.lstrip("\r\n").split("\n", 1)[0]
    sign = max(SEPARATORS.values(), key=first.count) if separator is None else SEPARATORS.get(separator, separator)
    if len(sign) != 1:
        raise ValueError(f"separator must be a character or one of {', '.join(SEPARATORS)}, got {separator!r}")
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell may be a book
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=sign, strict=True, quoting=0 if quotes else 3)
    rows: list[list[str]] = []
    try:
        for row in lines:
            rows.append(row)  # one by one, so that an error has its number
    except csv.Error as error:
        message = f"{path} row {len(rows) + 1}: must have cells quoted in full or not at all, got {error}"
        raise DataError(f"{message}; where quotes are letters of the text, give quotes=false") from error
    top = next((number for number, row in enumerate(rows) if any(row)), None)
    if top is None:
        return Row(path, 1, [], {}), []
    width, columns = len(rows[top]), _columns(path, rows[top], given)
    below = []
    for number, row in enumerate(rows[top + 1 :], start=top + 2):
        if any(row[width:]):
            requirement = f"{width} cells between {sign!r}, as the header has"
            raise DataError(f"{path} row {number}: must have {requirement}, got {len(row)}; quote cells with that sign")
        below.append(Row(path, number, row[:width] + [""] * (width - len(row)), columns))
    return Row(path, top + 1, rows[top], columns), below


def _columns(path: str | Path, header: Sequence[str], given: Mapping[str, str | None]) -> dict[str, int]:
    """Which column of a table holds what: those given by name, and those that the header names."""
    plain = [re.sub(r"[\W_]+", "", name).casefold() for name in header]
    known = {kind: [name for name in names if name in plain] for kind, names in NAMES.items()}
    columns = {kind: plain.index(names[0]) for kind, names in known.items() if names}
    wanted = {kind: name for kind, name in given.items() if name is not None}
    for name in wanted.values():
        if name not in header:
            raise DataError(f"{path} must have the column {name}, got {', '.join(header)}")
    return columns | {kind: header.index(name) for kind, name in wanted.items()}


def to_dataframe(
    texts: str | Collection[str], predictions: Iterable[Entity] | Iterable[Iterable[Entity]]
) -> pandas.DataFrame:
    """Make a data frame of what `predict` returned for one text or for several: one row per entity.

    The columns are `doc` (the number of the text, from 0, or its index where the texts are a column of a data frame),
    `text`, `start`, `end`, `label`, `entity` and `probability`. A text without entities has one row with missing
    values, which `dropna(subset="label")` leaves out. As CSV it is what `spansieve predict --as csv` writes, and can be
    trained on.
    """
    pd = package("pandas", "pandas")
    if isinstance(texts, str):
        texts, predictions = [texts], [cast("Iterable[Entity]", predictions)]
    of_texts = list(cast("Iterable[Iterable[Entity]]", predictions))
    if len(of_texts) != len(texts):
        raise ValueError(f"predictions must be one list per text, {len(texts)}, got {len(of_texts)}")
    names: Iterable[Any] = texts.index if isinstance(texts, pd.Series) else range(len(texts))
    rows = [(name, text, *cells) for name, text, found in zip(names, texts, of_texts) for cells in entity_rows(found)]
    frame = pd.DataFrame(rows, columns=["doc", "text", *ENTITY_COLUMNS])
    return frame.astype({"start": "Int64", "end": "Int64", "probability": "float64"})
