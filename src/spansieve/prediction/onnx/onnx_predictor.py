"""An exported model over texts.

Axes: B sentences, L tokens, U distinct words, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import prod
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np

from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.decoding.constraints import Rules
from spansieve.decoding.coverage import Decision
from spansieve.decoding.decoders import Decoded, Decoder, decoder_shapes
from spansieve.decoding.prediction import Prediction, Probability, check_choice
from spansieve.models.inference import PreparedBatch, predict_with
from spansieve.nn.subwords import SubwordCache, SubwordLayout, pooled
from spansieve.nn.word_features import WordFeatures
from spansieve.nn.word_vectors import WordVectors
from spansieve.persistence.manifest import ModelError, refusing
from spansieve.prediction.onnx.folder import BESIDE, DECODER, ENCODER, SCORERS, TOKENIZER, Description, read_description
from spansieve.prediction.onnx.graph_validation import check_graph
from spansieve.prediction.onnx.session import Session, openmp_threads
from spansieve.prediction.promises import promise_for
from spansieve.prediction.text_predictor import TextPredictor

if TYPE_CHECKING:
    import tokenizers

MAX_HEADER = 4_096  # bytes that an array takes in a file beside its numbers
MOST_SUBWORDS = 16_384  # read at once, padding included
BLOCK = 256  # tokens whose spans are scored at once: the hidden layer over them stays in the cache


def load(
    folder: str | Path,
    threads: int | None = None,
    tokenizer: Tokenizer = tokens_of_text,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
    guarantee: str | None = None,
    objective: str = "probability",
) -> OnnxPredictor:
    """Load a model that `spansieve export` wrote, on so many threads of the CPU, by default OMP_NUM_THREADS or one for
    each core. Needs no network and no torch, and runs no code from the folder. `guarantee` and `objective` are as
    `spansieve.load` has them."""
    check_choice("probability", probability, Probability)
    folder, threads = Path(folder), threads or openmp_threads()
    promise = None if guarantee is None else promise_for(folder, guarantee)
    description = read_description(folder)
    with refusing(f"{folder / DECODER} cannot be used"):
        arrays = _decoder_arrays(folder / DECODER, decoder_shapes(description.decoder, description.labels))
        decoder = Decoder(description.decoder, description.labels, arrays, threads, probability == "with-filter")

    def backend(is_trial: bool) -> OnnxBackend:
        encoder = _encoder_of(folder, description, threads, is_trial)
        return OnnxBackend(description, encoder, Session(folder / SCORERS, threads, is_trial), decoder)

    check_graph(folder / ENCODER, ENCODER + BESIDE if (folder / (ENCODER + BESIDE)).is_file() else None)
    check_graph(folder / SCORERS)
    with refusing(f"{folder} holds a model that does not run"):
        predict_with(backend(is_trial=True), [["a", "b", "c"], ["a"]], with_probabilities=True)
    predictor = OnnxPredictor(description, backend(is_trial=False), tokenizer, batch_tokens, probability)
    return predictor.under(promise).with_objective(objective)


class OnnxPredictor(TextPredictor):
    """A predictor with onnxruntime, without torch."""

    def __init__(
        self,
        description: Description,
        backend: OnnxBackend,
        tokenizer: Tokenizer = tokens_of_text,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
    ) -> None:
        about = (description.labels, description.model.head, description.decoder)
        super().__init__(*about, tokenizer, batch_tokens, probability)
        self.description, self.backend = description, backend

    def _run(self, sentences, decision, probabilities, constraints) -> list[Prediction]:
        backend = self.backend if decision is None else self.backend.deciding(decision)
        return predict_with(backend, sentences, probabilities, constraints, self.batch_tokens)


class OnnxBackend:
    """A model run by ONNX Runtime on the CPU, as the batch loop takes it."""

    depth = 0

    def __init__(self, description: Description, encoder: Encoder, scorers: Session, decoder: Decoder) -> None:
        self.labels, self.support = description.labels, description.decoder.support(description.labels)
        self.sizes, self.features = encoder.sizes, encoder.features
        self._encoder, self._scorers, self._decoder = encoder, scorers, decoder
        # Spans that start in one block of tokens end in the next.
        self._beyond = (self.support.max_width or 1) - 1

    def deciding(self, decision: Decision) -> OnnxBackend:
        """Return the same model with a decoder that takes something else than the best segmentation."""
        backend = copy(self)
        backend._decoder = self._decoder.deciding(decision)
        return backend

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        scores = self._scores(self._encoder.vectors(batch.features))
        decoded = self._decoder(scores, batch.lengths, with_probabilities, rules)
        return lambda: decoded

    def _scores(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Compute the scores, (B, L, …) each, a block of tokens at a time: no text is too long for the hidden layer."""
        num_sentences, num_tokens, _ = vectors.shape
        rows = max(1, BLOCK // num_tokens)
        scores: list[np.ndarray] = []
        for b in range(0, num_sentences, rows):
            for low in range(0, num_tokens, BLOCK):
                block = vectors[b : b + rows, low : low + BLOCK + self._beyond]
                parts = self._scorers({"tokens": block})
                if any(part.shape[:2] != block.shape[:2] for part in parts):  # the decoder checks the rest of the shape
                    shapes = ", ".join(str(part.shape) for part in parts)
                    raise ModelError(f"{SCORERS} must give scores of {block.shape[:2]} tokens, got {shapes}")
                # No span is wider than the sentence.
                parts = [part if part.ndim < 4 else part[:, :, : max(num_tokens, 1)] for part in parts]
                if block.shape[:2] == vectors.shape[:2]:
                    return parts
                if not scores:
                    scores = [np.empty((num_sentences, num_tokens, *part.shape[2:]), part.dtype) for part in parts]
                for all_scores, part in zip(scores, parts):
                    all_scores[b : b + rows, low : low + BLOCK] = part[:, :BLOCK]
        return scores


# ---- Sentences to a vector per token --------------------------------------------------------------------------------


def _encoder_of(folder: Path, description: Description, threads: int, is_trial: bool = False) -> Encoder:
    session = Session(folder / ENCODER, threads, is_trial)
    if description.layout is None:
        with refusing(f"{folder} has word vectors that cannot be used"):
            vectors = WordVectors.load(folder) if description.model.builtin.vectors is not None else None
        return WordEncoder(session, WordFeatures(description.model.builtin.rows, vectors))
    import tokenizers

    with refusing(f"{folder / TOKENIZER} is no tokenizer"):  # tokenizers may even panic
        tokenizer = tokenizers.Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
        tokenizer.encode_special_tokens = description.splits_special
    return SubwordEncoder(session, tokenizer, description.layout, description.model.encoder.pooling)


class WordEncoder:
    """The built-in encoder: hashed features of each distinct word."""

    def __init__(self, session: Session, words: WordFeatures) -> None:
        self._session, self.features = session, words.of_sentences

    def vectors(self, features: dict[str, np.ndarray]) -> np.ndarray:
        """Compute the vectors of tokens, (B, L, D)."""
        return _vectors(self._session(word_inputs(features)), features["words"].shape)

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """The size of each sentence as input: sentences of one batch should be alike in it."""
        return [len(sentence) for sentence in sentences]


def word_inputs(features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The features of words as the graph takes them: ONNX has sums over pieces by the word of each."""
    counts = np.diff(features["gram_offsets"], append=len(features["grams"]))  # (U,): the pieces of each word
    return {**features, "gram_counts": counts, "gram_words": np.repeat(np.arange(len(counts)), counts)}


class SubwordEncoder:
    """A Hugging Face encoder: windows of subwords, of which each keeps the vector that is its best-centred one."""

    def __init__(self, session: Session, tokenizer: tokenizers.Tokenizer, layout: SubwordLayout, pooling: str) -> None:
        self._session, self._layout, self._pooling = session, layout, pooling
        self._cache = SubwordCache(tokenizer)
        self.sizes = self._cache.counts

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self._layout.features(sentences, self._cache)

    def vectors(self, features: dict[str, np.ndarray]) -> np.ndarray:
        first, last = features["first"], features["last"]
        subwords = self._subwords(features)
        vectors = pooled(subwords, first, last, self._pooling).astype(subwords.dtype, copy=False)
        vectors[np.arange(first.shape[1]) >= features["num_tokens"][:, None]] = 0.0
        return vectors

    def _subwords(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """(P, D): what the windows keep, which is in order. A few windows at a time, so that a text of any length takes
        no more memory than a batch does."""
        names: tuple[str, ...] = ("input_ids", "attention_mask", "casing")
        inputs = {name: arrays[name] for name in names if name in arrays}
        kept = arrays["kept"]
        num_windows, width = arrays["input_ids"].shape
        most = max(1, MOST_SUBWORDS // width)
        parts = []
        for low in range(0, num_windows, most):
            part = {name: array[low : low + most] for name, array in inputs.items()}
            read = _vectors(self._session(part), part["input_ids"].shape)  # (W, S, D)
            here = kept[np.searchsorted(kept, low * width) : np.searchsorted(kept, (low + most) * width)]
            parts.append(read.reshape(-1, read.shape[-1])[here - low * width])
        return np.concatenate(parts)


def _vectors(outputs: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Check that a graph has computed one vector for each of what it was given."""
    if len(outputs) != 1 or outputs[0].ndim != 3 or outputs[0].shape[:2] != shape or outputs[0].dtype != np.float32:
        shapes = ", ".join(f"{array.shape} {array.dtype}" for array in outputs)
        raise ModelError(f"{ENCODER} must give float32 vectors of shape {(*shape, 'D')}, got {shapes}")
    return outputs[0]


Encoder = WordEncoder | SubwordEncoder

# ---- Arrays of the decoder -------------------------------------------------------------------------------------------


def _decoder_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Read the arrays of these shapes, and no others: a file may say that they are far larger than itself."""
    with refusing(f"{path} must hold plain arrays"), path.open("rb") as file:
        size = path.stat().st_size
        if size > (most := sum(4 * prod(shape) + MAX_HEADER for shape in shapes.values())):
            raise ModelError(f"{path} must have at most {most:,} bytes, for the labels of the model, got {size:,}")
        with ZipFile(file) as archive:
            names = [name for name in shapes if f"{name}.npy" in archive.namelist()]
            return {name: _array(archive, name, shapes[name]) for name in names}


def _array(archive: ZipFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read an array after its header, which comes before memory is taken for it."""
    with archive.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        given, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if given != shape or dtype != np.float32 or is_fortran:
            raise ModelError(f"{name} must be numbers of shape {shape}, got {dtype} of shape {shorten(str(given), 40)}")
        return np.frombuffer(file.read(4 * prod(shape)), np.float32).reshape(shape)
