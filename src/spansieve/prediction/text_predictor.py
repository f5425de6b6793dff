"""Texts in, entities out, whatever the model runs on: no torch here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, NamedTuple, overload

from spansieve.data.example import Example
from spansieve.data.tokenizer import Token, Tokenizer, sequences_of_text, tokens_of_text
from spansieve.decoding.constraints import ConstraintError, Constraints, checked_constraints, placed, with_threshold
from spansieve.decoding.coverage import Coverage, Decision, coverage_of
from spansieve.decoding.decoders import DecoderSettings
from spansieve.decoding.prediction import Explanation, Prediction, Probability, Wanted, check_choice
from spansieve.segments import Entity, LabelSet

if TYPE_CHECKING:
    from typing_extensions import Self

    from spansieve.prediction.predictor import GoldOutcomes
    from spansieve.prediction.promises import Promise

WARM_UP_SECONDS = 5.0
TEXTS_AT_ONCE = 1_024  # of a stream
CHARACTERS_AT_ONCE = 1_000_000  # with the text that goes beyond


def decision_of(promise: Promise | None, objective: str, labels: Sequence[str]) -> Decision | None:
    """What is decoded in place of the most probable set of segments; None where that is wanted."""
    aim = Decision.of_objective(objective)
    if promise is None:
        return aim
    if aim is not None:
        raise ValueError(f"objective must be probability under a guarantee, which decides itself, got {objective}")
    return promise.decision(labels)


class TextPredictor(ABC):
    """Find the entities of texts. `text[e.start:e.end] == e.text` for each of them.

    Texts are cut into tokens by `tokenizer`. With `sentences=False` a text is one sequence, with one segmentation for
    all of it; otherwise each of its sentences is. Either may be of any length: nothing is cut off. At most
    `batch_tokens` are read at once, or one sequence; what comes out does not depend on it.
    """

    can_explain = False  # whether `explain_tokens` gives more than predictions

    def __init__(
        self,
        labels: LabelSet,
        head: str,
        decoder_settings: DecoderSettings,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
    ) -> None:
        """Make a predictor of a model: the labels that it predicts, the name of its head, and the settings of its
        decoder, among them whether it filters and whether it nests."""
        if batch_tokens is not None and batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        check_choice("probability", probability, Probability)
        self.labels, self.head, self.decoder_settings = labels.names, head, decoder_settings
        self.tokenizer, self.batch_tokens, self.probability = tokenizer, batch_tokens, probability
        self.promise: Promise | None = None  # that all predictions are under
        self.objective = "probability"
        self.decision: Decision | None = None  # by which the promise decodes, or the objective

    def under(self, promise: Promise | None) -> Self:
        """Put all predictions from here on under a promise of the model's guarantee: they are then what it covers, or
        accepts, in place of the best segmentation."""
        if promise is not None:
            promise.check(self.probability)
        self.decision, self.promise = decision_of(promise, self.objective, self.labels), promise
        return self

    def with_objective(self, objective: str) -> Self:
        """Predict, from here on, the set of segments of which this is largest: its probability, or, with f1 or f1=0.35,
        the expected F1, where the number is a cutoff: half of the F1 that is to be expected (see `above_cutoff`)."""
        self.decision, self.objective = decision_of(self.promise, objective, self.labels), objective
        return self

    def decision_under(self, constraints: Sequence[Constraints | None] | None) -> Decision | None:
        """What the promise decodes, or the objective; None where the most probable set is wanted."""
        if self.promise is not None and any(constraints or ()):
            raise ConstraintError(
                "constraints and thresholds must be left out under a guarantee: it is of what the model decides alone"
            )
        return self.decision

    def predict_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        probabilities: bool = False,
        constraints: Sequence[Constraints | None] | None = None,
    ) -> list[Prediction]:
        """Predict sentences that are tokens already; constraints, one per sentence, are in tokens."""
        return self._run(sentences, self.decision_under(constraints), probabilities, constraints)

    def cover_tokens(self, sentences: Sequence[Sequence[str]], margin: float = 0.0) -> list[Prediction]:
        """Predict sentences that are tokens already, with the coverage of each token: P(it is part of an entity of this
        label). The margin of a filter is larger by so much; infinity keeps all spans."""
        cutoff = None if self.decision is None else self.decision.f1_cutoff
        return self._run(sentences, Decision(f1_cutoff=cutoff, margin=margin, with_coverage=True), True, None)

    @abstractmethod
    def _run(
        self,
        sentences: Sequence[Sequence[str]],
        decision: Decision | None,
        probabilities: bool,
        constraints: Sequence[Constraints | None] | None,
    ) -> list[Prediction]:
        """Run the model over sentences of tokens."""

    def warm_up(self, seconds: float = WARM_UP_SECONDS) -> None:
        """Do in advance what the first predictions would have to wait for: compile kernels and, on a GPU, capture the
        work on short texts as CUDA graphs, for so many seconds at most."""
        self.predict("Ada Lovelace met Charles Babbage in London.")

    def explain_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        wanted: Sequence[Wanted | None],
        constraints: Sequence[Constraints | None] | None = None,
    ) -> list[Explanation]:
        """Predict sentences that are tokens already, and of each compute what is wanted beside its prediction, where
        the predictor `can_explain`."""
        return [Explanation(prediction) for prediction in self.predict_tokens(sentences, True, constraints)]

    def predict_examples(self, examples: Sequence[Example]) -> tuple[list[Prediction], GoldOutcomes | None]:
        """Predict labelled sentences, with probabilities. A filtered model run by torch counts where gold is lost."""
        return self.predict_tokens([example.tokens for example in examples], True), None

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is a collection of strings, too
        self,
        texts: str,
        probabilities: bool = True,
        sentences: bool = True,
        constraints: Constraints | None = None,
        threshold: float = 0.0,
    ) -> list[Entity]: ...

    @overload
    def predict(
        self,
        texts: Collection[str],
        probabilities: bool = True,
        sentences: bool = True,
        constraints: Sequence[Constraints | None] | None = None,
        threshold: float = 0.0,
    ) -> list[list[Entity]]: ...

    def predict(self, texts, probabilities=True, sentences=True, constraints=None, threshold=0.0):
        """The entities of one text, in order; of several texts, those of each. Constraints are of each text, in its
        characters. Entities less probable than the threshold are not returned."""
        if isinstance(texts, str):
            return self.predict_in_batches([texts], [constraints], probabilities, sentences, threshold)[0]
        texts = listed(texts)
        own = checked_constraints(constraints, len(texts), "text")
        return self.predict_in_batches(texts, own, probabilities, sentences, threshold)

    def predict_in_batches(
        self,
        texts: Sequence[str],
        constraints: Sequence[Constraints | None],
        probabilities: bool,
        sentences: bool,
        threshold: float,
    ) -> list[list[Entity]]:
        """Do what `predict` does, for texts and constraints that are checked. Sentences of all texts share batches."""
        pieces = self.pieces(texts, sentences)
        if threshold != 0:
            constraints = [with_threshold(one, threshold, self.labels) for one in constraints]
        known = constraints_of_pieces(constraints, texts, pieces)
        entities: list[list[Entity]] = [[] for _ in texts]
        for piece, prediction in zip(pieces, self.predict_tokens(words_of(pieces), probabilities, known)):
            entities[piece.text] += entities_of(texts[piece.text], piece.tokens, prediction)
        return entities

    def coverage(self, texts: Collection[str], sentences: bool = True, margin: float = 0.0) -> list[Coverage]:
        """Compute how probable it is of each token of each text that it is part of an entity, by label. With a margin
        the filter keeps more than it does in prediction; infinity keeps all spans."""
        texts = listed(texts)
        pieces = self.pieces(texts, sentences)
        of_text: list[list[tuple[list[Token], Prediction]]] = [[] for _ in texts]
        for piece, prediction in zip(pieces, self.cover_tokens(words_of(pieces), margin)):
            of_text[piece.text].append((piece.tokens, prediction))
        return [coverage_of(text, self.labels, found) for text, found in zip(texts, of_text)]

    def stream(
        self,
        texts: Iterable[str],
        probabilities: bool = True,
        sentences: bool = True,
        constraints: Iterable[Constraints | None] | None = None,
        threshold: float = 0.0,
    ) -> Iterator[tuple[str, list[Entity]]]:
        """Each text with its entities, for texts without end: a thousand or so are held at once."""
        each = None if constraints is None else iter(constraints)
        for chunk in chunks_of(texts):
            known = None if each is None else list(islice(each, len(chunk)))
            yield from zip(chunk, self.predict(chunk, probabilities, sentences, known, threshold))

    def examples(
        self, texts: Iterable[str], sentences: bool = True, constraints: Iterable[Constraints | None] | None = None
    ) -> Iterator[Example]:
        """The sentences of texts, one after the other, with what the model finds in them as their segments."""
        each = None if constraints is None else iter(constraints)
        for chunk in chunks_of(texts):
            pieces = self.pieces(chunk, sentences)
            known = None if each is None else constraints_of_pieces(list(islice(each, len(chunk))), chunk, pieces)
            for piece, prediction in zip(pieces, self.predict_tokens(words_of(pieces), constraints=known)):
                offsets = tuple((token.start, token.end) for token in piece.tokens)
                words = tuple(token.text for token in piece.tokens)
                yield Example(words, tuple(prediction.segments), text=chunk[piece.text], offsets=offsets)

    def pieces(self, texts: Sequence[str], sentences: bool) -> list[Piece]:
        return [
            Piece(i, tokens)
            for i, text in enumerate(texts)
            for tokens in sequences_of_text(text, self.tokenizer, sentences)
        ]


class Piece(NamedTuple):
    """Tokens that are read as one sequence."""

    text: int  # which of the texts it is of
    tokens: list[Token]


def constraints_of_pieces(
    constraints: Sequence[Constraints | None], texts: Sequence[str], pieces: Sequence[Piece]
) -> list[Constraints | None] | None:
    """Constraints of texts as those of the pieces, in tokens; None where there are none at all."""
    if not any(constraints):
        return None
    of_text: list[list[Piece]] = [[] for _ in texts]
    for piece in pieces:
        of_text[piece.text].append(piece)
    known: list[Constraints | None] = []
    for text, one, own in zip(texts, constraints, of_text):
        known += placed(one, text, [piece.tokens for piece in own]) if one else [None] * len(own)
    return known


def words_of(pieces: Sequence[Piece]) -> list[list[str]]:
    return [[token.text for token in piece.tokens] for piece in pieces]


def chunks_of(
    texts: Iterable[str], most_texts: int | None = None, most_characters: int | None = None
) -> Iterator[list[str]]:
    """Group texts into chunks: enough to make full batches, few enough to hold."""
    most_texts, most_characters = most_texts or TEXTS_AT_ONCE, most_characters or CHARACTERS_AT_ONCE
    if isinstance(texts, str):  # whose characters would be the texts
        raise TypeError(f"texts must be several strings, got one: {texts[:40]!r}")
    chunk: list[str] = []
    characters = 0
    for number, text in enumerate(texts):
        _check_text(text, number)
        chunk.append(text)
        characters += len(text)
        if len(chunk) >= most_texts or characters >= most_characters:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def listed(texts: Collection[str]) -> list[str]:
    """Check the texts: a list, a column of a table, anything with a length."""
    if isinstance(texts, (str, bytes)):  # whose characters would be the texts
        raise TypeError(f"texts must be several strings, got one {type(texts).__name__}: {texts[:40]!r}")
    if not isinstance(texts, Collection):
        raise TypeError(
            f"texts must be a string or a list of them, got {type(texts).__name__}: `stream` takes iterators"
        )
    for number, text in enumerate(texts):
        _check_text(text, number)
    return list(texts)


def _check_text(text: object, number: int) -> None:
    if not isinstance(text, str):
        raise TypeError(
            f"a text must be a string, got {type(text).__name__} {text!r:.40} in row {number}, counted from 0"
        )


def entities_of(text: str, tokens: Sequence[Token], prediction: Prediction) -> list[Entity]:
    """Return the segments of tokens as entities of the text."""
    probabilities: Iterable[float | None] = prediction.probabilities or repeat(None)
    entities: list[Entity] = []
    around: list[int] = []  # the ends of those that the next one lies within: a container comes before what it contains
    for (first, last, label), probability in zip(prediction.segments, probabilities):
        while around and around[-1] <= first:
            around.pop()
        start, end = tokens[first].start, tokens[last - 1].end
        entities.append(Entity(start, end, label, text[start:end], probability, len(around)))
        around.append(last)
    return entities
