"""`spansieve redact`: text in, the same text out with its entities replaced."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from spansieve.cli.inputs import JSON_SUFFIXES, STDIN, load_predictor, text_files
from spansieve.cli.options import Device, ModelOrExport
from spansieve.cli.outputs import Console, json_line, opened
from spansieve.data.text_fields import Form

if TYPE_CHECKING:
    from spansieve.prediction.text_predictor import TextPredictor

MIN_KEY = 16  # bytes
SUFFIXES: dict[str, Form] = {".csv": "csv", ".tsv": "tsv", **dict.fromkeys(JSON_SUFFIXES, "jsonl")}

RedactedFiles = Annotated[
    list[str] | None,
    typer.Argument(help="text, .jsonl, .csv or .tsv files, or folders of them; standard input if none is given"),
]
RedactedOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="a file to write or, for several, a folder; standard output if not given"),
]
Styled = Annotated[
    Literal["label", "mask", "pseudonym"],
    typer.Option("--as", help="label: [PER]; mask: asterisks of equal length; pseudonym: [PER-5d41402a]"),
]
InputForm = Annotated[
    Form | None, typer.Option(help="how texts stand in the input, by its suffix if not given, else lines")
]
KeyFile = Annotated[
    Path | None, typer.Option(help="a file of at least 16 secret bytes: pseudonyms are the same wherever it is used")
]


def redact(
    model: ModelOrExport,
    files: RedactedFiles = None,
    output: RedactedOutput = None,
    miss: Annotated[
        float | None,
        typer.Option(help="the largest share of entity tokens to miss, as `calibrate` has promised it for this model"),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(help="replace a token that is part of an entity with this probability; --miss sets it", min=0),
    ] = 0.5,
    label: Annotated[
        list[str] | None, typer.Option(help="a label to replace, may be given several times; all if not given")
    ] = None,
    style: Styled = "label",
    key: KeyFile = None,
    form: InputForm = None,
    field: Annotated[
        list[str] | None, typer.Option(help="a field of JSON lines or a column of a table that holds text [text]")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="what was replaced, with its offsets in both texts")
    ] = None,
    device: Device = "cpu",
) -> None:
    """Replace the entities of texts, and what may be one; every other byte stays as it is.

    Standard input is answered line by line. With --miss the model's guarantee decides how much is replaced. Nothing of
    the text is in the report, in messages or in temporary files.

    Example: spansieve redact runs/demo/model < letter.txt > redacted.txt

    Example: spansieve redact runs/demo/model mails.csv --field body --as pseudonym -o redacted.csv
    """
    from spansieve.prediction.redaction import Redactor, redact_stream

    sources = text_files(files or [str(STDIN)])
    targets = _targets(sources, output, is_folder=any(map(os.path.isdir, files or ())))
    secret = _key(key, style)
    predictor = load_predictor(model, device)
    limits, margin, promise = _limits(model, predictor, miss, threshold, label)
    redactor = Redactor(predictor, limits, style, secret, margin)
    counts: Counter[str] = Counter()
    with opened(report or Path(os.devnull)) as reported:
        for source, target in zip(sources, targets):
            name = "standard input" if source == STDIN else str(source)
            as_ = form or SUFFIXES.get(source.suffix.lower(), "lines")
            opened_source = nullcontext(sys.stdin.buffer) if source == STDIN else source.open("rb")
            with opened_source as stream, _written(target) as written:
                for lines in redact_stream(redactor, stream, as_, field or ["text"], name):
                    written.write(b"".join(line.raw for line in lines))
                    written.flush()  # so that a program which waits for the answer to a line has it
                    for line in lines:
                        for number, replacement in line.replacements:
                            counts[replacement.label] += 1
                            place = {"file": name, "line": line.number, "field": number}
                            reported.write(json_line({**place, **replacement._asdict()}))
    found = ", ".join(f"{count:,} {name}" for name, count in counts.most_common()) or "nothing"
    Console(stderr=True).print(escape(f"replaced: {found}; {promise}"))


def _limits(
    model: str, predictor: TextPredictor, miss: float | None, threshold: float, wanted: Sequence[str] | None
) -> tuple[float | dict[str, float], float, str]:
    """The threshold, of all labels or of those that are wanted, the margin of the filter, and what that promises."""
    for label in wanted or ():
        if label not in predictor.labels:
            raise typer.BadParameter(f"--label must be one of {', '.join(predictor.labels)}, got {label}")
    if miss is None:
        if not 0 < threshold <= 1:
            raise typer.BadParameter(f"--threshold must be above 0 and at most 1, got {threshold}")
        limits = dict.fromkeys(wanted, threshold) if wanted else threshold
        return limits, 0.0, f"threshold {threshold:g}, without a guarantee: `spansieve calibrate` and --miss give one"
    from spansieve.prediction.promises import promise_for

    promise = promise_for(Path(model), f"miss={miss:g}")
    promise.check(predictor.probability)
    if not wanted:
        return promise.threshold, promise.margin, promise.describe()
    missing = [label for label in wanted if label not in promise.label_thresholds]
    if missing:
        raise typer.BadParameter(f"nothing is promised for {', '.join(missing)} alone: there was too little data")
    return {label: promise.label_thresholds[label] for label in wanted}, promise.margin, promise.describe()


# ---- Files -----------------------------------------------------------------------------------------------------------


def _key(path: Path | None, style: str) -> bytes | None:
    if path is None:
        return None
    if style != "pseudonym":
        raise typer.BadParameter("--key is for --as pseudonym")
    secret = path.read_bytes()
    if len(secret) < MIN_KEY:
        raise ValueError(f"{path} must hold at least {MIN_KEY} bytes, got {len(secret)}")
    return secret


def _targets(sources: Sequence[Path], output: Path | None, is_folder: bool) -> list[Path | None]:
    """Where each file is written: those of a folder, and several, go into one, under the paths that they have below
    what they share."""
    if len(sources) == 1 and not is_folder:
        if output is not None and output.is_dir():
            raise IsADirectoryError(f"--output must be a file, got the folder {output}")
        if output is not None and not output.parent.is_dir():
            raise FileNotFoundError(f"--output must be in a folder that exists, got {output}")
        return [output]
    if output is None or (output.exists() and not output.is_dir()):
        raise typer.BadParameter(f"--output must be a folder, for {len(sources)} files, got {output}")
    if STDIN in sources:
        raise typer.BadParameter("standard input is redacted by itself, to standard output or a file")
    shared = Path(os.path.commonpath([source.resolve().parent for source in sources]))
    return [output / source.resolve().relative_to(shared) for source in sources]


@contextmanager
def _written(target: Path | None) -> Iterator[IO[bytes]]:
    """Open what is written: standard output at once, a file when it is whole."""
    if target is None or (target.exists() and not target.is_file()):  # such as a pipe
        with nullcontext(sys.stdout.buffer) if target is None else target.open("wb") as stream:
            yield stream
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    try:
        with new.open("wb") as stream:
            yield stream
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
