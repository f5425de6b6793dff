"""A batch of texts through the model, and its answers in the form in which they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from spansieve.data.tokenizer import Token, sequences_of_text
from spansieve.models.constraints import Constraints
from spansieve.models.found import Found
from spansieve.prediction.explaining import LONGEST, Explanation, Graph, explain
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.text_predictor import Piece, entities_of, placed_in_pieces
from spansieve.segments import NamedSegment
from spansieve.serving import schema
from spansieve.serving.metrics import Metrics
from spansieve.serving.queue import Task

WARM_UP = ("Ada Lovelace met Charles Babbage in London.", "One.", "word " * 60)


def _wish(task: Task) -> tuple[int, bool]:
    """The options in which tasks of one batch must agree."""
    return task.alternatives, task.graph


class Read(NamedTuple):
    """A sentence as the model reads it."""

    tokens: Sequence[str]
    known: Constraints | None


@dataclass(frozen=True)
class Answerer:
    predictor: Predictor
    metrics: Metrics

    def warm_up(self) -> None:
        """Compile kernels before the first request. Alternatives need none, and a model that has learned little has
        many: they are computed for a short text."""
        self([Task(WARM_UP[0], alternatives=2, graph=True)])
        for text in WARM_UP:
            self([Task(text)])

    def __call__(self, tasks: Sequence[Task]) -> list[schema.Result]:
        """One result per task. Those that want the same go through the model together."""
        results: dict[int, schema.Result] = {}
        order = sorted(range(len(tasks)), key=lambda i: _wish(tasks[i]))
        for _, alike in groupby(order, key=lambda i: _wish(tasks[i])):
            indices = list(alike)
            results |= zip(indices, self._answer([tasks[i] for i in indices]))
        return [results[i] for i in range(len(tasks))]

    def _answer(self, tasks: Sequence[Task]) -> list[schema.Result]:
        sentences = [sequences_of_text(task.text, self.predictor.tokenizer) for task in tasks]
        tokens = [[token.text for token in sentence] for found in sentences for sentence in found]
        self.metrics.tokens.inc(sum(map(len, tokens)))
        texts, given = [task.text for task in tasks], [task.constraints for task in tasks]
        pieces = [Piece(i, sentence) for i, found in enumerate(sentences) for sentence in found]
        known = placed_in_pieces(given, texts, pieces) or [None] * len(pieces)
        read = list(map(Read, tokens, known))
        explained = iter(self._explained(read, *_wish(tasks[0])))
        return [self._result(task, found, [next(explained) for _ in found]) for task, found in zip(tasks, sentences)]

    def _explained(
        self, read: Sequence[Read], alternatives: int, graph: bool
    ) -> list[tuple[Found, Explanation | None]]:
        """The entities, and the explanation where it was requested and the sentence is not too long for it."""
        is_wanted = [bool(alternatives or graph) and len(one.tokens) <= LONGEST for one in read]
        shared, others = ([one for one, wanted in zip(read, is_wanted) if wanted is side] for side in (True, False))
        found = iter(self._predicted(others))
        explained = iter(self._explanations(shared, max(1, alternatives), graph))
        return [_pair(next(explained)) if wanted else (next(found), None) for wanted in is_wanted]

    def _predicted(self, read: Sequence[Read]) -> list[Found]:
        return self.predictor.predict_tokens([one.tokens for one in read], True, [one.known for one in read])

    def _explanations(self, read: Sequence[Read], top_k: int, graph: bool) -> list[Explanation]:
        tagger, probability = self.predictor.tagger, self.predictor.probability
        tokens, known = [one.tokens for one in read], [one.known for one in read]
        return explain(tagger, tokens, top_k, graph, probability, known)

    def _result(
        self, task: Task, sentences: list[list[Token]], explained: list[tuple[Found, Explanation | None]]
    ) -> schema.Result:
        entities = []
        for tokens, (found, _) in zip(sentences, explained):
            entities += _entities(task.text, tokens, found if task.probabilities else Found(found.segments, None))
        shown = None
        if any(_wish(task)):
            shown = [self._sentence(task, tokens, one) for tokens, (_, one) in zip(sentences, explained)]
        return schema.Result(entities=entities, sentences=shown)

    def _sentence(self, task: Task, tokens: list[Token], explained: Explanation | None) -> schema.Sentence:
        note = alternatives = graph = None
        if explained is not None and task.alternatives:
            alternatives = _alternatives(task.text, tokens, explained.readings)
        if explained is not None and explained.graph is not None:
            graph = _graph(tokens, explained.graph)
        if explained is None:
            note = f"the sentence has {len(tokens)} tokens; alternatives and graphs are given up to {LONGEST}"
        elif task.graph and explained.graph is None:
            note = f"a {self.predictor.tagger.config.head} model has no candidates and so no graph"
        return schema.Sentence(
            start=tokens[0].start,
            end=tokens[-1].end,
            tokens=[(token.start, token.end) for token in tokens],
            entropy=None if explained is None else explained.entropy,
            alternatives=alternatives,
            graph=graph,
            note=note,
        )


def _pair(explained: Explanation) -> tuple[Found, Explanation]:
    return explained.found, explained


def _entities(text: str, tokens: Sequence[Token], found: Found) -> list[schema.Entity]:
    return [schema.Entity(**entity._asdict()) for entity in entities_of(text, tokens, found)]


def _alternatives(text: str, tokens: Sequence[Token], readings: Sequence[Found]) -> list[schema.Alternative]:
    alternatives = []
    for segments, probability in readings:
        assert probability is not None
        entities = _entities(text, tokens, Found(segments, None))
        alternatives.append(schema.Alternative(probability=probability[0], entities=entities))
    return alternatives


def _characters(tokens: Sequence[Token], segment: NamedSegment) -> tuple[int, int]:
    return tokens[segment.start].start, tokens[segment.end - 1].end


def _graph(tokens: Sequence[Token], graph: Graph) -> schema.Graph:
    candidates = []
    for candidate in graph.candidates:
        start, end = _characters(tokens, candidate.segment)
        candidates.append(
            schema.Candidate(
                start=start,
                end=end,
                first_token=candidate.segment.start,
                last_token=candidate.segment.end - 1,
                label=candidate.segment.label,
                local_score=candidate.local_score,
                local_probability=min(1.0, candidate.local_probability),
                global_score=candidate.global_score,
                probability=candidate.probability,
                best=candidate.is_chosen,
            )
        )
    edges = None if graph.edges is None else [schema.Edge(**edge._asdict()) for edge in graph.edges]
    return schema.Graph(candidates=candidates, num_edges=graph.num_edges, edges=edges)
