"""An exported model over texts.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from spansieve.data.batching import batches_of_groups
from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.models.constraints import NO_RULES, Constraints, Rules, Support, alike, checked_constraints
from spansieve.models.found import (
    MOST_SENTENCES,
    MOST_TOKENS,
    Found,
    Probability,
    check_probability,
    readable_sentences,
)
from spansieve.prediction.cores import usable_cores
from spansieve.prediction.onnx.decoding import NESTED, Decoder, Setting, decoder_of
from spansieve.prediction.onnx.encoder import Encoder, encoder_of
from spansieve.prediction.onnx.folder import DECODER, SCORERS, ExportError, Manifest, read_manifest
from spansieve.prediction.onnx.session import Graph
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.segments import NamedSegment

BLOCK = 256  # tokens whose spans are scored at once: the hidden layer over them stays in the cache


def load(
    folder: str | Path,
    threads: int | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> OnnxPredictor:
    """Load a model that `spansieve export` wrote, on so many threads of the CPU, by default one for each core. Needs no
    network and no torch, and runs no code from the folder."""
    check_probability(probability)
    folder, threads = Path(folder), threads or usable_cores()
    manifest = read_manifest(folder)
    arrays = _decoder_arrays(folder / DECODER)
    decoder = decoder_of(Setting(manifest, arrays, threads, probability == "with-filter"))
    encoder, scorers = encoder_of(folder, manifest, threads), Graph(folder / SCORERS, threads)
    return OnnxPredictor(manifest, encoder, scorers, decoder, tokenizer, batch_tokens)


class OnnxPredictor(TextPredictor):
    """A predictor with onnxruntime, without torch. At most `batch_tokens` are read at once, or one sequence; what comes
    out does not depend on it."""

    def __init__(
        self,
        manifest: Manifest,
        encoder: Encoder,
        scorers: Graph,
        decoder: Decoder,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(tokenizer)
        if batch_tokens is not None and batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.manifest, self.batch_tokens = manifest, batch_tokens
        self._encoder, self._scorers, self._decoder = encoder, scorers, decoder
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
    ) -> list[Found]:
        """The segments of sentences that are tokens already; constraints, one per sentence, are in tokens."""
        readable = readable_sentences(sentences)
        rules = list(map(self._support.rules, checked_constraints(constraints, len(readable)), readable))
        found = [Found([], [] if probabilities else None) for _ in readable]
        groups = [[i for i in group if readable[i]] for group in alike(rules)]
        most_tokens = self.batch_tokens or MOST_TOKENS
        for indices in batches_of_groups(self._encoder.sizes(readable), groups, most_tokens, MOST_SENTENCES):
            read, own_rules = [readable[i] for i in indices], [rules[i] for i in indices]
            for i, of_sentence in zip(indices, self._found(read, own_rules, probabilities)):
                found[i] = of_sentence
        return found

    @property
    def _support(self) -> Support:
        manifest = self.manifest
        head, widest = manifest.model.head, manifest.max_width
        return Support(manifest.labels, lambda s: head == "crf" or s.width <= widest, widest, head in NESTED)

    def _found(
        self, sentences: Sequence[Sequence[str]], rules: Sequence[Rules], with_probabilities: bool
    ) -> list[Found]:
        """The predictions of a batch, in which no sentence is empty."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        scores = self._scores(self._encoder.vectors(sentences))
        has_rules = any(one != NO_RULES for one in rules)
        decoded = self._decoder(scores, lengths, with_probabilities, rules if has_rules else None)
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


def _decoder_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ExportError(f"{path} must hold plain arrays: {error}") from error
