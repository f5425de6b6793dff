"""`spansieve example`: the filtered semi-Markov CRF on the paper's sentence."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from spansieve.segments import Segment


def example() -> None:
    """Work through the paper's sentence: candidates, graph, paths and the best of them."""
    from spansieve.cli.worked_example import worked_example

    shown = worked_example()
    console = Console()

    def name(segment: Segment | None, otherwise: str = "") -> str:
        if segment is None:
            return f"[dim]{otherwise}[/dim]"
        return f"{shown.text(segment)} [cyan]{shown.labels.name(segment.label)}[/cyan]"

    console.print(f"\n[bold]{' '.join(shown.tokens)}[/bold]\n")

    table = Table("tokens", "candidate", "score", "probability", title="What the filter keeps")
    for node in shown.candidates:
        numbers = f"{shown.scores[node]:.1f}", f"{shown.marginals[node]:.3f}"
        table.add_row(f"{node.start}-{node.end}", name(node), *numbers)
    console.print(table)

    console.print("\n[bold]The graph[/bold]: which candidate may follow which")
    for previous, following in shown.edges:
        console.print(f"  {name(previous, 'start')} → {name(following, 'end')}")

    table = Table(
        "path", "score", "probability", title="\nIts paths: the maximal sets of candidates that do not overlap"
    )
    for path, score in shown.ranked:
        probability = math.exp(score - shown.log_partition)
        table.add_row(" → ".join(name(segment) for segment in path), f"{score:.1f}", f"{probability:.3f}")
    console.print(table)

    console.print(f"\n[bold]Best path[/bold]: {' → '.join(name(segment) for segment in shown.best)}\n")
