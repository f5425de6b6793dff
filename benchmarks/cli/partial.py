"""`python -m benchmarks partial`: what it is worth to say that something is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spansieve.config import parsed_setting


def partial(
    train: Annotated[Path | None, typer.Argument(help="training data; the sample corpus if not given")] = None,
    dev: Annotated[Path | None, typer.Argument(help="development data")] = None,
    test: Annotated[Path | None, typer.Argument(help="test data")] = None,
    folder: Annotated[Path, typer.Option("--folder", help="where a run trains; nothing is left there")] = Path("runs"),
    most: Annotated[int, typer.Option(help="sentences of the training data, drawn once by chance")] = 1_000,
    most_dev: Annotated[int, typer.Option(help="sentences of dev, drawn likewise")] = 300,
    head: Annotated[list[str] | None, typer.Option(help="a head; fsemicrf, crf and semicrf if none")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="0 if none")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any setting, such as training.epochs=8")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("results"),
) -> None:
    """Half of the annotation hidden: trained as if nothing were there, on what is known, and on all; on the CPU."""
    from benchmarks.fitting import Splits, drawn
    from benchmarks.measuring import markdown_table, provenance
    from benchmarks.partial import HEADS, partial_row, run_partial
    from spansieve.cli.inputs import read_with_warnings
    from spansieve.data.sample import sample_corpus

    console = Console()
    if train is not None and dev is not None and test is not None:
        read = [read_with_warnings(path, None, console) for path in (train, dev, test)]
        name, arguments = test.parent.name, " TRAIN DEV TEST"
    elif train is dev is test is None:
        read = [list(split) for split in sample_corpus()]
        name, arguments = "the sample corpus", ""
    else:
        raise typer.BadParameter("TRAIN, DEV and TEST must be given together, or none of them")
    unknown = set(head or ()) - set(HEADS)
    if unknown:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {unknown.pop()!r}")
    heads = [one for one in HEADS if not head or one in head]
    splits = Splits(drawn(read[0], most), drawn(read[1], most_dev), tuple(read[2]))
    wanted = dict(map(parsed_setting, settings or []))
    runs = run_partial(splits, folder, heads, seed or (0,), wanted, lambda run: console.print(partial_row(run)))
    flags = f" --most {most} --most-dev {most_dev}" + "".join(f" --head {one}" for one in head or ())
    flags += "".join(f" --seed {one}" for one in seed or ()) + "".join(f" --set {one}" for one in settings or ())
    lines = [
        f"# Training on half of the annotation: {name}",
        *provenance(f"python -m benchmarks partial{arguments} --folder RUNS{flags}", "cpu"),
        f"{len(splits.train):,} training sentences; about half of their tokens hidden, in ranges of a few. *as null*: "
        "trained as if there were no entities in what is hidden; *unknown*: on the probability of all that agrees with "
        "what is shown; *all*: nothing hidden. Exact match on test.",
        markdown_table([partial_row(run) for run in runs]),
    ]
    out.mkdir(parents=True, exist_ok=True)
    page = out / "partial_cpu.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {page}")
