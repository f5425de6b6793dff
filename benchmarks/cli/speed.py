"""The commands `core`, `training-speed` and `tagging`: what things cost, measured side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.cli.typed import typed_options


def core(
    device: Annotated[str, typer.Option(help="cpu, on one thread, or cuda")] = "cpu",
    out: Annotated[Path, typer.Option(help="folder for the table, the CSV and the plot")] = Path("results"),
    seconds: Annotated[float, typer.Option(help="time to spend on each contender")] = 2.0,
    peers: Annotated[
        bool, typer.Option(help="run pytorch-crf, torch-struct and flash-semicrf too, where installed")
    ] = True,
    growth: Annotated[bool, typer.Option(help="also measure growth with the length, every span kept (CPU)")] = True,
) -> None:
    """Best paths, log Z and gradients of our models and the peers' on the same batch."""
    from benchmarks import core_benchmark

    if device not in ("cpu", "cuda"):
        raise typer.BadParameter(f"device must be cpu or cuda, got {device!r}")
    options = typed_options(core, seconds=seconds, peers=peers)
    command = f"python -m benchmarks core --device {device}{options}"
    console = Console()
    if device == "cuda":
        rows = core_benchmark.run_on_gpu(seconds, with_peers=peers)
        targets = core_benchmark.limit_rows(rows)
        title = "Core on a GPU: batch 32, L = 128, K = 12"
    else:
        rows = core_benchmark.run_on_cpu(seconds, with_peers=peers)
        targets = core_benchmark.target_rows(rows)
        title = "Core on one CPU thread: batch 32, L = 32, K = 12"
    page = core_benchmark.write_results(rows, targets, out, title, command, device)
    _show(console, rows)
    if targets:
        _show(console, targets)
    console.print(f"written to {page}")
    if growth and device == "cpu":
        _growth(console, out, command)


def training_speed(
    encoder: Annotated[str, typer.Argument(help="a Hugging Face encoder's name or folder, or builtin")],
    data: Annotated[Path | None, typer.Option(help="training data; the sample corpus if not given")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cuda",
    batch: Annotated[list[int] | None, typer.Option(help="sentences in a batch; 8 and 32 if not given")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table and the CSV")] = Path("results"),
) -> None:
    """Whole training steps of our models, of a token softmax and of pytorch-crf on one encoder."""
    from benchmarks.throughput import run_throughput
    from spansieve.data.formats import read_examples
    from spansieve.data.sample import sample_corpus

    examples = sample_corpus().train if data is None else read_examples(data)
    rows = run_throughput(encoder, examples, batch or [8, 32], device)
    name = Path(encoder).name
    options = ("" if data is None else f" --data {data.name}") + typed_options(training_speed, batch=batch)
    command = f"python -m benchmarks training-speed {name} --device {device}{options}"
    _write(rows, out, f"throughput_{name}_{device}", f"Training steps on {name}", command, device)


def tagging(
    model: Annotated[Path, typer.Argument(help="a model's folder")],
    data: Annotated[Path, typer.Argument(help="labelled text")],
    spacy: Annotated[Path | None, typer.Option(help="the folder of a spaCy pipeline with an ner component")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table and the CSV")] = Path("results"),
) -> None:
    """Words per second of a trained model on one CPU thread, beside spaCy."""
    from benchmarks.tagging_speed import run_tagging_speed
    from spansieve.data.formats import read_examples

    rows = run_tagging_speed(model, read_examples(data), spacy)
    command = f"python -m benchmarks tagging MODEL {data.name}{' --spacy PIPELINE' if spacy else ''}"
    _write(rows, out, "tagging_cpu", f"Tagging {data.name} on one CPU thread", command, "cpu")


def _write(rows: list[dict[str, object]], out: Path, stem: str, title: str, command: str, device: str) -> None:
    from benchmarks.measuring import markdown_table, provenance, write_csv

    console = Console()
    _show(console, rows)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / f"{stem}.csv", rows)
    lines = [f"# {title}", *provenance(command, device), markdown_table(rows)]
    (out / f"{stem}.md").write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {out / stem}.md")


def _growth(console: Console, out: Path, command: str) -> None:
    from benchmarks.growth import plot_growth, run_growth, slopes
    from benchmarks.measuring import markdown_table, provenance, write_csv

    rows = run_growth()
    _show(console, rows)
    exponents = ", ".join(f"{name.split(',')[0]} {slope}" for name, slope in slopes(rows).items())
    console.print(f"log-log slopes: {exponents}")
    write_csv(out / "core_growth.csv", rows)
    plot_growth(rows, out / "core_growth.png")
    lines = [
        "# Growth with every span kept",
        *provenance(command, "cpu"),
        "Batch 32, K = 12, Y = 5, one thread; the best of seven runs, each length in a process of its own.",
    ]
    lines += [f"Log-log slopes: {exponents}.", "![growth](core_growth.png)", markdown_table(rows)]
    (out / "core_growth.md").write_text("\n\n".join(lines), encoding="utf-8")


def _show(console: Console, rows: list[dict]) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) and x < 1 else str(x) for x in row.values()))
    console.print(table)
