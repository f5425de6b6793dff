"""The dev score of a model in training, each process with its share of the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accelerate import Accelerator
from accelerate.utils import gather_object

from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.models.filtered import GraphCounts
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import graph_counter, predict_segments


@dataclass(frozen=True)
class DevScore:
    precision: float
    recall: float
    f1: float
    graph: dict[str, float] = field(default_factory=dict)  # of a filtered model: per sentence, and the filter's recall


def score_on(tagger: Tagger, examples: Sequence[Example], accelerator: Accelerator) -> DevScore:
    own = examples[accelerator.process_index :: accelerator.num_processes]
    counts, count = graph_counter(tagger, own)
    with accelerator.autocast():
        predictions = predict_segments(tagger, [example.tokens for example in own], on_batch=count)
    pairs = [(list(example.segments), prediction.segments) for example, prediction in zip(own, predictions)]
    pairs, counts = gather_object(pairs), gather_object(counts)
    micro = evaluate([gold for gold, _ in pairs], [segments for _, segments in pairs]).micro
    return DevScore(micro.precision, micro.recall, micro.f1, _graph(GraphCounts(*map(sum, zip(*counts)))))


def _graph(counts: GraphCounts) -> dict[str, float]:
    if not counts.sentences:
        return {}
    return {
        "nodes": counts.nodes / counts.sentences,
        "edges": counts.edges / counts.sentences,
        "filter_recall": counts.gold_kept / counts.gold if counts.gold else 1.0,
    }
