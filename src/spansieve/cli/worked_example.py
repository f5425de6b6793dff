"""The paper's sentence, worked through: from local scores to candidates, graph and best path."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spansieve.crf import Candidates, FilteredSemiMarkov
from spansieve.labels import LabelSet
from spansieve.segments import Segment

TOKENS = ("Alain", "Farley", "works", "at", "McGill", "University")
LABELS = LabelSet(["PER", "ORG", "LOC"])
MAX_WIDTH = 3

# Scores that a local classifier might give the spans that it does not take for null: the label, and by how much that
# beats null. All other spans are null. Two of these are mistakes, for the graph to sort out.
KEPT = {(0, 1): ("PER", 0.4), (0, 2): ("PER", 3.1), (4, 5): ("LOC", 0.9), (4, 6): ("ORG", 2.6), (5, 6): ("ORG", 0.7)}
GLOBAL = {(0, 1): 0.3, (0, 2): 2.4, (4, 5): 0.8, (4, 6): 2.9, (5, 6): 0.5}
TRANSITIONS = {("PER", "ORG"): 0.4, ("PER", "LOC"): 0.1, ("LOC", "ORG"): -0.5}


@dataclass(frozen=True)
class WorkedExample:
    tokens: tuple[str, ...]
    labels: LabelSet
    candidates: tuple[Segment, ...]
    edges: list[tuple[Segment | None, Segment | None]]
    ranked: list[tuple[tuple[Segment, ...], float]]
    best: tuple[Segment, ...]
    log_partition: float
    marginals: dict[Segment, float]
    scores: dict[Segment, float]

    def text(self, segment: Segment) -> str:
        return " ".join(self.tokens[segment.start : segment.end])


def worked_example() -> WorkedExample:
    """Work through the paper's sentence. Only the scores are given, as a trained model would; all else is computed."""
    local_scores = torch.zeros(1, len(TOKENS), MAX_WIDTH, len(LABELS))
    local_scores[..., 1:] = -4.0
    for (start, end), (name, margin) in KEPT.items():
        local_scores[0, start, end - start - 1, LABELS.id(name)] = margin
    candidates = Candidates.from_local_scores(local_scores, [len(TOKENS)])
    (nodes,) = candidates.segments()
    scores = torch.tensor([GLOBAL[node.start, node.end] for node in nodes])
    transition = torch.zeros(len(LABELS), len(LABELS))
    for (previous, following), score in TRANSITIONS.items():
        transition[LABELS.id(previous), LABELS.id(following)] = score
    distribution = FilteredSemiMarkov(candidates, scores, transition)
    return WorkedExample(
        TOKENS,
        LABELS,
        nodes,
        candidates.edges(0),
        distribution.top_k(10)[0],
        distribution.mode[0],
        float(distribution.log_partition[0]),
        dict(zip(nodes, distribution.marginals.tolist())),
        dict(zip(nodes, scores.tolist())),
    )
