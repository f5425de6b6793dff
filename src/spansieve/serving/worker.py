"""A batch of texts through the model, and its answers in the form in which they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from spansieve.data.tokenizer import Token
from spansieve.decoding.constraints import with_threshold
from spansieve.decoding.prediction import Explanation, Graph, Prediction, Wanted
from spansieve.models.inference import give_way
from spansieve.prediction.text_predictor import Piece, TextPredictor, constraints_of_pieces, entities_of, words_of
from spansieve.serving import schema
from spansieve.serving.limits import Limits, RefusedError
from spansieve.serving.queue import Metrics, Task

MAX_CHARACTERS = 32_000  # that are cut into tokens in one step
MAX_TOKENS, MAX_SENTENCES = 8_000, 1_024  # that go through the model in one call
MAX_EXPLAINED = 256  # tokens of a sentence, or of several at once, with alternatives and graph: k best token by token
WARM_UP = ("Ada Lovelace met Charles Babbage in London.", "One.", "word " * 60)


@dataclass(frozen=True)
class Worker:
    """Run a model over texts and make the results as they are sent: each as JSON, piece by piece, since megabytes of it
    in one step would hold up every other thread."""

    predictor: TextPredictor
    metrics: Metrics
    max_tokens: int = Limits.sentence_tokens

    def warm_up(self) -> None:
        """Compile kernels, and on a GPU capture graphs, before the first request. Alternatives need none, and a model
        that has learned little has many: they are computed for a short text."""
        self([Task(WARM_UP[0], alternatives=2, graph=True)])
        for text in WARM_UP:
            self([Task(text)])
        self.predictor.warm_up()

    def __call__(self, tasks: Sequence[Task]) -> list[str]:
        """Return one `schema.Result` per task, as JSON. Sentences of all go through the model together, but no more at
        a time than take a moment: others may have a turn in between."""
        texts = [task.text for task in tasks]
        pieces = self._pieces(texts)
        words = words_of(pieces)
        if (longest := max(map(len, words), default=0)) > self.max_tokens:
            reason = f"must have at most {self.max_tokens:,} tokens in a sentence, got {longest:,}"
            raise RefusedError(413, "sentence_too_long", f"{reason}; a blank line ends a sentence, too")
        self.metrics.tokens.inc(sum(map(len, words)))
        own = [with_threshold(task.constraints, task.threshold, self.predictor.labels) for task in tasks]
        constraints = constraints_of_pieces(own, texts, pieces)
        give_way()
        wanted = [_wanted(tasks[piece.text], len(piece.tokens)) for piece in pieces]
        explanations: dict[int, Explanation] = {}
        plain = [i for i, want in enumerate(wanted) if want is None]
        rest = [i for i, want in enumerate(wanted) if want is not None]
        for chunk in _chunks(words, plain, MAX_TOKENS) + _chunks(words, rest, MAX_EXPLAINED):
            known = None if constraints is None else [constraints[i] for i in chunk]
            args = [words[i] for i in chunk], [wanted[i] for i in chunk], known
            explanations.update(zip(chunk, self.predictor.explain_tokens(*args)))
        explained: list[list[tuple[list[Token], Explanation]]] = [[] for _ in tasks]
        for i, piece in enumerate(pieces):
            explained[piece.text].append((piece.tokens, explanations[i]))
        return [self._result(task, sentences) for task, sentences in zip(tasks, explained)]

    def _pieces(self, texts: Sequence[str]) -> list[Piece]:
        """Cut texts into sentences and tokens: long ones in another thread, so that others have a turn meanwhile."""
        if sum(map(len, texts)) <= MAX_CHARACTERS:
            return self.predictor.pieces(texts, sentences=True)
        with ThreadPoolExecutor(1) as pool:
            pieces = pool.submit(self.predictor.pieces, texts, sentences=True)
            while not wait([pieces], timeout=0.02).done:
                give_way()
        return pieces.result()

    def _result(self, task: Task, sentences: Sequence[tuple[list[Token], Explanation]]) -> str:
        entities: list[str] = []
        for tokens, explanation in sentences:
            prediction = explanation.prediction
            prediction = prediction if task.probabilities else prediction._replace(probabilities=None)
            entities += [entity.model_dump_json() for entity in _entities(task.text, tokens, prediction)]
        shown = "null"
        if task.alternatives or task.graph:
            pieces = (self._sentence(task, tokens, explanation).model_dump_json() for tokens, explanation in sentences)
            shown = f"[{','.join(pieces)}]"
        return f'{{"entities":[{",".join(entities)}],"sentences":{shown}}}'

    def _sentence(self, task: Task, tokens: list[Token], explanation: Explanation) -> schema.Sentence:
        is_explained = self.predictor.can_explain and len(tokens) <= MAX_EXPLAINED
        note = None
        if not self.predictor.can_explain:
            note = "an export has entities and their probabilities; alternatives and graphs need the model itself"
        elif not is_explained:
            note = f"the sentence has {len(tokens)} tokens; alternatives and graphs are given up to {MAX_EXPLAINED}"
        elif task.graph and explanation.graph is None:
            note = f"a {self.predictor.head} model has no candidates and so no graph"
        alternatives = [
            schema.Alternative(probability=share, entities=_entities(task.text, tokens, Prediction(segments, None)))
            for segments, share in explanation.k_best
        ]
        return schema.Sentence(
            start=tokens[0].start,
            end=tokens[-1].end,
            tokens=[(token.start, token.end) for token in tokens],
            entropy=explanation.entropy if is_explained else None,
            alternatives=alternatives if is_explained and task.alternatives else None,
            graph=None if explanation.graph is None else _graph(tokens, explanation.graph),
            note=note,
        )


def _chunks(words: Sequence[Sequence[str]], indices: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Group these sentences, in order, each group of so many tokens at most or one sentence."""
    chunks: list[list[int]] = []
    tokens = 0
    for i in indices:
        tokens += len(words[i])
        if not chunks or tokens > max_tokens or len(chunks[-1]) == MAX_SENTENCES:
            chunks.append([])
            tokens = len(words[i])
        chunks[-1].append(i)
    return chunks


def _wanted(task: Task, num_tokens: int) -> Wanted | None:
    """What a sentence's explanation must hold; None where none was requested, or the sentence is too long for it."""
    if not (task.alternatives or task.graph) or num_tokens > MAX_EXPLAINED:
        return None
    return Wanted(max(1, task.alternatives), task.graph)


def _entities(text: str, tokens: Sequence[Token], prediction: Prediction) -> list[schema.Entity]:
    return [schema.Entity(**entity._asdict()) for entity in entities_of(text, tokens, prediction)]


def _graph(tokens: Sequence[Token], graph: Graph) -> schema.Graph:
    candidates = []
    for candidate in graph.candidates:
        first, last = candidate.segment.start, candidate.segment.end - 1
        candidates.append(
            schema.Candidate(
                start=tokens[first].start,
                end=tokens[last].end,
                first_token=first,
                last_token=last,
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
