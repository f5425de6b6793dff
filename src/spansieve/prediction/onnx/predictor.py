"""An exported model over texts.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from spansieve.data.lexicon import Lexicon
from spansieve.data.tokenizing import Tokenizer, tokens_of_text
from spansieve.models.constraints import NO_RULES, Constraints, Rules, Support, alike, checked_constraints
from spansieve.models.found import (
    MOST_SENTENCES,
    MOST_TOKENS,
    Documents,
    Found,
    Probability,
    check_probability,
    readable_sentences,
)
from spansieve.models.hearing import ArrayCells, HeardBatch, hear
from spansieve.models.listening import Listening, News
from spansieve.models.planning import Most, checked_documents, planned
from spansieve.prediction.cores import usable_cores
from spansieve.prediction.onnx.decoding import NESTED, Decoder, Setting, decoder_of
from spansieve.prediction.onnx.folder import DECODER, LEXICON, SCORERS, ExportError, Manifest, read_manifest
from spansieve.prediction.onnx.graphs import Graph
from spansieve.prediction.onnx.reading import Encoder, encoder_of
from spansieve.prediction.texts import TextPredictor
from spansieve.segments import NamedSegment

BLOCK = 256  # tokens whose spans are scored at once: the hidden layer over them stays in the cache


def load(
    folder: str | Path,
    threads: int | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> OnnxPredictor:
    """A model that `spansieve export` left in a folder, on so many threads of the CPU, by default one for each core.
    Needs no network and no torch, and runs no code from the folder."""
    check_probability(probability)
    folder, threads = Path(folder), threads or usable_cores()
    manifest = read_manifest(folder)
    arrays = _decoder_arrays(folder / DECODER)
    decoder = decoder_of(Setting(manifest, arrays, threads, probability == "with-filter"))
    encoder, scorers = encoder_of(folder, manifest, threads), Graph(folder / SCORERS, threads)
    lexicon = _lexicon(folder / LEXICON, len(arrays["transition"])) if manifest.has_lexicon else None
    return OnnxPredictor(manifest, encoder, scorers, decoder, lexicon, tokenizer, batch_tokens)


class Scored(NamedTuple):
    """A batch."""

    indices: Sequence[int]  # which of the sentences
    lengths: np.ndarray  # (B,)
    scores: list[np.ndarray]  # (B, L, …) each


class OnnxPredictor(TextPredictor):
    """What `spansieve.prediction.predictor.Predictor` gives, without torch. At most `batch_tokens` are read at once, or
    one sequence; what comes out does not depend on it."""

    def __init__(
        self,
        manifest: Manifest,
        encoder: Encoder,
        scorers: Graph,
        decoder: Decoder,
        lexicon: Lexicon | None = None,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(tokenizer)
        if batch_tokens is not None and batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.manifest, self.batch_tokens = manifest, batch_tokens
        self._encoder, self._scorers, self._decoder = encoder, scorers, decoder
        self._listening = Listening.of(manifest.model, manifest.max_width, lexicon)
        # Spans that start in one block of tokens end in the next.
        self._beyond = 0 if manifest.model.head == "crf" else manifest.max_width - 1

    @property
    def labels(self) -> tuple[str, ...]:
        return self.manifest.labels.names

    def predict_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        probabilities: bool = False,
        constraints: Sequence[Constraints | None] | None = None,
        documents: Documents | None = None,
    ) -> list[Found]:
        """The segments of sentences that are tokens already; constraints, one per sentence, are in tokens, and
        documents, one per sentence, say which of them belong together."""
        readable = readable_sentences(sentences)
        rules = list(map(self._support.rules, checked_constraints(constraints, len(readable)), readable))
        documents = checked_documents(documents, len(readable), self._listening.to_documents)
        found = [Found([], [] if probabilities else None) for _ in readable]
        groups = [[i for i in group if readable[i]] for group in alike(rules)]
        most = Most(self.batch_tokens or MOST_TOKENS, MOST_SENTENCES)
        for batches in planned(self._encoder.sizes(readable), groups, documents, most):
            scored = [self._scored(indices, readable) for indices in batches]
            if documents is not None or self._listening.to_lexicon:
                self._hear(scored, self._listening.news(readable, documents, chain.from_iterable(batches)))
            for one in scored:
                found_there = self._found(one, [rules[i] for i in one.indices], probabilities)
                for i, of_sentence in zip(one.indices, found_there):
                    found[i] = of_sentence
        return found

    def _scored(self, indices: Sequence[int], sentences: Sequence[Sequence[str]]) -> Scored:
        """A batch, in which no sentence is empty."""
        read = [sentences[i] for i in indices]
        lengths = np.fromiter(map(len, read), np.int64, len(read))
        return Scored(indices, lengths, self._scores(self._encoder.vectors(read)))

    def _hear(self, batches: Sequence[Scored], news: News) -> None:
        ready = [
            HeardBatch(
                one.indices,
                ArrayCells(one.scores[-1]),
                self._decoder.candidates(one.scores, one.lengths) if news.is_of_documents else None,
            )
            for one in batches
        ]
        hear(ready, news, self._listening)

    @property
    def _support(self) -> Support:
        manifest = self.manifest
        head, widest = manifest.model.head, manifest.max_width
        return Support(manifest.labels, lambda s: head == "crf" or s.width <= widest, widest, head in NESTED)

    def _found(self, scored: Scored, rules: Sequence[Rules], with_probabilities: bool) -> list[Found]:
        has_rules = any(one != NO_RULES for one in rules)
        decoded = self._decoder(scored.scores, scored.lengths, with_probabilities, rules if has_rules else None)
        name = self.manifest.labels.name
        named = [[NamedSegment(s.start, s.end, name(s.label)) for s in found] for found in decoded.segments]
        probabilities: Sequence[list[float] | None] = decoded.probabilities or [None] * len(named)
        return [Found(*one) for one in zip(named, probabilities)]

    def _scores(self, vectors: np.ndarray) -> list[np.ndarray]:
        """(B, L, …) each, a block of tokens at a time: no text is too long for the hidden layer over its spans."""
        num_sentences, num_tokens, _ = vectors.shape
        rows = max(1, BLOCK // num_tokens)
        scores: list[np.ndarray] = []
        for b in range(0, num_sentences, rows):
            for low in range(0, num_tokens, BLOCK):
                block = vectors[b : b + rows, low : low + BLOCK + self._beyond]
                parts = self._scorers({"tokens": block})
                if not scores:
                    scores = [np.empty((num_sentences, num_tokens, *part.shape[2:]), part.dtype) for part in parts]
                for all_scores, part in zip(scores, parts):
                    all_scores[b : b + rows, low : low + BLOCK] = part[:, :BLOCK]
        return scores


def _lexicon(path: Path, num_labels: int) -> Lexicon:
    try:
        return Lexicon.from_json(path.read_text(encoding="utf-8"), num_labels)
    except (OSError, ValueError) as error:
        raise ExportError(f"{path} is damaged: {error}") from error


def _decoder_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ExportError(f"{path} must hold plain arrays: {error}") from error
