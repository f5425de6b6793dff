"""How sure a model is of whole sentences, and why: k-best alternatives, entropy, and the graph of candidates.

Given the candidates, where the model filters: what the filter left out has no probability at all.

Axes: B sentences, L tokens, K widths, Y labels, N candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from spansieve.crf import Distribution, FilteredSemiMarkov, NestedSegments, SemiMarkov, given
from spansieve.crf.candidates import Windows, span_ends
from spansieve.decoding.constraints import Constraints, Rules, checked_constraints
from spansieve.decoding.coverage import Decision
from spansieve.decoding.prediction import Candidate, Edge, Explanation, Graph, KBest, Probability, Wanted
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import Head
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import Scored, predict_segments
from spansieve.segments import Segment

Entities = tuple[Segment, ...]
OVERSAMPLED = 8  # where many structures have the same entities, so many times as many are looked at
MAX_EDGES = 4_000  # of a graph that lists them
Extras = tuple[tuple[KBest, ...], float, Graph | None, float]  # the fields of an Explanation beside the prediction
OF_EMPTY: Extras = ((KBest([], 1.0),), 0.0, None, 0.0)  # of a sentence without tokens


def explain(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    wanted: Sequence[Wanted | None],
    probability: Probability = "given-candidates",
    constraints: Sequence[Constraints | None] | None = None,
    batch_tokens: int | None = None,
    decision: Decision | None = None,
) -> list[Explanation]:
    """Predict sentences, and of each compute what is wanted; None: the prediction alone, which is the same either way.

    Under constraints, which are in tokens, alternatives and graph are those that agree with what is known; thresholds
    hold for the prediction alone.
    """
    for want in wanted:
        if want is not None and want.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {want.top_k}")
    given_constraints = checked_constraints(constraints, len(sentences))
    support = tagger.head.decoder_settings.support(tagger.labels)
    extras: dict[int, Extras] = {}

    def on_batch(indices: Sequence[int], scored: Scored) -> None:
        rows = [row for row, i in enumerate(indices) if wanted[i] is not None]
        if not rows:
            return
        own = [indices[row] for row in rows]
        rules = [support.rules(given_constraints[i], sentences[i]) for i in own]
        part = scored if len(rows) == len(indices) else selected(scored, rows)
        extras.update(zip(own, _extras(tagger, part, rules, [wanted[i] or Wanted() for i in own])))

    hook = on_batch if any(want is not None for want in wanted) else None
    options = (batch_tokens, probability, constraints, None, decision)
    predictions = predict_segments(tagger, sentences, True, hook, *options)
    return [
        Explanation(prediction) if want is None else Explanation(prediction, *extras.get(i, OF_EMPTY))
        for i, (prediction, want) in enumerate(zip(predictions, wanted))
    ]


def selected(scored: Scored, rows: Sequence[int]) -> Scored:
    """Return some sentences of a batch, cut to the longest of them."""
    lengths = scored.lengths[list(rows)]
    longest = int(lengths.max())
    return Scored(tuple(part[list(rows), :longest] for part in scored.scores), lengths)


def _extras(tagger: Tagger, scored: Scored, rules: Sequence[Rules], wanted: Sequence[Wanted]) -> list[Extras]:
    head = tagger.head
    distribution = head.distribution_of(*scored)
    if any(rule.is_knowledge for rule in rules):
        tags = head.tags if isinstance(head, CRF) else None
        distribution = given(distribution, [rule.known for rule in rules], rules[0].banned, tags=tags)
    best = k_best(head, distribution, max(want.top_k for want in wanted))
    entropy = distribution.entropy().clamp(min=0.0).tolist()
    graphs: Sequence[Graph | None] = [None] * len(wanted)
    filter_entropy = [0.0] * len(wanted)
    if isinstance(head, FilteredHead):
        by_filter = head.local_log_probabilities(scored.scores)
        if any(want.graph for want in wanted):
            graphs = _graphs(tagger, distribution, by_filter)
        if any(want.filter_entropy for want in wanted):
            filter_entropy = _filter_entropy(by_filter, scored.lengths)
    return [
        (
            tuple(KBest(tagger.named(entities), probability) for entities, probability in sets[: want.top_k]),
            nats,
            graph if want.graph else None,
            filter_nats,
        )
        for sets, nats, graph, filter_nats, want in zip(best, entropy, graphs, filter_entropy, wanted)
    ]


def _filter_entropy(log_probability: Tensor, lengths: Tensor) -> list[float]:
    """Return the entropy of the label of each span by the filter alone, in nats, summed over the spans, (B,)."""
    entropy = -(log_probability.exp() * log_probability).sum(-1)  # (B, L, K)
    is_span = span_ends(log_probability) <= lengths[:, None, None]
    return entropy.masked_fill(~is_span, 0.0).sum((1, 2)).tolist()


# ---- The k best ------------------------------------------------------------------------------------------------------


def k_best(head: Head, distribution: Distribution, k: int) -> list[list[tuple[Entities, float]]]:
    """Find the k best sets of entities of each sentence, best first, with the probability of exactly this set. A
    semi-CRF whose null segments may be wide cuts what is no entity in many ways, which count as one set; it may then
    have fewer than k to show."""
    if isinstance(distribution, SemiMarkov) and bool((distribution.scores[:, :, 1:, 0] > -torch.inf).any()):
        return _merged(head, distribution, k)
    if k == 1:
        best = [[(mode, score)] for mode, score in zip(distribution.mode, distribution.max_score.tolist())]
    else:
        best = distribution.top_k(k)
    totals = distribution.log_partition.tolist()
    return [
        [(head.entities(structure), min(1.0, math.exp(score - total))) for structure, score in structures]
        for structures, total in zip(best, totals)
    ]


def _merged(head: Head, distribution: SemiMarkov, k: int) -> list[list[tuple[Entities, float]]]:
    structures = [[s for s, _ in best] for best in distribution.top_k(OVERSAMPLED * k)]
    distinct = [list(dict.fromkeys(map(head.entities, best))) for best in structures]
    ranks = max(map(len, distinct), default=0)
    columns = [[sets[min(rank, len(sets) - 1)] for sets in distinct] for rank in range(ranks)]
    by_rank = [_log_probability(distribution, column).exp().clamp(max=1.0).tolist() for column in columns]
    merged = [[(sets[rank], by_rank[rank][b]) for rank in range(len(sets))] for b, sets in enumerate(distinct)]
    return [sorted(sets, key=lambda pair: -pair[1])[:k] for sets in merged]


def _log_probability(distribution: SemiMarkov, entities: Sequence[Entities]) -> Tensor:
    """Compute log P(exactly these entities), (B,): the part of Z that is left when nothing else but null is allowed."""
    scores = distribution.scores
    is_allowed = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    is_allowed[..., 0] = True
    for b, segments in enumerate(entities):
        for start, end, label in segments:
            for width in range(1, scores.shape[2] + 1):  # the spans of this width that share a token with the entity
                is_allowed[b, max(0, start - width + 1) : end, width - 1] = False
            is_allowed[b, start, end - start - 1, label] = True
    # Entities do not overlap, so that what one of them forbids is never another.
    allowed = scores.masked_fill(~is_allowed, -torch.inf)
    return SemiMarkov(allowed, distribution.transition, distribution.lengths).log_partition - distribution.log_partition


# ---- Graphs ----------------------------------------------------------------------------------------------------------


def _graphs(tagger: Tagger, distribution: Distribution, log_by_filter: Tensor) -> list[Graph]:
    assert isinstance(distribution, (FilteredSemiMarkov, NestedSegments))
    candidates = distribution.candidates
    index = (candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label)
    above_null = (log_by_filter - log_by_filter[..., :1])[index].tolist()
    by_filter = log_by_filter[index].exp().tolist()
    global_scores = _of_candidates(distribution.scores, index).tolist()
    marginals = _of_candidates(distribution.marginals, index).clamp(0.0, 1.0).tolist()
    bounds = candidates.offsets.tolist()
    transition = distribution.transition.tolist()
    windows = candidates.windows(distribution.skip) if isinstance(distribution, FilteredSemiMarkov) else None
    graphs = []
    for b, (nodes, best) in enumerate(zip(candidates.segments(), distribution.mode)):
        low, chosen = bounds[b], set(best)
        shown = [
            Candidate(named, above_null[c], by_filter[c], global_scores[c], marginals[c], node in chosen)
            for c, node, named in zip(range(low, bounds[b + 1]), nodes, tagger.named(nodes))
        ]
        if windows is None:
            graphs.append(Graph(shown, 0, []))
            continue
        num_edges = _count(windows, range(low, bounds[b + 1]), b)
        edges = _edges(windows, nodes, low, b, transition) if num_edges <= MAX_EDGES else None
        graphs.append(Graph(shown, num_edges, edges))
    return graphs


def _of_candidates(values: Tensor, index: tuple[Tensor, ...]) -> Tensor:
    """Return one value per candidate, (N,), of values that are so already or dense."""
    return values if values.ndim == 1 else values[index]


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
