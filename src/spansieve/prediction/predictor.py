"""A trained model at work: text to entities, whatever its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from spansieve.data.example import Example
from spansieve.data.tokenizing import Token, sentences_of_text
from spansieve.models.predicting import Found, predict_segments
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.segments import Entity

TEXTS_AT_ONCE = 256  # of a stream


def load(folder: str | Path, device: str | torch.device = "cpu") -> Predictor:
    """A model that `spansieve train` left in a folder. Needs no network and runs no code from the folder."""
    return Predictor(load_model(folder, device))


class Predictor:
    """Finds the entities of texts. `text[e.start:e.end] == e.text` for each of them."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tagger.labels.names

    def predict(self, text: str, probabilities: bool = True) -> list[Entity]:
        """The entities of one text, in order."""
        return self.predict_texts([text], probabilities)[0]

    def predict_texts(self, texts: Sequence[str], probabilities: bool = True) -> list[list[Entity]]:
        """The entities of each text. Sentences of all of them share batches."""
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"a text must be a string, got {type(text).__name__}")
        sentences: list[list[Token]] = []
        owner: list[int] = []
        for i, text in enumerate(texts):
            found = sentences_of_text(text)
            sentences += found
            owner += [i] * len(found)
        tokens = [[token.text for token in sentence] for sentence in sentences]
        entities: list[list[Entity]] = [[] for _ in texts]
        for i, sentence, one in zip(owner, sentences, predict_segments(self.tagger, tokens, probabilities)):
            entities[i] += _entities(texts[i], sentence, one)
        return entities

    def stream(self, texts: Iterable[str], probabilities: bool = True) -> Iterator[tuple[str, list[Entity]]]:
        """Each text with its entities, for texts without end: a few hundred are held at once."""
        waiting = iter(texts)
        while chunk := list(islice(waiting, TEXTS_AT_ONCE)):
            yield from zip(chunk, self.predict_texts(chunk, probabilities))

    def predict_tokens(self, sentences: Sequence[Sequence[str]], probabilities: bool = False) -> list[Found]:
        """The segments of sentences that are tokens already."""
        return predict_segments(self.tagger, sentences, probabilities)

    def examples(self, texts: Iterable[str]) -> Iterator[Example]:
        """The sentences of texts, one after the other, with what the model finds in them as their segments."""
        waiting = iter(texts)
        while chunk := list(islice(waiting, TEXTS_AT_ONCE)):
            sentences = [(text, sentence) for text in chunk for sentence in sentences_of_text(text)]
            found = self.predict_tokens([[token.text for token in sentence] for _, sentence in sentences])
            for (text, sentence), one in zip(sentences, found):
                offsets = tuple((token.start, token.end) for token in sentence)
                yield Example(tuple(token.text for token in sentence), tuple(one.segments), text=text, offsets=offsets)


def _entities(text: str, tokens: Sequence[Token], found: Found) -> list[Entity]:
    probabilities: Sequence[float | None] = found.probabilities or [None] * len(found.segments)
    entities = []
    for segment, probability in zip(found.segments, probabilities):
        start, end = tokens[segment.start].start, tokens[segment.end - 1].end
        entities.append(Entity(start, end, segment.label, text[start:end], probability))
    return entities
