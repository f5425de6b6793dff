"""`spansieve demo`: the filtered semi-Markov CRF on the paper's sentence."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from spansieve.segments import Segment


def demo() -> None:
    """Work through the paper's sentence: candidates, graph, paths and the best of them."""
    from spansieve.experiments.worked_example import worked_example

    example = worked_example()
    console = Console()

    def name(segment: Segment | None, otherwise: str = "") -> str:
        if segment is None:
            return f"[dim]{otherwise}[/dim]"
        return f"{example.text(segment)} [cyan]{example.labels.name(segment.label)}[/cyan]"

    console.print(f"\n[bold]{' '.join(example.tokens)}[/bold]\n")

    table = Table("tokens", "candidate", "score", "probability", title="What the filter keeps")
    for node in example.candidates:
        numbers = f"{example.scores[node]:.1f}", f"{example.marginals[node]:.3f}"
        table.add_row(f"{node.start}-{node.end}", name(node), *numbers)
    console.print(table)

    console.print("\n[bold]The graph[/bold]: who may follow whom")
    for previous, following in example.edges:
        console.print(f"  {name(previous, 'start')} → {name(following, 'end')}")

    table = Table(
        "path", "score", "probability", title="\nIts paths: the maximal sets of candidates that do not overlap"
    )
    for path, score in example.ranked:
        probability = math.exp(score - example.log_partition)
        table.add_row(" → ".join(name(segment) for segment in path), f"{score:.1f}", f"{probability:.3f}")
    console.print(table)

    console.print(f"\n[bold]Best path[/bold]: {' → '.join(name(segment) for segment in example.best)}\n")
