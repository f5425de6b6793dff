"""`python -m benchmarks chunking`: the models on text chunks, which cover nearly every token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spansieve.config import parsed_setting


def chunking(
    train: Annotated[Path, typer.Argument(help="training data")],
    dev: Annotated[Path, typer.Argument(help="development data")],
    test: Annotated[Path, typer.Argument(help="test data")],
    folder: Annotated[Path, typer.Option("--folder", help="where the runs go, one folder for each model")],
    head: Annotated[list[str] | None, typer.Option(help="a head to train; four of them if none")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any setting, such as training.epochs=8")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("results"),
) -> None:
    """FSemiCRF, CRF and Semi-CRF on a corpus of chunks, with the built-in encoder, on the CPU."""
    from benchmarks.chunking import HEADS, chunking_row, covered, label_rows, run_chunking
    from benchmarks.fitting import Splits
    from benchmarks.measuring import markdown_table, provenance
    from spansieve.cli.inputs import read_with_warnings

    console = Console()
    unknown = set(head or ()) - set(HEADS)
    if unknown:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {unknown.pop()!r}")
    chosen = [name for name in HEADS if not head or name in head]
    splits = Splits(*(tuple(read_with_warnings(path, None, console)) for path in (train, dev, test)))
    wanted = dict(map(parsed_setting, settings or []))
    runs = run_chunking(splits, folder, chosen, wanted, lambda run: console.print(chunking_row(run)))
    flags = "".join(f" --head {name}" for name in head or ()) + "".join(f" --set {one}" for one in settings or ())
    lines = [
        f"# Chunking: {test.parent.name}",
        *provenance(f"python -m benchmarks chunking TRAIN DEV TEST --folder RUNS{flags}", "cpu"),
        f"{len(splits.train):,} training sentences; {100 * covered(splits.test):.1f} % of the tokens of test are in a "
        "chunk. Preset `builtin`, one seed, nothing pretrained. Exact match on test; *lost* are training chunks wider "
        "than the widest segment of a model. Minutes are those of training, dev scored included.",
        markdown_table([chunking_row(run) for run in runs]),
        "## F1 by label",
        markdown_table(label_rows(runs)),
    ]
    out.mkdir(parents=True, exist_ok=True)
    page = out / "chunking_cpu.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {page}")
