"""The dev score of a model in training, each process with its share of the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accelerate import Accelerator
from accelerate.utils import gather_object

from spansieve.crf import Distribution
from spansieve.data.batching import documents_together
from spansieve.data.example import Example
from spansieve.evaluation.scores import evaluate
from spansieve.models.filtered import FilteredHead, GraphCounts
from spansieve.models.predicting import predict_segments
from spansieve.models.tagger import Tagger


@dataclass(frozen=True)
class DevScore:
    precision: float
    recall: float
    f1: float
    graph: dict[str, float] = field(default_factory=dict)  # of a filtered model: per sentence, and the filter's recall


def score_on(tagger: Tagger, examples: Sequence[Example], accelerator: Accelerator) -> DevScore:
    own = documents_of_process(examples, accelerator.process_index, accelerator.num_processes)
    counts = [GraphCounts()]
    head = tagger.head

    def look(indices: Sequence[int], distribution: Distribution) -> None:
        assert isinstance(head, FilteredHead)
        counts.append(head.graph_counts(distribution, [tagger.known_segments(own[i]) for i in indices]))

    sentences, documents = [example.tokens for example in own], [example.document for example in own]
    seen = look if isinstance(head, FilteredHead) else None
    with accelerator.autocast():
        found = predict_segments(tagger, sentences, look=seen, documents=documents)
    pairs = [(list(example.segments), one.segments) for example, one in zip(own, found)]
    if accelerator.num_processes > 1:
        pairs, counts = gather_object(pairs), gather_object(counts)
    micro = evaluate([gold for gold, _ in pairs], [segments for _, segments in pairs]).micro
    total = GraphCounts()
    for one in counts:
        total = total.plus(one)
    return DevScore(micro.precision, micro.recall, micro.f1, _graph(total))


def documents_of_process(examples: Sequence[Example], process: int, processes: int) -> list[Example]:
    """Its share, by whole documents."""
    together = documents_together([example.document for example in examples], [1] * len(examples), 1)
    return [examples[i] for part in together[process::processes] for i in part]


def _graph(counts: GraphCounts) -> dict[str, float]:
    if not counts.sentences:
        return {}
    return {
        "nodes": counts.nodes / counts.sentences,
        "edges": counts.edges / counts.sentences,
        "filter_recall": counts.gold_kept / counts.gold if counts.gold else 1.0,
    }
