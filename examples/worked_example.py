"""The paper's sentence worked through: candidates, graph, paths and the best of them.

python examples/worked_example.py
"""

from __future__ import annotations

import math

import torch
from rich.console import Console
from rich.table import Table

from spansieve import Segment
from spansieve.crf import Candidates, FilteredSemiMarkov
from spansieve.segments import LabelSet

TOKENS = ("Alain", "Farley", "works", "at", "McGill", "University")
LABELS = LabelSet(["PER", "ORG", "LOC"])
MAX_WIDTH = 3

# Scores that a local classifier might give the spans that it does not take for null: the label, and by how much that
# beats null. All other spans are null. Two of these are mistakes, for the graph to sort out.
KEPT = {(0, 1): ("PER", 0.4), (0, 2): ("PER", 3.1), (4, 5): ("LOC", 0.9), (4, 6): ("ORG", 2.6), (5, 6): ("ORG", 0.7)}
GLOBAL = {(0, 1): 0.3, (0, 2): 2.4, (4, 5): 0.8, (4, 6): 2.9, (5, 6): 0.5}
TRANSITIONS = {("PER", "ORG"): 0.4, ("PER", "LOC"): 0.1, ("LOC", "ORG"): -0.5}


def main() -> None:
    local_scores = torch.zeros(1, len(TOKENS), MAX_WIDTH, len(LABELS))
    local_scores[..., 1:] = -4.0
    for (start, end), (label, margin) in KEPT.items():
        local_scores[0, start, end - start - 1, LABELS.id(label)] = margin
    candidates = Candidates.from_local_scores(local_scores, [len(TOKENS)])
    (nodes,) = candidates.segments()
    scores = torch.tensor([GLOBAL[node.start, node.end] for node in nodes])
    transition = torch.zeros(len(LABELS), len(LABELS))
    for (previous, following), score in TRANSITIONS.items():
        transition[LABELS.id(previous), LABELS.id(following)] = score
    distribution = FilteredSemiMarkov(candidates, scores, transition)

    console = Console()
    console.print(f"\n[bold]{' '.join(TOKENS)}[/bold]\n")
    table = Table("tokens", "candidate", "score", "probability", title="What the filter keeps")
    for node, score, marginal in zip(nodes, scores.tolist(), distribution.marginals.tolist()):
        table.add_row(f"{node.start}-{node.end}", _described(node), f"{score:.1f}", f"{marginal:.3f}")
    console.print(table)

    console.print("\n[bold]The graph[/bold]: which candidate may follow which")
    for source, target in candidates.edges(0):
        first = "[dim]start[/dim]" if source is None else _described(source)
        second = "[dim]end[/dim]" if target is None else _described(target)
        console.print(f"  {first} → {second}")

    title = "\nIts paths: the maximal sets of candidates that do not overlap"
    table = Table("path", "score", "probability", title=title)
    log_partition = float(distribution.log_partition[0])
    for path, score in distribution.top_k(10)[0]:
        probability = math.exp(score - log_partition)
        table.add_row(" → ".join(map(_described, path)), f"{score:.1f}", f"{probability:.3f}")
    console.print(table)
    console.print(f"\n[bold]Best path[/bold]: {' → '.join(map(_described, distribution.mode[0]))}\n")


def _described(segment: Segment) -> str:
    return f"{' '.join(TOKENS[segment.start : segment.end])} [cyan]{LABELS.name(segment.label)}[/cyan]"


if __name__ == "__main__":
    main()
