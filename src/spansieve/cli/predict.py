"""`spansieve predict`: text in, entities out."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, repeat, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from spansieve.cli.inputs import JSON_SUFFIXES, Record, json_lines, load_predictor, records_of_arguments, text_files
from spansieve.cli.options import (
    Device,
    Files,
    Guarantee,
    LoadSettings,
    ModelOrExport,
    OutputFile,
    Sentences,
    TextColumn,
    Whole,
)
from spansieve.data.formats.files import json_line, opened
from spansieve.data.formats.jsonl import without_annotation
from spansieve.data.tag_schemes import tags_of_segments
from spansieve.data.tokenizer import Token, Tokenizer, sequences_of_text
from spansieve.segments import Entity

if TYPE_CHECKING:
    from spansieve.data.example import Example
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.promises import Promise
    from spansieve.prediction.text_predictor import TextPredictor

Form = Literal["jsonl", "csv", "tsv", "conll", "text"]
SUFFIXES: dict[str, Form] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
SUFFIXES |= {".conll": "conll", ".txt": "text"}
Values = Sequence[str] | None  # of an option that may be given several times
Hit = tuple[int, int, str | None]  # start and end of a phrase in characters, and its label, if it has one

Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[LABEL=]P",
        help="leave out what is less probable, of a label or of all; `evaluate --precision` suggests one",
    ),
]
Required = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PHRASE=LABEL|FILE.jsonl",
        help="an entity wherever it stands, such as 'Acme Inc.=ORG'; or texts as JSON lines, each with its own "
        "required entities, forbidden ones and complete spans",
    ),
]
Forbidden = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PHRASE[=LABEL]",
        help="no entity wherever it stands, or none with this label; or labels that must not follow one another: "
        "'PER>LOC'",
    ),
]
TextArguments = Annotated[
    list[str] | None, typer.Argument(help="texts, or files where --file is given; standard input if there is neither")
]
OutputForm = Annotated[
    Form | None,
    typer.Option("--as", help="the form of the output, by its suffix where not given; csv has a row per entity"),
]


def predict(
    model: ModelOrExport,
    texts: TextArguments = None,
    file: Files = None,
    whole: Whole = False,
    text_column: TextColumn = None,
    sentences: Sentences = True,
    threshold: Thresholds = None,
    require: Required = None,
    forbid: Forbidden = None,
    output: OutputFile = None,
    as_: OutputForm = None,
    guarantee: Guarantee = None,
    settings: LoadSettings = None,
    device: Device = "cpu",
) -> None:
    """Find the entities of texts.

    Example: spansieve predict runs/demo/model "Alain Farley works at McGill University."

    Example: spansieve predict runs/demo/model --file letters/*.txt

    Under a guarantee, JSON lines say which promise they are under; of other forms standard error does.
    """
    form = as_ or _form(output)
    phrases, fixed = _phrases_and_files(require)
    options = ConstraintOptions.parsed(phrases, forbid, threshold)
    is_only_fixed = fixed and not (texts or file)
    free = iter(()) if is_only_fixed else records_of_arguments(texts or (), file or (), whole, text_column)
    if guarantee is not None and (options or fixed):
        raise typer.BadParameter("--guarantee is of what the model decides alone: leave out thresholds and constraints")
    predictor = load_predictor(model, device, settings, guarantee)
    given: Iterator[tuple[Record, bool]]  # each with whether it has constraints of its own
    given = chain(zip(free, repeat(False)), zip(chain.from_iterable(map(json_lines, fixed)), repeat(True)))
    constraints = None
    if options or fixed:
        given, to_constrain = tee(given)  # read side by side, so that a chunk of the records is held and no more
        constraints = options.constraints(to_constrain, predictor, sentences)
    records = (record for record, _ in given)
    if predictor.promise is not None and form != "jsonl":
        _note(f"under the guarantee {predictor.promise.describe()}")
    with opened(output) as target:
        if form == "conll":
            found = partial(predictor.examples, sentences=sentences, constraints=constraints)
            _write_conll(target, records, found)
            return
        shown, of_texts = tee(records)
        stream = predictor.stream((record["text"] for record in of_texts), sentences=sentences, constraints=constraints)
        predicted = ((record, entities) for record, (_, entities) in zip(shown, stream))
        if form == "text":
            _write_text(target, predicted, predictor.labels)
        elif form == "jsonl":
            _write_lines(target, predicted, predictor.promise)
        else:
            _write_table(target, predicted, "\t" if form == "tsv" else ",")


def _form(output: Path | None) -> Form:
    """The form that an output gets by its name; a terminal gets highlighted text."""
    if output is None or not output.suffix:
        return "text" if output is None and sys.stdout.isatty() else "jsonl"
    if output.suffix.lower() not in SUFFIXES:
        raise ValueError(f"--output must end in {', '.join(SUFFIXES)}, or --as be given, got {output}")
    return SUFFIXES[output.suffix.lower()]


def _write_lines(target: IO[str], predicted: Iterable[tuple[Record, list[Entity]]], promise: Promise | None) -> None:
    also = {} if promise is None else {"guarantee": promise.shown()}
    for record, entities in predicted:
        found = [entity._asdict() for entity in entities]
        target.write(json_line({**without_annotation(record), "entities": found, **also}))
        target.flush()


def _write_table(target: IO[str], predicted: Iterable[tuple[Record, list[Entity]]], separator: str) -> None:
    """Write a row per entity, with the text and what came with it in each; for a text without entities, one row."""
    from spansieve.data.formats.tables import ENTITY_COLUMNS, entity_rows

    writer = csv.writer(target, delimiter=separator, lineterminator="\n")
    names: list[str] | None = None
    left_out: set[str] = set()
    for number, (record, entities) in enumerate(predicted):
        record = {"doc": number, **record}
        if names is None:
            names = [n for n in record if not isinstance(record[n], (list, dict)) and n not in ENTITY_COLUMNS]
            writer.writerow((*names, *ENTITY_COLUMNS))
        left_out |= without_annotation(record).keys() - set(names)
        writer.writerows((*(record.get(name) for name in names), *cells) for cells in entity_rows(entities))
    if left_out:
        message = f"not in the table, since it has the columns of the first text: {', '.join(sorted(left_out))}"
        _note(f"{message}; --as jsonl has them")


def _write_text(target: IO[str], predicted: Iterable[tuple[Record, list[Entity]]], labels: tuple[str, ...]) -> None:
    """Write highlighted text, that of a file below the file's name."""
    from spansieve.cli.outputs import Console, highlighted

    console = Console(file=target)
    name = None
    for record, entities in predicted:
        if record.get("file") != name:
            name = record.get("file")
            console.print(f"{name}:", style="dim", markup=False)
        console.print(highlighted(record["text"], entities, labels))


def _write_conll(
    target: IO[str], records: Iterable[Record], found: Callable[[Iterator[str]], Iterator[Example]]
) -> None:
    """Write tokens and tags, those of a file below a comment with the file's name, as CoNLL-U has it."""
    from spansieve.data.overlap_resolution import flat

    lost = 0
    for file, group in groupby(records, key=lambda record: record.get("file")):
        if file is not None:
            target.write(f"# newdoc id = {file}\n")
        for example, dropped in map(flat, found(record["text"] for record in group)):
            lost += len(dropped)
            tags = tags_of_segments(example.segments, len(example), "BIO")
            target.write("".join(f"{token} {tag}\n" for token, tag in zip(example.tokens, tags)) + "\n")
    if lost:
        _note(f"{lost:,} entities within others left out, since tags are flat; --as jsonl has them")


def _note(message: str) -> None:
    from spansieve.cli.outputs import Console

    Console(stderr=True).print(message, markup=False)


# ---- Constraints on the entities -------------------------------------------------------------------------------------


class ConstraintOptions(NamedTuple):
    """The constraints of a command line, not yet checked against a model's labels."""

    required: dict[str, str | None]
    forbidden: dict[str, str | None]
    banned: list[tuple[str, str]]
    thresholds: dict[str, float]  # by label; that of all labels under ""

    def __bool__(self) -> bool:
        return any(self)

    @classmethod
    def parsed(cls, require: Values, forbid: Values, threshold: Values) -> ConstraintOptions:
        """Parse the values of `--require`, `--forbid` and `--threshold`."""
        required = dict(map(_phrase_and_label, require or ()))
        pairs = [pair for pair in map(_label_pair, forbid or ()) if pair is not None]
        phrases = [text for text in forbid or () if _label_pair(text) is None]
        return cls(required, dict(map(_phrase_and_label, phrases)), pairs, dict(map(_threshold, threshold or ())))

    def constraints(
        self, given: Iterable[tuple[Record, bool]], predictor: TextPredictor, sentences: bool
    ) -> Iterator[Constraints]:
        """The constraints of each record: these, and those that a line of `--require` has itself."""
        from spansieve.decoding.constraints import Constraints

        thresholds = dict.fromkeys(predictor.labels, self.thresholds.get("", 0.0)) | self.thresholds
        thresholds = {label: value for label, value in thresholds.items() if label and value}
        required, forbidden = (Phrases(own, predictor.tokenizer) for own in (self.required, self.forbidden))
        for record, is_fixed in given:
            own = _record_constraints(record) if is_fixed else Constraints()
            tokens = sequences_of_text(record["text"], predictor.tokenizer, sentences)
            # A phrase gives way to an entity that its text requires.
            hits = required.hits(tokens)
            free = [hit for hit in hits if not any(hit[0] < one.end and one.start < hit[1] for one in own.required)]
            known = (*own.required, *((start, end, label or "") for start, end, label in _disjoint(free)))
            spans = {(start, end) for start, end, _ in known}
            others = [hit for hit in forbidden.hits(tokens) if hit[:2] not in spans]
            yield Constraints(known, (*own.forbidden, *others), own.complete, self.banned, thresholds)


class Phrases:
    """Phrases with their labels, None for any. They are cut into tokens like the text, and blanks do not count."""

    def __init__(self, labels: Mapping[str, str | None], tokenizer: Tokenizer) -> None:
        self._by_first: dict[str, list[tuple[list[str], str | None]]] = defaultdict(list)
        for phrase, label in labels.items():
            words = [token.text for tokens in sequences_of_text(phrase, tokenizer, False) for token in tokens]
            if not words:
                raise ValueError(f"a phrase must hold a token, got {phrase!r}")
            self._by_first[words[0]].append((words, label))

    def hits(self, sentences: Sequence[Sequence[Token]]) -> list[Hit]:
        """Find the phrases in a text, in order; they may overlap, but lie within a sentence each."""
        found: list[Hit] = []
        for tokens in sentences:
            words = [token.text for token in tokens]
            for i, word in enumerate(words):
                for phrase, label in self._by_first.get(word, ()):
                    end = i + len(phrase)
                    if words[i:end] == phrase:
                        found.append((tokens[i].start, tokens[end - 1].end, label))
        return found


def _disjoint(hits: Sequence[Hit]) -> list[Hit]:
    """Choose among phrases that overlap: those that cover the most characters stay."""
    from spansieve.crf.flat_segments import best_disjoint

    starts, ends = [hit[0] for hit in hits], [hit[1] for hit in hits]
    is_kept = best_disjoint(starts, ends, [float(end - start) for start, end in zip(starts, ends)]) if hits else ()
    return [hit for hit, kept in zip(hits, is_kept) if kept]


def _phrases_and_files(require: Values) -> tuple[list[str], list[Path]]:
    """Tell the phrases of `--require` from its files of texts."""
    files = [value for value in require or () if value.endswith(JSON_SUFFIXES) or _phrase_and_label(value)[1] is None]
    try:
        return [value for value in require or () if value not in files], text_files(files)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; --require takes 'Acme Inc.=ORG', or texts as JSON lines") from error


def _phrase_and_label(text: str) -> tuple[str, str | None]:
    """Split a phrase from its label.

    >>> _phrase_and_label("E=mc²=PHYSICS"), _phrase_and_label("Acme Inc.")
    (('E=mc²', 'PHYSICS'), ('Acme Inc.', None))
    """
    phrase, sign, label = text.rpartition("=")
    return (phrase, label) if sign and phrase and label else (text, None)


def _label_pair(text: str) -> tuple[str, str] | None:
    """Split a pair of labels; a phrase has no `>` between two words.

    >>> _label_pair("PER > LOC"), _label_pair("Acme Inc."), _label_pair("a > b=LAW")
    (('PER', 'LOC'), None, None)
    """
    first, sign, second = (part.strip() for part in text.partition(">"))
    return (first, second) if sign and first and second and "=" not in second else None


def _threshold(text: str) -> tuple[str, float]:
    label, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"--threshold must be a number from 0 to 1, or LABEL=0.8, got {text!r}")
    return label.strip(), value


def _record_constraints(record: Record) -> Constraints:
    from spansieve.decoding.constraints import Constraints

    def spans(key: str) -> list[Any]:
        return [
            (span["start"], span["end"], span.get("label")) if isinstance(span, dict) else tuple(span)
            for span in record.get(key) or ()
        ]

    try:
        return Constraints(spans("entities"), spans("forbidden"), spans("complete"))
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"entities, forbidden and complete must be lists of start, end and label, in characters: {error} in the "
            f"line of {record['text'][:40]!r}"
        ) from error
