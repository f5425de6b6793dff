"""Why a model predicts what it predicts: its k-best readings of a sentence, and the graph of candidates.

In tokens; `analysing` has the readings in characters.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from spansieve.crf import FilteredSemiMarkov, NestedSegments
from spansieve.crf.candidates import Windows
from spansieve.data.batching import batches_of_groups
from spansieve.models.constraints import Constraints, Rules, alike, checked_constraints
from spansieve.models.deciding import decide, support_of
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import Found, Probability
from spansieve.models.local_scores import local_log_probabilities
from spansieve.models.readings import readings_of
from spansieve.models.scoring import Scored, scored_batches
from spansieve.models.tagger import Tagger
from spansieve.segments import NamedSegment, Segment

MOST_TOKENS = 2_000  # in a batch, padding included
MOST_SENTENCES = 64
LONGEST = 512  # tokens of a sentence that is explained: the k best paths are found token by token
MOST_EDGES = 4_000  # of a graph that lists them


class Candidate(NamedTuple):
    """A node of the filtered graph."""

    segment: NamedSegment
    local_score: float  # by which the filter kept it: how far its label stands above null
    local_probability: float  # that the span has this label, by the filter alone
    global_score: float  # what it adds to a path's score
    probability: float  # that it is on the path
    is_chosen: bool  # it is on the best one


class Edge(NamedTuple):
    """An edge from one candidate to another that may follow it, by their indices; None is the start or the end."""

    source: int | None
    target: int | None
    transition: float  # what the edge adds to a path's score


@dataclass(frozen=True)
class Graph:
    """The filtered graph of a sentence. A nested model chooses a set of candidates and no path: it has no edges."""

    candidates: list[Candidate]  # by (end, start)
    num_edges: int  # start and end included
    edges: list[Edge] | None  # None where there are more than MOST_EDGES


@dataclass(frozen=True)
class Explanation:
    """The explanation of one sentence: its entities, k-best readings, entropy and graph."""

    found: Found
    readings: list[Found]  # best first, each with the one probability of the whole
    entropy: float  # in nats
    graph: Graph | None  # None where it was not wanted, or the model has none


def has_graph(tagger: Tagger) -> bool:
    """True of the models that filter, nested ones included; the others look at every span, or at none."""
    return isinstance(tagger.head, FilteredHead)


def explain(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    top_k: int = 1,
    with_graph: bool = True,
    probability: Probability = "given-candidates",
    constraints: Sequence[Constraints | None] | None = None,
) -> list[Explanation]:
    """Explain each sentence: what the model finds, its `top_k` (k-best) readings, and its graph.

    A sentence may have at most LONGEST tokens. `probability` is that of what is found, as `Predictor` has it. Under
    constraints, which are in tokens, readings and graph are those that agree with what is known; thresholds hold for
    what is found alone.
    """
    rules = list(map(support_of(tagger).rules, checked_constraints(constraints, len(sentences)), sentences))
    for sentence in sentences:
        if len(sentence) > LONGEST:
            raise ValueError(f"a sentence to explain must have at most {LONGEST} tokens, got one of {len(sentence)}")
    explained: dict[int, Explanation] = {}
    was_training = tagger.training
    tagger.eval()
    try:
        with torch.no_grad():  # the k best come by gradients, which inference mode has none of
            batches = batches_of_groups(list(map(len, sentences)), alike(rules), MOST_TOKENS, MOST_SENTENCES)
            for scored in scored_batches(tagger, sentences, batches):
                those = [rules[i] for i in scored.indices]
                explained |= zip(scored.indices, _explained(tagger, scored, those, top_k, with_graph, probability))
    finally:
        tagger.train(was_training)
    return [explained[i] for i in range(len(sentences))]


def _explained(
    tagger: Tagger,
    scored: Scored,
    rules: Sequence[Rules],
    top_k: int,
    with_graph: bool,
    probability: Probability,
) -> list[Explanation]:
    distribution, segments, shares = decide(tagger, scored, rules, True, probability)
    assert shares is not None
    found = map(Found, map(tagger.named, segments), shares)
    readings = [
        [Found(tagger.named(path), [probability]) for path, probability in best]
        for best in readings_of(tagger.head, distribution, top_k)
    ]
    entropy = distribution.entropy().clamp(min=0.0).tolist()
    graphs: Sequence[Graph | None] = [None] * len(scored.indices)
    if with_graph and isinstance(distribution, (FilteredSemiMarkov, NestedSegments)):
        assert isinstance(tagger.head, FilteredHead)
        by_filter, _ = local_log_probabilities(tagger.head, scored.scores, scored.lengths)
        graphs = _graphs(tagger, distribution, segments, by_filter)
    return list(map(Explanation, found, readings, entropy, graphs))


# ---- Graphs ----------------------------------------------------------------------------------------------------------


def _graphs(
    tagger: Tagger,
    distribution: FilteredSemiMarkov | NestedSegments,
    segments: Sequence[Sequence[Segment]],
    log_by_filter: Tensor,
) -> list[Graph]:
    candidates = distribution.candidates
    place = (candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label)
    above_null = (log_by_filter - log_by_filter[..., :1])[place].tolist()
    by_filter = log_by_filter[place].exp().tolist()
    global_scores = _flat(distribution.scores, place).tolist()
    marginals = _flat(distribution.marginals, place).clamp(0.0, 1.0).tolist()
    bounds = candidates.offsets.tolist()
    transition = distribution.transition.tolist()
    windows = candidates.windows(distribution.skip) if isinstance(distribution, FilteredSemiMarkov) else None
    graphs = []
    for b, nodes in enumerate(candidates.segments()):
        low, chosen = bounds[b], set(segments[b])
        found = [
            Candidate(named, above_null[c], by_filter[c], global_scores[c], marginals[c], node in chosen)
            for c, node, named in zip(range(low, bounds[b + 1]), nodes, tagger.named(nodes))
        ]
        if windows is None:
            graphs.append(Graph(found, 0, []))
            continue
        num_edges = _count(windows, range(low, bounds[b + 1]), b)
        is_listed = num_edges <= MOST_EDGES
        edges = _edges(windows, nodes, low, b, transition) if is_listed else None
        graphs.append(Graph(found, num_edges, edges))
    return graphs


def _flat(values: Tensor, place: tuple[Tensor, ...]) -> Tensor:
    """One value per candidate, (N,), of values that are so already or dense."""
    return values if values.ndim == 1 else values[place]


def _count(windows: Windows, nodes: range, b: int) -> int:
    into = sum(windows.last[c] - windows.first[c] + windows.opens[c] for c in nodes)
    return into + windows.end_last[b] - windows.end_first[b] + windows.end_opens[b]


def _edges(windows: Windows, nodes: Sequence[Segment], low: int, b: int, transition: list[list[float]]) -> list[Edge]:
    """The edges of sentence b, whose first candidate is `low`."""
    edges: list[Edge] = []
    for target, node in enumerate(nodes):
        before = range(windows.first[low + target] - low, windows.last[low + target] - low)
        edges += [Edge(None, target, 0.0)] if windows.opens[low + target] else []
        edges += [Edge(source, target, transition[nodes[source].label][node.label]) for source in before]
    before = range(windows.end_first[b] - low, windows.end_last[b] - low)
    edges += [Edge(None, None, 0.0)] if windows.end_opens[b] else []
    return edges + [Edge(source, None, 0.0) for source in before]
