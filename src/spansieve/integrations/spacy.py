"""A spaCy component: `nlp.add_pipe("spansieve", config={"model": "runs/mine/model"})`.

It reads the tokens of the pipeline's tokenizer, and its sentences where it has them. All that it finds is in
`doc.spans["spansieve"]`, with probabilities in `SpanGroup.attrs["scores"]`, and in `doc.ents`, where an entity that was
there before stays and keeps out what overlaps it; with `overwrite_ents` it gives way. `doc.ents` cannot overlap: of
nested entities it has the outermost. With a `guarantee` of the model's, such as miss=0.01, both have what is covered,
or accepted, under that promise, which is in `SpanGroup.attrs["guarantee"]`. The `objective` f1, or f1=0.35,
takes the entities with the largest expected F1 in place of the most probable ones.
"""

# No annotations from `__future__`: spaCy 3.7 reads the types of a factory as they stand, and takes no strings for them.

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from spansieve.data.tokenizer import Token, sentence_spans
from spansieve.decoding.constraints import check_threshold, with_threshold
from spansieve.decoding.prediction import Probability
from spansieve.integrations.hub import load
from spansieve.models.storage import save_model
from spansieve.persistence.atomic import read_files, write_files
from spansieve.persistence.manifest import ModelError, check_names
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.promises import write_promises

try:
    import srsly  # type: ignore[import-untyped]
    from spacy.language import Language
    from spacy.tokens import Doc, Span, SpanGroup
    from spacy.util import filter_spans, minibatch
except ModuleNotFoundError as error:
    raise ImportError(f"spaCy is needed here, got no {error.name}; pip install 'spansieve[spacy]'") from error

KEY = "spansieve"
BATCH = 256  # documents


@Language.factory("spansieve", assigns=["doc.ents", "doc.spans"])
class Component:
    """The spaCy component. `model` is a folder or a name on the Hub, and is loaded when it is first needed: a pipeline
    that is read from disk brings its own, and need not find the one it was made with."""

    def __init__(
        self,
        nlp: Language | None = None,
        name: str = KEY,
        model: str = "",
        device: str = "cpu",
        spans_key: str = KEY,
        set_ents: bool = True,
        overwrite_ents: bool = False,
        probability: Probability = "given-candidates",
        threshold: float = 0.0,
        guarantee: str = "",
        objective: str = "probability",
    ) -> None:
        check_threshold(threshold)
        if guarantee and threshold:
            raise ValueError(f"threshold must be 0 under a guarantee, got {threshold}")
        self.name, self.model, self.device = name, model, device
        self.spans_key, self.set_ents, self.overwrite_ents = spans_key, set_ents, overwrite_ents
        self.probability, self.threshold, self.guarantee = probability, threshold, guarantee
        self.objective = objective
        self._predictor: Predictor | None = None

    @property
    def predictor(self) -> Predictor:
        if self._predictor is None:
            if not self.model:
                raise ValueError("model must be a folder or a name on the Hub: config={'model': 'runs/mine/model'}")
            self._predictor = self._loaded(self.model)
        return self._predictor

    def _loaded(self, model: str | Path) -> Predictor:
        options: dict[str, Any] = {"probability": self.probability, "objective": self.objective}
        return load(model, self.device, guarantee=self.guarantee or None, **options)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, none before the model is loaded: spaCy reads them before a pipeline is read from disk."""
        return () if self._predictor is None else self._predictor.labels

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = BATCH) -> Iterator[Doc]:
        """Annotate documents; the sentences of all documents of a batch are read together."""
        for docs in minibatch(stream, size=batch_size):
            yield from self._annotated(list(docs))

    def _annotated(self, docs: list[Doc]) -> list[Doc]:
        pieces = [(number, tokens) for number, doc in enumerate(docs) for tokens in _sequences(doc)]
        words = [[docs[number][i].text for i in tokens] for number, tokens in pieces]
        spans: list[list[Span]] = [[] for _ in docs]
        scores: list[list[float]] = [[] for _ in docs]
        constraints = [with_threshold(None, self.threshold, self.predictor.labels)] * len(words)
        predictions = self.predictor.predict_tokens(words, probabilities=True, constraints=constraints)
        for (number, tokens), prediction in zip(pieces, predictions):
            places = [(tokens[s.start], tokens[s.end - 1] + 1, s.label) for s in prediction.segments]
            spans[number] += [Span(docs[number], *place) for place in places]
            scores[number] += prediction.probabilities or []
        for doc, found_spans, found_scores in zip(docs, spans, scores):
            self._annotate(doc, found_spans, found_scores)
        return docs

    def _annotate(self, doc: Doc, spans: list[Span], scores: list[float]) -> None:
        attrs: dict[str, Any] = {"scores": np.array(scores, np.float64)}
        if self.guarantee and self.predictor.promise is not None:
            attrs["guarantee"] = self.predictor.promise.shown()
        doc.spans[self.spans_key] = SpanGroup(doc, name=self.spans_key, attrs=attrs, spans=spans)
        if not self.set_ents:
            return
        first, second = (spans, doc.ents) if self.overwrite_ents else (doc.ents, spans)
        kept = filter_spans(first)
        taken = {i for span in kept for i in range(span.start, span.end)}
        kept += [span for span in filter_spans(second) if taken.isdisjoint(range(span.start, span.end))]
        doc.set_ents(kept, default="outside")

    # ---- On disk, and as bytes: the whole model goes along

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        save_model(self.predictor.tagger, Path(path))
        if self.predictor.promise is not None:
            write_promises(Path(path), [self.predictor.promise])

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "Component":
        self._predictor = self._loaded(Path(path))
        return self

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "model"
            self.to_disk(folder)
            return srsly.msgpack_dumps(read_files(folder))

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> "Component":
        files = srsly.msgpack_loads(data)
        if not isinstance(files, dict):
            raise ModelError("the bytes of a component must hold the files of a model")
        check_names(files, Path("bytes"))
        with TemporaryDirectory() as temporary:
            write_files(files, Path(temporary))
            return self.from_disk(temporary)


def _sequences(doc: Doc) -> list[list[int]]:
    """The positions of the tokens of each sentence, those of nothing but blanks left out; sentences are the pipeline's
    where that has set them, otherwise by our own rules."""
    if doc.has_annotation("SENT_START"):
        sentences = [[token.i for token in sentence if not token.is_space] for sentence in doc.sents]
        return [sentence for sentence in sentences if sentence]
    positions = [token.i for token in doc if not token.is_space]
    tokens = [Token(doc[i].text, doc[i].idx, doc[i].idx + len(doc[i])) for i in positions]
    return [positions[start:end] for start, end in sentence_spans(doc.text, tokens)]
