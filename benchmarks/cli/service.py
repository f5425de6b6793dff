"""`python -m benchmarks service`: how the service bears many clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.cli.typed import typed_options


def service(
    model: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    clients: Annotated[int, typer.Option(min=1, help="how many ask at once")] = 32,
    seconds: Annotated[float, typer.Option(min=1, help="for how long")] = 60.0,
    requests: Annotated[int, typer.Option(min=1, help="at least so many, to see what memory it takes")] = 10_000,
    threads: Annotated[int | None, typer.Option(min=1, help="of the model; all processors but one if not set")] = None,
    out: Annotated[Path, typer.Option(help="folder for the table, the CSV and the plot")] = Path("results"),
) -> None:
    """Waits, requests per second and memory of the service with many clients at once, on this machine."""
    from benchmarks.measuring import markdown_table, provenance, write_csv
    from benchmarks.service_load import plot_load, run_service_load

    console = Console()
    load = run_service_load(model, clients, seconds, requests, threads)
    row = load.row()
    for name, value in row.items():
        console.print(f"{name:>18}  {value}", highlight=False)
    options = typed_options(service, clients=clients, seconds=seconds, requests=requests, threads=threads)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "service_cpu.csv", [row])
    plot_load(load, out / "service_cpu.png")
    lines = [
        f"# The service with {clients} clients at once",
        *provenance(f"python -m benchmarks service MODEL{options}", "cpu"),
        "Requests of one text of one to four sentences, sent without pause; the clients share the machine.",
        markdown_table([{"": name, "seen": value} for name, value in row.items()]),
        "![waits and memory](service_cpu.png)",
    ]
    (out / "service_cpu.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    console.print(f"written to {out / 'service_cpu'}.md")
