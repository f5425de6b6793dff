"""`python -m benchmarks nested` and `nested-speed`: nested entities, how well they are found and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.cli.typed import typed_options
from spansieve.config import parsed_setting


def nested(
    train: Annotated[Path, typer.Argument(help="training data with nested entities")],
    dev: Annotated[Path, typer.Argument(help="development data")],
    test: Annotated[Path, typer.Argument(help="test data")],
    folder: Annotated[Path, typer.Option("--folder", help="where the runs go, one folder for each model")],
    sentences: Annotated[int | None, typer.Option(help="so many of the first training sentences; all if not")] = None,
    head: Annotated[list[str] | None, typer.Option(help="a head to train; the two nested and two flat if none")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any setting, such as training.epochs=8")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("results"),
) -> None:
    """Nested models beside flat ones on one corpus: F1 of all, outer and inner entities."""
    from benchmarks.fitting import Splits
    from benchmarks.measuring import markdown_table, provenance
    from benchmarks.nested import HEADS, flat_ceiling, nested_row, run_nested
    from spansieve.cli.inputs import read_with_warnings

    console = Console()
    unknown = set(head or ()) - set(HEADS)
    if unknown:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {unknown.pop()!r}")
    chosen = [name for name in HEADS if not head or name in head]
    read = [read_with_warnings(path, None, console) for path in (train, dev, test)]
    splits = Splits(*map(tuple, (read[0][:sentences], *read[1:])))
    wanted = dict(map(parsed_setting, settings or []))
    runs = run_nested(splits, folder, chosen, wanted, device == "cpu", lambda run: console.print(nested_row(run)))
    flags = f" --sentences {sentences}" if sentences else ""
    flags += "".join(f" --head {name}" for name in head or ()) + "".join(f" --set {one}" for one in settings or ())
    command = f"python -m benchmarks nested TRAIN DEV TEST --folder RUNS --device {device}{flags}"
    lines = [
        f"# Nested entities: {test.parent.name}",
        *provenance(command, device),
        f"{len(splits.train):,} training sentences. P and R are precision and recall on test, exact match; *lost* are "
        "training entities that a model cannot represent. A flat model that makes no mistake has an F1 of "
        f"{100 * flat_ceiling(splits.test):.2f} on all entities of test.",
        markdown_table([nested_row(run) for run in runs]),
    ]
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"nested_{test.parent.name}_{device}.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {page}")


def nested_speed(
    device: Annotated[str, typer.Option(help="cpu, on one thread, or cuda")] = "cpu",
    seconds: Annotated[float, typer.Option(help="time to spend on each contender")] = 1.0,
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("results"),
) -> None:
    """Laminar sets beside disjoint ones of the same candidates; on the CPU also how the cost grows with the length."""
    from benchmarks.growth import slopes
    from benchmarks.measuring import markdown_table, provenance
    from benchmarks.nested_speed import run_growth, run_side_by_side

    console = Console()
    rows = run_side_by_side(seconds, device)
    options = typed_options(nested_speed, seconds=seconds)
    lines = [
        "# The cost of nesting",
        *provenance(f"python -m benchmarks nested-speed --device {device}{options}", device),
        "Batch 32, widths up to 12, 5 labels, float32, one thread; contenders take turns. "
        + ("Processor time, the least of all turns." if device == "cpu" else "Medians."),
        markdown_table(rows),
    ]
    if device == "cpu":
        growth = run_growth()
        exponents = "; ".join(f"{name.removesuffix(', ms')} {slope}" for name, slope in slopes(growth).items())
        about = "Milliseconds of processor time for the batch, the best of seven."
        lines += ["## Growth with every span kept", f"{about} Log-log slopes against L: {exponents}."]
        lines += [markdown_table(growth)]
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"nested_speed_{device}.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print("\n\n".join(lines), markup=False, highlight=False)
    console.print(f"written to {page}")
