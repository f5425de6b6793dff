"""`python -m benchmarks active-learning`: what labelling the unsure sentences first is worth."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spansieve.config import parsed_setting


def active_learning(
    pool: Annotated[Path, typer.Argument(help="labelled data to choose from")],
    dev: Annotated[Path, typer.Argument(help="development data")],
    test: Annotated[Path, typer.Argument(help="test data")],
    folder: Annotated[Path, typer.Option("--folder", help="where a round trains; nothing is left there")],
    most: Annotated[int, typer.Option(help="sentences of the pool, drawn once by chance")] = 5_000,
    most_dev: Annotated[int, typer.Option(help="sentences of dev, drawn likewise")] = 300,
    size: Annotated[list[int] | None, typer.Option(help="labelled sentences; 100, 200 … 1600 if not given")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="0 and 1 if not given")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any setting, such as training.epochs=8")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table, the CSV and the plot")] = Path("results"),
) -> None:
    """F1 against labelled sentences, by chance and by what the model is unsure of; on the CPU."""
    from benchmarks.active_learning import (
        SIZES,
        curve_rows,
        plot_curves,
        rows_by_tokens,
        run_active_learning,
    )
    from benchmarks.fitting import Splits, drawn
    from benchmarks.measuring import markdown_table, provenance, write_csv
    from spansieve.cli.inputs import read_with_warnings

    console = Console()
    read = [read_with_warnings(path, None, console) for path in (pool, dev, test)]
    splits = Splits(drawn(read[0], most), drawn(read[1], most_dev), tuple(read[2]))
    wanted = dict(map(parsed_setting, settings or []))
    rounds = run_active_learning(
        splits, folder, size or SIZES, seeds=seed or (0, 1), settings=wanted, seen=lambda one: console.print(one)
    )
    flags = f" --most {most} --most-dev {most_dev}"
    flags += "".join(f" --size {one}" for one in size or ()) + "".join(f" --seed {one}" for one in seed or ())
    flags += "".join(f" --set {setting}" for setting in settings or ())
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "active_learning_cpu.csv", [asdict(one) for one in rounds])
    plot_curves(rounds, out / "active_learning_cpu.png")
    lines = [
        f"# Labelling what the model is unsure of: {test.parent.name}",
        *provenance(f"python -m benchmarks active-learning POOL DEV TEST --folder RUNS{flags}", "cpu"),
        f"From a pool of {len(splits.train):,} sentences the first {rounds[0].sentences} are drawn by chance; then, "
        "round by round, further ones by chance, or those of which the model of the round before is least sure: the "
        "entropy of its filter's labels, summed over the spans of a sentence, or divided by its tokens. Gold is the "
        "annotator. The built-in encoder is trained from scratch in every round; the best epoch on "
        f"{len(splits.dev)} dev sentences is scored on the {len(splits.test):,} sentences of test, which nothing is "
        "chosen by.",
        "![curves](active_learning_cpu.png)",
        markdown_table(curve_rows(rounds)),
        "Who is unsure of long sentences asks for more tokens. Test F1 for as many labelled *tokens* as are read in "
        "random order, between two rounds on a line over the logarithm of the tokens:",
        markdown_table(rows_by_tokens(rounds)),
    ]
    page = out / "active_learning_cpu.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {page}")
