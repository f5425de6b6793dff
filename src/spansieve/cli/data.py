"""`spansieve data`, `convert` and `split`: what is in a corpus, from one format to another, and into parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from spansieve.cli.inputs import read_labelled, read_with_warnings
from spansieve.cli.options import DataFormat, JsonFile
from spansieve.cli.outputs import Console, write_json
from spansieve.cli.terminal import percent, table_of
from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import FORMATS, format_of, format_to_write, read_examples, write_examples
from spansieve.data.formats.files import annotators_in
from spansieve.data.tag_schemes import SCHEMES

if TYPE_CHECKING:
    from spansieve.data.corpus_stats import DataReport, SplitReport
    from spansieve.evaluation.agreement import AgreementReport

MAX_WIDTHS_SHOWN = 15
MAX_TEXTS_SHOWN = 10  # that annotators disagree on
FORMAT_HELP = f"one of {', '.join(FORMATS)}; detected where not given"
OPTION_HELP = "an option of the format's reader, such as tag_column=2, scheme=plain, spans=extent or split=train"
WRITABLE = ", ".join(name for name, format in FORMATS.items() if format.writer)
ReadOptions = Annotated[list[str] | None, typer.Option("--option", "-o", metavar="NAME=VALUE", help=OPTION_HELP)]


def data(
    paths: Annotated[
        list[Path],
        typer.Argument(help="files or folders, one split each, the training split first", show_default=False),
    ],
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP, show_default=False)] = None,
    max_width: Annotated[
        int | None, typer.Option(help="count the entities that a model with this max_width would lose")
    ] = None,
    option: ReadOptions = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="compare annotators of the same texts: of files, or within one file")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Report what is in a corpus.

    Sentences, entities, labels, widths, overlaps, duplicates between splits, and everything that a reader or a model
    would have to leave out.

    Example: spansieve data train.conll dev.conll test.conll --max-width 8
    """
    splits: dict[str, list[Example]] = {}
    notes: dict[str, ReaderWarnings] = {}
    for path in _files(paths, format):
        name = path.name if path.name not in splits else str(path)
        notes[name] = ReaderWarnings()
        has_annotators = agreement and (format or format_of(path)) in ("label-studio", "prodigy")
        annotators = annotators_in(path) if has_annotators else []
        for who in annotators if len(annotators) > 1 else [None]:
            options = read_options(option) | ({"annotator": who} if who else {})
            splits[who or name] = read_examples(path, format, notes[name], **options)
    if agreement:
        from spansieve.evaluation.agreement import agreement_of

        return _show_agreement(Console(), agreement_of(splits), json_file)
    from spansieve.data.corpus_stats import report_of

    report = report_of(splits, max_width, {name: noted.counts for name, noted in notes.items()})
    write_json(report, json_file)
    console = Console()
    for table in (_overview(report), _labels(report), _widths(report)):
        console.print(table)
    for line in _remarks(report):
        console.warn(line)
    _show_notes(console, {f"reading {name}": noted for name, noted in notes.items()})


def _show_agreement(console: Console, report: AgreementReport, json_file: Path | None) -> None:
    write_json(report, json_file)
    rows = [(f"{p.first}, {p.second}", f"{p.texts:,}", percent(p.f1), f"{p.kappa:.3f}") for p in report.pairs]
    console.print(table_of("", ("annotators", "texts", "span F1", "kappa of tokens"), rows))
    console.print(f"{len(report.disagreements):,} texts are not annotated alike")
    for entry in report.disagreements[:MAX_TEXTS_SHOWN]:
        own = [
            f"{name}: {', '.join(f'{e[3]} {e[2]}' for e in some) or 'none'}" for name, some in entry["entities"].items()
        ]
        console.print("; ".join(own), markup=False)


def read_options(pairs: Iterable[str] | None) -> dict[str, Any]:
    """Parse `["tag_column=2"]` into keyword arguments: numbers, true and false as such, lists at commas, else text."""
    options = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"option must be like tag_column=2, got {pair!r}")
        options[name.replace("-", "_")] = _value(value)
    return options


def _value(text: str) -> Any:
    if "," in text.strip(","):  # `separator=,` is no list
        return [_value(part) for part in text.split(",")]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _files(paths: Iterable[Path], format: str | None) -> list[Path]:
    """The paths, with a folder of no known format replaced by its files."""
    files = []
    for path in paths:
        try:
            if format is None and path.is_dir():
                format_of(path)
            files.append(path)
        except DataError:
            members = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            if not members:
                raise
            files += members
    return files


def _show_notes(console: Console, notes: dict[str, ReaderWarnings]) -> None:
    """Show what was noted while doing each of the things."""
    for doing, noted in notes.items():
        if noted:
            console.print(f"[bold]Noted while {doing}[/bold]")
            console.print(str(noted), markup=False)


def _overview(report: DataReport) -> Table:
    splits = report.splits.values()
    rows: dict[str, list[int]] = {
        "sentences": [split.sentences for split in splits],
        "tokens": [split.tokens for split in splits],
        "entities": [split.entities for split in splits],
        "labels": [len(split.labels) for split in splits],
        "sentences without entities": [split.sentences_without_entities for split in splits],
        "sentences of one token": [split.one_token_sentences for split in splits],
        "sentences without tokens": [split.empty_sentences for split in splits],
        "sentences seen before in the split": [split.repeated_sentences for split in splits],
        "pairs of entities that overlap": [split.overlapping_pairs for split in splits],
        "… one within the other": [split.nested_pairs for split in splits],
        "entities that a flat model loses": [split.lost_when_flat for split in splits],
    }
    if report.max_width is not None:
        lost = [sum(split.lost_to_max_width.values()) for split in splits]
        rows[f"entities wider than {report.max_width}"] = lost
    for name in next(iter(splits)).lengths if splits else ():
        rows[f"length of a sentence, {name}"] = [split.lengths[name] for split in splits]
    return _table("", report, {name: [f"{number:,}" for number in numbers] for name, numbers in rows.items()})


def _labels(report: DataReport) -> Table:
    splits = report.splits.values()
    labels = dict.fromkeys(label for split in splits for label in split.labels)
    return _table("label", report, {name: [f"{split.labels.get(name, 0):,}" for split in splits] for name in labels})


def _widths(report: DataReport) -> Table:
    """How many entities have each width, and the share that a max_width of it keeps."""
    splits = report.splits.values()
    widths = sorted({width for split in splits for width in split.widths})
    ranges = {str(width): (width, width) for width in widths[:MAX_WIDTHS_SHOWN]}
    if len(widths) > MAX_WIDTHS_SHOWN:
        least, most = widths[MAX_WIDTHS_SHOWN], widths[-1]
        ranges[f"{least}–{most}"] = least, most
    return _table("width", report, {name: [_share(split, *ends) for split in splits] for name, ends in ranges.items()})


def _share(split: SplitReport, least: int, most: int) -> str:
    count = sum(n for width, n in split.widths.items() if least <= width <= most)
    kept = sum(n for width, n in split.widths.items() if width <= most)
    return f"{count:,} ({100 * kept / max(split.entities, 1):.1f} %)"


def _table(first: str, report: DataReport, rows: dict[str, list[str]]) -> Table:
    return table_of("", (first, *report.splits), [(name, *cells) for name, cells in rows.items()])


def _remarks(report: DataReport) -> Iterable[str]:
    for shared in report.shared_sentences:
        yield f"{shared.count:,} sentences of {shared.second} are in {shared.first} too"
    for name, labels in report.labels_not_in_first.items():
        yield f"{name} has labels that {next(iter(report.splits))} has not: {', '.join(labels)}"
    for name, split in report.splits.items():
        if split.lost_to_max_width:
            lost = ", ".join(f"{label} {count:,}" for label, count in split.lost_to_max_width.items())
            yield f"max_width {report.max_width} would lose in {name}: {lost}"


# ---- Conversion ------------------------------------------------------------------------------------------------------


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="a file or folder", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="a file, or a folder for brat and hugging-face")],
    from_format: Annotated[str | None, typer.Option("--from", metavar="FORMAT", help=FORMAT_HELP)] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help=f"one of {WRITABLE}; by the suffix of OUT where not given"),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help=f"tags to write, where the format has them: {', '.join(SCHEMES)}")
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="drop entities that overlap a wider one")] = False,
    option: ReadOptions = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite OUT where it exists")] = False,
) -> None:
    """Convert annotated text between formats, and report what could not be carried over.

    Example: spansieve convert annotations/ train.jsonl --from brat
    """
    if target.exists() and not force:
        raise ValueError(f"OUT must not exist yet, got {target}; give --force to overwrite it")
    written = to_format or format_to_write(target)
    if not source.exists():
        raise FileNotFoundError(f"no file or folder {source}")
    console = Console()
    reading, writing = ReaderWarnings(), ReaderWarnings()
    read = from_format or format_of(source)
    examples = read_labelled(source, read, reading, **read_options(option))
    if flat:
        from spansieve.data.overlap_resolution import flat_examples

        examples, dropped = flat_examples(examples)
        writing.add("overlapping entities dropped by --flat", count=dropped)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_examples(examples, target, written, writing, **({"scheme": scheme} if scheme else {}))
    sentences, entities = len(examples), sum(len(example.segments) for example in examples)
    done = f"{sentences:,} sentences with {entities:,} entities, {read} to {written}: {target}"
    console.print(done, markup=False)
    _show_notes(console, {"reading": reading, "writing": writing})


def split(
    source: Annotated[Path, typer.Argument(metavar="DATA", help="labelled text, in any format that `data` reads")],
    into: Annotated[list[Path], typer.Option(metavar="FILE...", help="files to write, in the format of their suffix")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="further files of --into")] = None,
    fractions: Annotated[
        str | None, typer.Option(help="such as 0.8,0.1,0.1; a tenth for each file but the first if not given")
    ] = None,
    seed: Annotated[int, typer.Option(help="the same seed gives the same parts")] = 0,
    format: DataFormat = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite files that exist")] = False,
) -> None:
    """Split labelled text into files at random, without dividing documents.

    Example: spansieve split data.jsonl --into train.jsonl dev.jsonl test.jsonl --fractions 0.8,0.1,0.1
    """
    from spansieve.data.batching import described_part, split_examples

    targets = [*into, *(more or ())]
    wanted = _fractions(fractions, len(targets))
    for target in targets:
        format_to_write(target)
        if target.exists() and not force:
            raise ValueError(f"--into must name new files, got {target}, which exists; --force overwrites it")
    if len(set(targets)) < len(targets):
        raise ValueError(f"--into must name different files, got {', '.join(map(str, targets))}")
    console = Console()
    parts = split_examples(read_with_warnings(source, format, console), wanted, seed)
    for target, part in zip(targets, parts):
        target.parent.mkdir(parents=True, exist_ok=True)
        notes = ReaderWarnings()
        write_examples(part, target, warnings=notes)
        line = "; ".join([described_part(str(target), part), *str(notes).splitlines()])
        console.print(line, markup=False)


def _fractions(text: str | None, parts: int) -> list[float]:
    if text is None:
        return [1 - 0.1 * (parts - 1), *[0.1] * (parts - 1)]
    try:
        fractions = [float(part) for part in text.split(",")]
    except ValueError:
        fractions = []
    if len(fractions) != parts:
        raise ValueError(f"--fractions must be {parts} numbers like 0.9,0.1, one for each file of --into, got {text!r}")
    return fractions
