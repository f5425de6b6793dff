"""`python -m benchmarks bulk`: from raw text to entities with probabilities, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console


def bulk(
    model: Annotated[Path, typer.Argument(help="a model's folder")],
    data: Annotated[Path, typer.Argument(help="labelled text; of its labels no use is made")],
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cuda",
    precision: Annotated[str, typer.Option(help="of the encoder: fp32 or bf16")] = "bf16",
    workers: Annotated[int, typer.Option(help="processes that prepare text; 0: a thread")] = 12,
    batch_tokens: Annotated[int, typer.Option(help="or subwords read at once, padding included")] = 16_384,
    words: Annotated[int, typer.Option(help="how many to read; the data is repeated as often as it takes")] = 4_000_000,
    out: Annotated[Path, typer.Option(help="folder for the table")] = Path("results"),
) -> None:
    """Words per second of preparing text, of the device, of deciding, and of all of it together."""
    from benchmarks.bulk_speed import Row, Setting, run_bulk_speed
    from benchmarks.measuring import markdown_table, provenance
    from spansieve.data.formats import read_examples

    console = Console()

    def tell(row: Row) -> None:
        stage, where, rate, each = row.values()
        console.print(f"{stage:36} {where:16} {rate:>12} words/s {each:>8} µs/word", highlight=False, soft_wrap=True)

    setting = Setting(device, cast(Any, precision), workers, batch_tokens, words)
    measured = run_bulk_speed(model, read_examples(data), setting, tell)
    options = f"--device {device} --precision {precision} --workers {workers} --batch-tokens {batch_tokens}"
    options += f" --words {words}"
    lines = [
        f"# From text to entities, stage by stage, on {data.name}",
        *provenance(f"python -m benchmarks bulk MODEL {data.name} {options}", device),
        markdown_table(measured.rows),
    ]
    if measured.profile:
        console.print(measured.profile, highlight=False, soft_wrap=True, markup=False)
        lines += [f"```\n{measured.profile}\n```\n"]
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"bulk_{device}.md"
    page.write_text("\n\n".join(lines), encoding="utf-8")
    console.print(f"written to {page}")
