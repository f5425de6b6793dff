"""A trained model at work: text to entities, whatever its length."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import torch

from spansieve.data.example import Example
from spansieve.data.tokenizing import Token, Tokenizer, sequences_of_text, tokens_of_text
from spansieve.models.predicting import Found, predict_segments
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.prediction.analysing import Analysis, analyse_tokens, analysis_of, entities_of
from spansieve.segments import Entity

TEXTS_AT_ONCE = 1_024  # of a stream
CHARACTERS_AT_ONCE = 1_000_000  # with the text that goes beyond


def load(
    folder: str | Path,
    device: str | torch.device = "cpu",
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
) -> Predictor:
    """A model that `spansieve train` left in a folder. Needs no network and runs no code from the folder."""
    return Predictor(load_model(folder, device), tokenizer, batch_tokens)


class Predictor:
    """Finds the entities of texts. `text[e.start:e.end] == e.text` for each of them.

    Texts are cut into tokens by `tokenizer`. With `sentences=False` a text is one sequence, with one segmentation for
    all of it; otherwise each of its sentences is. Either may be of any length: nothing is cut off. At most
    `batch_tokens` are read at once, or one sequence; what comes out does not depend on it.
    """

    def __init__(self, tagger: Tagger, tokenizer: Tokenizer = tokens_of_text, batch_tokens: int | None = None) -> None:
        self.tagger, self.tokenizer, self.batch_tokens = tagger, tokenizer, batch_tokens

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tagger.labels.names

    @overload
    def predict(  # type: ignore[overload-overlap]  # a string is a collection of strings, too
        self, texts: str, probabilities: bool = True, sentences: bool = True
    ) -> list[Entity]: ...

    @overload
    def predict(
        self, texts: Collection[str], probabilities: bool = True, sentences: bool = True
    ) -> list[list[Entity]]: ...

    def predict(self, texts, probabilities=True, sentences=True):
        """The entities of one text, in order; of several texts, those of each."""
        if isinstance(texts, str):
            return self.predict_texts([texts], probabilities, sentences)[0]
        return self.predict_texts(texts, probabilities, sentences)

    def predict_texts(
        self, texts: Collection[str], probabilities: bool = True, sentences: bool = True
    ) -> list[list[Entity]]:
        """The entities of each text. Sentences of all of them share batches."""
        texts = _listed(texts)
        pieces = self._pieces(texts, sentences)
        entities: list[list[Entity]] = [[] for _ in texts]
        for piece, found in zip(pieces, self.predict_tokens(_words(pieces), probabilities)):
            entities[piece.text] += entities_of(texts[piece.text], piece.tokens, found)
        return entities

    def stream(
        self, texts: Iterable[str], probabilities: bool = True, sentences: bool = True
    ) -> Iterator[tuple[str, list[Entity]]]:
        """Each text with its entities, for texts without end: a thousand or so are held at once."""
        for chunk in _chunks(texts):
            yield from zip(chunk, self.predict_texts(chunk, probabilities, sentences))

    def predict_tokens(self, sentences: Sequence[Sequence[str]], probabilities: bool = False) -> list[Found]:
        """The segments of sentences that are tokens already."""
        return predict_segments(self.tagger, sentences, probabilities, batch_tokens=self.batch_tokens)

    @overload
    def analyse(  # type: ignore[overload-overlap]
        self, texts: str, top_k: int = 1, sentences: bool = True
    ) -> list[Analysis]: ...

    @overload
    def analyse(self, texts: Collection[str], top_k: int = 1, sentences: bool = True) -> list[list[Analysis]]: ...

    def analyse(self, texts, top_k=1, sentences=True):
        """How sure the model is of each sentence of a text: its `top_k` best readings, and the entropy."""
        if isinstance(texts, str):
            return self.analyse([texts], top_k, sentences)[0]
        texts = _listed(texts)
        pieces = self._pieces(texts, sentences)
        found: list[list[Analysis]] = [[] for _ in texts]
        for piece, one in zip(pieces, analyse_tokens(self.tagger, _words(pieces), top_k, self.batch_tokens)):
            found[piece.text].append(analysis_of(texts[piece.text], piece.tokens, one))
        return found

    def examples(self, texts: Iterable[str], sentences: bool = True) -> Iterator[Example]:
        """The sentences of texts, one after the other, with what the model finds in them as their segments."""
        for chunk in map(_listed, _chunks(texts)):
            pieces = self._pieces(chunk, sentences)
            for piece, found in zip(pieces, self.predict_tokens(_words(pieces))):
                offsets = tuple((token.start, token.end) for token in piece.tokens)
                words = tuple(token.text for token in piece.tokens)
                yield Example(words, tuple(found.segments), text=chunk[piece.text], offsets=offsets)

    def _pieces(self, texts: Sequence[str], sentences: bool) -> list[_Piece]:
        return [
            _Piece(i, tokens)
            for i, text in enumerate(texts)
            for tokens in sequences_of_text(text, self.tokenizer, sentences)
        ]


class _Piece(NamedTuple):
    """What is read as one sequence."""

    text: int  # which of the texts it is of
    tokens: list[Token]


def _words(pieces: Sequence[_Piece]) -> list[list[str]]:
    return [[token.text for token in piece.tokens] for piece in pieces]


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Enough texts to make full batches, few enough to hold."""
    if isinstance(texts, str):
        raise TypeError(f"texts must be several strings, got one: {texts[:40]!r}")
    chunk: list[str] = []
    characters = 0
    for text in texts:
        chunk.append(text)
        characters += len(text) if isinstance(text, str) else 0  # what is none is refused with the others
        if len(chunk) >= TEXTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _listed(texts: Collection[str]) -> list[str]:
    """Checked: a list, a column of a table, anything that knows how long it is."""
    if isinstance(texts, (str, bytes)):  # whose characters would be the texts
        raise TypeError(f"texts must be several strings, got one {type(texts).__name__}: {texts[:40]!r}")
    if not isinstance(texts, Collection):
        raise TypeError(
            f"texts must be a string or a list of them, got {type(texts).__name__}: `stream` takes iterators"
        )
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string, got {type(text).__name__}")
    return list(texts)
