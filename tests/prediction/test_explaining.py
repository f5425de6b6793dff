"""The graph of a sentence, against all of its paths, walked one by one along the edges."""

from __future__ import annotations

import math

import pytest
import torch

from spansieve.config import BuiltinConfig, ModelConfig
from spansieve.data.example import Example
from spansieve.models.heads import HEADS
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.prediction.alternatives import Graph, Wanted, explain

EXAMPLES = [Example.of("a b c d e f", [(0, 2, "X"), (3, 4, "Y")]), Example.of("b c d", [(0, 3, "Y")])]
SENTENCES = [["a", "b", "c", "d", "e"], ["c"], [], ["b", "a", "d", "c", "f", "e", "a"]]


def random_tagger(head: str, skip: bool = False) -> Tagger:
    """Its weights are large enough to keep many candidates and to prefer some."""
    torch.manual_seed(3)
    builtin = BuiltinConfig(rows=50, feature_size=8, size=8, context="conv")
    tagger = Tagger.for_data(ModelConfig(head=head, hidden_size=8, skip=skip, builtin=builtin), EXAMPLES)
    for parameter in tagger.head.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return tagger


def explained_all(tagger: Tagger, wanted: Wanted, probability="given-candidates"):
    return explain(tagger, SENTENCES, [wanted] * len(SENTENCES), probability)


def walks(graph: Graph) -> dict[tuple[int, ...], float]:
    """The score of every path from the start to the end."""
    assert graph.edges is not None
    found: dict[tuple[int, ...], float] = {}

    def walk(path: tuple[int, ...], score: float) -> None:
        here = path[-1] if path else None
        for source, target, transition in graph.edges:
            if source != here:
                continue
            if target is None:
                found[path] = score + transition
            else:
                walk((*path, target), score + transition + graph.candidates[target].global_score)

    walk((), 0.0)
    return found


@pytest.mark.parametrize(("head", "skip"), [("fsemicrf", False), ("fsemicrf", True), ("filter-only", False)])
def test_the_graph_is_the_distribution(head, skip):
    explained = explained_all(random_tagger(head, skip), Wanted(3, graph=True))
    explained = [one for one, sentence in zip(explained, SENTENCES) if sentence]
    assert max(len(one.graph.candidates) for one in explained) > 5
    for one in explained:
        graph, found = one.graph, walks(one.graph)
        total = math.log(sum(math.exp(score) for score in found.values()))
        probability = {path: math.exp(score - total) for path, score in found.items()}
        best = sorted(probability, key=lambda path: -probability[path])
        chosen = tuple(i for i, candidate in enumerate(graph.candidates) if candidate.is_chosen)
        assert chosen == best[0]
        for i, candidate in enumerate(graph.candidates):
            share = sum(p for path, p in probability.items() if i in path)
            assert candidate.probability == pytest.approx(share, abs=1e-5)
            assert candidate.local_score > 0  # or the filter would not have kept it
            assert 1 / 3 < candidate.local_probability <= 1  # the most likely of three labels
        assert one.prediction.segments == [graph.candidates[i].segment for i in best[0]]
        for alternative, path in zip(one.k_best, best):
            assert alternative.probability == pytest.approx(probability[path], abs=1e-5)
        assert len(one.k_best) == min(3, len(found))
        entropy = -sum(p * math.log(p) for p in probability.values() if p)
        assert one.entropy == pytest.approx(entropy, abs=1e-4)
        assert graph.num_edges == len(graph.edges)


@pytest.mark.parametrize("probability", ["given-candidates", "with-filter"])
@pytest.mark.parametrize("head", sorted(HEADS))
def test_what_is_found_is_what_is_predicted(head, probability):
    tagger = random_tagger(head)
    explained = explained_all(tagger, Wanted(2, graph=True), probability)
    predicted = predict_segments(tagger, SENTENCES, with_probabilities=True, probability=probability)
    for sentence, one, expected in zip(SENTENCES, explained, predicted, strict=True):
        assert one.prediction.segments == expected.segments
        assert one.prediction.probabilities == pytest.approx(expected.probabilities, abs=1e-5)
        assert (one.graph is not None) == (tagger.head.decoder_settings.filters and len(sentence) > 0)
        if one.graph is not None:
            chosen = {candidate.segment for candidate in one.graph.candidates if candidate.is_chosen}
            assert chosen == set(expected.segments)


@pytest.mark.parametrize("head", sorted(HEADS))
def test_what_is_wanted_of_one_sentence_changes_no_other(head):
    """Neither the predictions, exactly, nor what is wanted of others."""
    tagger = random_tagger(head)
    alone = explain(tagger, SENTENCES, [None] * len(SENTENCES))
    everything = explained_all(tagger, Wanted(3, graph=True, filter_entropy=True))
    mixed = explain(tagger, SENTENCES, [None, Wanted(1), Wanted(1), Wanted(2, graph=True)])
    assert [one.prediction for one in alone] == [one.prediction for one in everything]
    assert [one.prediction for one in alone] == [one.prediction for one in mixed]
    assert all(one.k_best == () and one.graph is None for one in (*alone, mixed[0]))
    assert [len(one.k_best) for one in mixed[1:3]] == [1, 1]
    assert mixed[1].graph is None
    assert mixed[3].entropy == pytest.approx(everything[3].entropy, abs=1e-5)
    assert mixed[3].k_best[0].segments == everything[3].k_best[0].segments
    assert (mixed[3].graph is None) == (not tagger.head.decoder_settings.filters)
    if mixed[3].graph is not None:
        chosen = [[c.is_chosen for c in one.graph.candidates] for one in (mixed[3], everything[3])]
        assert chosen[0] == chosen[1]


def test_many_edges_are_counted_and_not_listed(monkeypatch):
    monkeypatch.setattr("spansieve.prediction.alternatives.MAX_EDGES", 3)
    (whole,) = explain(random_tagger("fsemicrf"), SENTENCES[:1], [Wanted(graph=True)])
    assert whole.graph.edges is None
    assert whole.graph.num_edges > 3
