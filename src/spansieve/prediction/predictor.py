"""A trained model at work: text to entities, whatever its length; and whether a filtered model loses gold to its width,
to its filter, or to its path."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, overload

from spansieve.data.example import Example
from spansieve.data.tokenizer import Token, Tokenizer, tokens_of_text
from spansieve.decoding.constraints import Constraints
from spansieve.decoding.prediction import Explanation, Prediction, Probability, Wanted
from spansieve.models.captured_prediction import CapturedPrediction
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import evaluating, graph_counter, predict_segments
from spansieve.prediction.alternatives import explain
from spansieve.prediction.feature_workers import Preparer
from spansieve.prediction.pipeline import Pipeline
from spansieve.prediction.text_predictor import WARM_UP_SECONDS, TextPredictor, entities_of, listed, words_of
from spansieve.segments import Entity

CUDA_GRAPH_MEGABYTES = 256.0  # enough for the 48 shapes of `warm_up` with a small encoder
MANY_CHARACTERS = 20_000  # in all texts: about a batch


class Alternative(NamedTuple):
    """A whole set of entities, and the probability that these and no others are in the text."""

    entities: list[Entity]
    probability: float


class Analysis(NamedTuple):
    """A sentence, or whatever was read as one sequence, `text[start:end]`."""

    start: int
    end: int
    tokens: list[Token]
    entities: list[Entity]  # each with the probability of its own
    alternatives: list[Alternative]  # the k best; the first has the same entities
    entropy: float  # in nats, of the distribution over all sets of entities
    filter_entropy: float  # in nats, of the filter's labels, summed over the spans; 0 where it was not wanted


class Predictor(TextPredictor):
    """A predictor with torch, on the tagger's device.

    Under a model that filters, an entity's probability is its marginal given the candidates, or `with-filter` that
    times the filter's probability of the span's label: not a marginal of one distribution, but nearer to how often such
    entities are right, since a good filter often leaves a single set of entities.

    On a GPU, batches of few subwords are replayed as CUDA graphs, which take `cuda_graph_megabytes` of its memory at
    most; with 0 there are none. The first few predictions of each shape are slower, unless `warm_up` came before them.
    """

    can_explain = True

    def __init__(
        self,
        tagger: Tagger,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
        cuda_graph_megabytes: float = CUDA_GRAPH_MEGABYTES,
    ) -> None:
        head = tagger.head
        super().__init__(tagger.labels, tagger.config.head, head.decoder_settings, tokenizer, batch_tokens, probability)
        if not cuda_graph_megabytes >= 0:
            raise ValueError(f"cuda_graph_megabytes must be at least 0, got {cuda_graph_megabytes}")
        self.tagger = tagger
        self.captured = CapturedPrediction(tagger, cuda_graph_megabytes) if cuda_graph_megabytes else None
        self._preparer: tuple[tuple[object, ...], Preparer] | None = None  # the last one, and of what it was made

    def warm_up(self, seconds: float = WARM_UP_SECONDS) -> None:
        super().warm_up(seconds)
        if self.captured is not None and self.tagger.device.type == "cuda":
            with evaluating(self.tagger):
                self.captured.warm_up(seconds)

    def _run(self, sentences, decision, probabilities, constraints) -> list[Prediction]:
        options = (self.batch_tokens, self.probability, constraints, self.captured, decision)
        return predict_segments(self.tagger, sentences, probabilities, None, *options)

    def predict_in_batches(self, texts, constraints, probabilities, sentences, threshold) -> list[list[Entity]]:
        """Prepare the next batches in a thread meanwhile, on a GPU, where there are many texts and no constraints."""
        if any(constraints) or not self._are_many(texts) or self.tagger.encoder.reader() is None:
            return super().predict_in_batches(texts, constraints, probabilities, sentences, threshold)
        with evaluating(self.tagger), self._pipeline(sentences) as pipeline:
            return [entities for _, entities in pipeline.stream(texts, probabilities, threshold)]

    def _are_many(self, texts: Sequence[str]) -> bool:
        """Whether a device has so much to do with the texts that the host can prepare the next ones meanwhile."""
        return sum(map(len, texts)) >= MANY_CHARACTERS and self.tagger.device.type != "cpu"

    def _pipeline(self, sentences: bool) -> Pipeline:
        """Make a pipeline, with what the last one has learned of words where it was for the same encoder."""
        options = (self.tokenizer, sentences, self.batch_tokens)
        parts, known = (self.tagger.encoder, *options), None
        if self._preparer is not None and all(a is b for a, b in zip(parts, self._preparer[0])):
            known = self._preparer[1]
        pipeline = Pipeline(self.tagger, 0, "fp32", *options, self.probability, self.promise, self.objective, known)
        self._preparer = parts, pipeline.preparer
        return pipeline

    def explain_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        wanted: Sequence[Wanted | None],
        constraints: Sequence[Constraints | None] | None = None,
    ) -> list[Explanation]:
        """Predict sentences that are tokens already, and of each compute what is wanted beside its prediction."""
        if not any(wanted):
            return super().explain_tokens(sentences, wanted, constraints)
        options = (self.batch_tokens, self.decision_under(constraints))
        return explain(self.tagger, sentences, wanted, self.probability, constraints, *options)

    def predict_examples(self, examples: Sequence[Example]) -> tuple[list[Prediction], GoldOutcomes | None]:
        """Predict labelled sentences, with probabilities, and analyse the errors of a filtered model in one pass."""
        tagger, (counts, count) = self.tagger, graph_counter(self.tagger, examples)
        options = (self.batch_tokens, self.probability, None, None, self.decision)
        predictions = predict_segments(tagger, [example.tokens for example in examples], True, count, *options)
        if count is None:
            return predictions, None
        gold = sum(len({*example.segments}) for example in examples)
        known = [segment for example in examples for segment in tagger.known_segments(example)]
        fitting = sum(map(tagger.head.fits, known))
        kept = sum(batch.gold_kept for batch in counts)
        found = sum(len({*example.segments} & {*one.segments}) for example, one in zip(examples, predictions))
        lost = (gold - len(known), len(known) - fitting, fitting - kept, kept - found)
        return predictions, GoldOutcomes(gold, *lost, found)

    @overload
    def analyse(  # type: ignore[overload-overlap]
        self, texts: str, top_k: int = 1, sentences: bool = True, filter_entropy: bool = False
    ) -> list[Analysis]: ...

    @overload
    def analyse(
        self, texts: Collection[str], top_k: int = 1, sentences: bool = True, filter_entropy: bool = False
    ) -> list[list[Analysis]]: ...

    def analyse(self, texts, top_k=1, sentences=True, filter_entropy=False):
        """Analyse how sure the model is of each sentence of a text: its `top_k` alternatives, and the entropy."""
        if isinstance(texts, str):
            return self.analyse([texts], top_k, sentences, filter_entropy)[0]
        texts = listed(texts)
        pieces = self.pieces(texts, sentences)
        wanted = [Wanted(top_k, filter_entropy=filter_entropy)] * len(pieces)
        analyses: list[list[Analysis]] = [[] for _ in texts]
        for piece, explanation in zip(pieces, self.explain_tokens(words_of(pieces), wanted)):
            analyses[piece.text].append(_analysis(texts[piece.text], piece.tokens, explanation))
        return analyses


def _analysis(text: str, tokens: list[Token], explanation: Explanation) -> Analysis:
    """Put an explanation in tokens into characters."""
    alternatives = [
        Alternative(entities_of(text, tokens, Prediction(segments, None)), probability)
        for segments, probability in explanation.k_best
    ]
    entities = entities_of(text, tokens, explanation.prediction)
    sureness = (explanation.entropy, explanation.filter_entropy)
    return Analysis(tokens[0].start, tokens[-1].end, tokens, entities, alternatives, *sureness)


@dataclass(frozen=True)
class GoldOutcomes:
    """The error analysis of gold segments: found, or where they were lost. Each counts once, so that they add up."""

    gold: int
    unknown: int  # a label that the training data does not have
    width: int  # wider than max_width
    filter: int  # not a candidate, or one with another label
    path: int  # a candidate, but not on the best path
    found: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)
