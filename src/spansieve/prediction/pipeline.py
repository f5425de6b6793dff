"""Many texts through a model at the speed of its device: other processes prepare text ahead, and the host decodes one
batch while the device reads the next.

Axes: B sentences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Literal

import numpy as np
import torch

from spansieve.data.overlap_resolution import depths
from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.decoding.constraints import check_threshold
from spansieve.decoding.decoders import Decoded
from spansieve.decoding.prediction import Probability, check_choice
from spansieve.models.inference import MAX_SENTENCES, MAX_TOKENS, PreparedBatch, decoded_batches
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import TorchBackend
from spansieve.prediction.feature_workers import Prepared, PreparedAhead, Preparer
from spansieve.prediction.promises import Promise
from spansieve.prediction.text_predictor import decision_of
from spansieve.segments import Entity

Precision = Literal["fp32", "bf16"]
# In a batch, padding included; where the encoder reads subwords, of those. On a GPU many more, since the host takes as
# long to start a batch of any size and with fewer the GPU waits for it; on a CPU large batches take longer a word.
BATCH_TOKENS = {"cpu": MAX_TOKENS, "cuda": 32_768}
BATCH_SENTENCES = {"cpu": MAX_SENTENCES, "cuda": 4_096}


class Pipeline:
    """Predict many texts: the same entities as a `Predictor` finds. The tagger is the pipeline's from here on.

    `workers` processes prepare the text, or a thread. With bf16 the encoder reads in half precision; scoring and
    decoding stay in single precision. With a promise of the model's guarantee, what is found is under it; the
    objective is as `TextPredictor.with_objective` has it. To be closed, or used by `with`.
    """

    def __init__(
        self,
        tagger: Tagger,
        workers: int = 0,
        precision: Precision = "fp32",
        tokenizer: Tokenizer = tokens_of_text,
        sentences: bool = True,
        batch_tokens: int | None = None,
        probability: Probability = "given-candidates",
        promise: Promise | None = None,
        objective: str = "probability",
        preparer: Preparer | None = None,
    ) -> None:
        """Start a pipeline; with a `preparer` from an earlier one, what that has learned of words is not lost."""
        check_choice("precision", precision, Precision)
        check_choice("probability", probability, Probability)
        kind = "cuda" if tagger.device.type == "cuda" else "cpu"
        batch_tokens = BATCH_TOKENS[kind] if batch_tokens is None else batch_tokens
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        reader = tagger.encoder.reader()
        if reader is None:
            name = type(tagger.encoder).__name__
            raise ValueError(f"the encoder must have a reader, which prepares text ahead, got {name}: use a Predictor")
        if precision == "bf16":
            tagger.encoder.to(torch.bfloat16)
        if promise is not None:
            promise.check(probability := promise.probability)
        decision = decision_of(promise, objective, tagger.labels.names)
        self.backend = TorchBackend(tagger.eval(), probability, decision=decision)
        self.names = ("", *tagger.labels)  # by id: null has none
        self.preparer = preparer or Preparer(reader, tokenizer, sentences, batch_tokens, BATCH_SENTENCES[kind])
        self.prepared = PreparedAhead(self.preparer, workers)

    def stream(
        self, texts: Iterable[str], probabilities: bool = True, threshold: float = 0.0
    ) -> Iterator[tuple[str, list[Entity]]]:
        """Yield each text with its entities, less what is less probable than the threshold, in order; some chunks of
        texts are held at once."""
        check_threshold(threshold)
        nests = self.backend.support.takes_nested
        chunks: deque[ChunkOfTexts] = deque()  # whose batches are not all back

        def batches() -> Iterator[PreparedBatch]:
            for chunk_texts, prepared in self.prepared(texts):
                chunks.append(ChunkOfTexts(chunk_texts, prepared, self.names, nests, threshold))
                yield from prepared.batches

        for batch, decoded in decoded_batches(self.backend, batches(), probabilities or threshold > 0):
            while chunks[0].is_complete:  # or had no batches
                yield from chunks.popleft().entities()
            chunks[0].add(batch, decoded, probabilities)
        while chunks:
            yield from chunks.popleft().entities()

    def close(self) -> None:
        self.prepared.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ChunkOfTexts:
    """Texts whose entities come in batch by batch."""

    def __init__(
        self, texts: Sequence[str], prepared: Prepared, names: Sequence[str], nests: bool, threshold: float
    ) -> None:
        self._texts, self._prepared, self._names, self._nests = texts, prepared, names, nests
        self._threshold = threshold
        self._columns: list[tuple[np.ndarray, ...]] = []

    @property
    def is_complete(self) -> bool:
        return len(self._columns) == len(self._prepared.batches)

    def add(self, batch: PreparedBatch, decoded: Decoded, with_probabilities: bool) -> None:
        prepared, segments = self._prepared, decoded.segments
        sentence = np.asarray(batch.sentence)[segments.sentence]
        first = prepared.first[sentence]
        start, end = prepared.start[first + segments.start], prepared.end[first + segments.end - 1]
        columns = [prepared.text[sentence], start, end, segments.label]
        if decoded.probabilities is not None:
            is_likely = decoded.probabilities.astype(np.float64) >= self._threshold
            columns += [decoded.probabilities] if with_probabilities else []
            columns = [column[is_likely] for column in columns]
        self._columns.append(tuple(columns))

    def entities(self) -> Iterator[tuple[str, list[Entity]]]:
        """Yield each text with its entities. They are made text by text: those of a whole chunk at once would have the
        garbage collector go through all there is in the process, every few chunks."""
        texts, names = self._texts, self._names
        columns = [np.concatenate(column) for column in zip(*self._columns)] or [np.zeros(0, np.int64)] * 4
        # A container before what it contains, as a prediction has it.
        order = np.lexsort((-columns[2], columns[1], columns[0]))
        bounds = np.searchsorted(columns[0][order], np.arange(len(texts) + 1)).tolist()
        start, end, label, *probability = (column[order].tolist() for column in columns[1:])
        rows = zip(start, end, label, probability[0] if probability else repeat(None))
        for text, low, high in zip(texts, bounds, bounds[1:]):
            own = [Entity(a, z, names[y], text[a:z], p) for a, z, y, p in islice(rows, high - low)]
            if self._nests:
                own = [entity._replace(depth=depth) for entity, depth in zip(own, depths(own))]
            yield text, own
