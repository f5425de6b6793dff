"""Many texts through a model at the speed of its device: other processes prepare text ahead, and the host decides on
one batch while the device reads the next.

Axes: B sentences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import Distribution
from spansieve.crf.filtered_cuda import FilteredOnCuda
from spansieve.data.nesting import depths
from spansieve.data.tokenizer import Tokenizer, tokens_of_text
from spansieve.models.tagger import Batch, Tagger
from spansieve.nn.builtin_encoder import BuiltinEncoder
from spansieve.nn.encoder import Encoder
from spansieve.prediction.feature_workers import Prepared, PreparedAhead, PreparedBatch, Preparer
from spansieve.prediction.host_transfer import Decided, Landing
from spansieve.prediction.readers import Reader, SubwordReader, WordReader
from spansieve.segments import Entity

Precision = Literal["fp32", "bf16"]
BATCH_TOKENS = 16_384  # in a batch, padding included; where the encoder reads subwords, of those
BATCH_SENTENCES = 2_048
BATCHES_IN_FLIGHT = 3  # on the device or on their way back
READY_MASKS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # the encoders that take them


Deciding = Callable[[], Decided]  # waits for the device where it must


class Pipeline:
    """Predict many texts: the same entities as a `Predictor` finds. The tagger is the pipeline's from here on.

    `workers` processes prepare the text, or a thread. With bf16 the encoder reads in half precision; what scores the
    spans and decides stays in single precision. To be closed, or used by `with`.
    """

    def __init__(
        self,
        tagger: Tagger,
        workers: int = 0,
        precision: Precision = "fp32",
        tokenizer: Tokenizer = tokens_of_text,
        sentences: bool = True,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        if precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}, got {precision!r}")
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.tagger = tagger.eval()
        self.device = tagger.device
        self.names = ("", *tagger.labels)  # by id: null has none
        self.nests = tagger.head.takes_nested
        self._transition: np.ndarray | None = None  # on the host, once it was needed
        self.preparer = Preparer(reader_of(tagger.encoder), tokenizer, sentences, batch_tokens, BATCH_SENTENCES)
        self.prepared = PreparedAhead(self.preparer, workers)
        if precision == "bf16":
            tagger.encoder.to(torch.bfloat16)

    def stream(self, texts: Iterable[str], probabilities: bool = True) -> Iterator[tuple[str, list[Entity]]]:
        """Each text with its entities, in order; some chunks of texts are held at once."""
        flying: deque[tuple[ChunkOfTexts, PreparedBatch, Deciding]] = deque()
        for chunk_texts, prepared in self.prepared(texts):
            chunk = ChunkOfTexts(chunk_texts, prepared, self.names, probabilities, self.nests)
            if chunk.is_complete:  # nothing to read in it; those before it come first
                while flying:
                    yield from self._landed(*flying.popleft())
                yield from chunk.entities()
            for batch in prepared.batches:
                flying.append((chunk, batch, self.launch(self.on_device(batch), batch.lengths, probabilities)))
                if len(flying) > BATCHES_IN_FLIGHT:
                    yield from self._landed(*flying.popleft())
        while flying:
            yield from self._landed(*flying.popleft())

    @staticmethod
    def _landed(chunk: ChunkOfTexts, batch: PreparedBatch, deciding: Deciding) -> Iterator[tuple[str, list[Entity]]]:
        chunk.add(batch, deciding())
        if chunk.is_complete:
            yield from chunk.entities()

    def on_device(self, batch: PreparedBatch) -> Batch:
        """Copy a batch to the device by way of pinned memory, so that the host need not wait."""
        features = {name: self._pinned(array) for name, array in batch.features.items()}
        made = Batch(features, self._pinned(batch.lengths)).to(self.device)
        if self.device.type == "cuda" and takes_ready_masks(self.tagger.encoder):
            made.features.update(attention_mask=ready_mask(made.features["attention_mask"]))
        return made

    def _pinned(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    @torch.inference_mode()
    def launch(self, batch: Batch, lengths: np.ndarray, probabilities: bool) -> Deciding:
        """Start the device on a batch and, where the model's candidates can be packed there, return while it works.
        `lengths` are the batch's, on the host."""
        return self.decide(self.tagger.head.scores(self.token_vectors(batch)), batch.lengths, lengths, probabilities)

    def token_vectors(self, batch: Batch) -> Tensor:
        """The vectors of tokens, (B, L, D), in single precision."""
        return self.tagger.vectors(batch).float()

    def decide(
        self, scores: tuple[Tensor, ...], lengths_there: Tensor, lengths: np.ndarray, probabilities: bool
    ) -> Deciding:
        """Decode the head's scores; the lengths on their device and here."""
        distribution = self.tagger.head.distribution_of(scores, lengths_there)
        if not isinstance(distribution, FilteredOnCuda):
            decided = self._decided(distribution, probabilities)
            return lambda: decided
        if self._transition is None:
            self._transition = distribution.transition.detach().cpu().numpy()
        landing = Landing(distribution.is_candidate, distribution.dense_scores)
        transition, skip = self._transition, bool(distribution.skip)
        return lambda: landing.decide(lengths, transition, skip, probabilities)

    def _decided(self, distribution: Distribution, probabilities: bool) -> Decided:
        found = self.tagger.segments(distribution)
        sentence = np.repeat(np.arange(len(found)), [len(segments) for segments in found])
        start, end, label = np.array([s for segments in found for s in segments], np.int64).reshape(-1, 3).T
        shares = self.tagger.head.probabilities(distribution, found) if probabilities else None
        probability = None if shares is None else np.array([share for each in shares for share in each])
        return Decided(sentence, start, end, label, probability)

    def close(self) -> None:
        self.prepared.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def reader_of(encoder: Encoder) -> Reader:
    """The half of an encoder that can run in other processes."""
    if isinstance(encoder, BuiltinEncoder):
        return WordReader(encoder.word_features)
    pretrained = cast(Any, encoder)
    return SubwordReader(pretrained.layout, pretrained.tokenizer.backend_tokenizer)


def takes_ready_masks(encoder: Encoder) -> bool:
    if not encoder.is_pretrained:
        return False
    config: Any = cast(Any, encoder).model.config
    return config.model_type in READY_MASKS and config._attn_implementation == "sdpa"


def ready_mask(mask: Tensor) -> Tensor:
    """Reshape an attention mask from (W, S) to (W, 1, 1, S). transformers checks the one for whether it masks anything
    at all, which synchronises the host; the other it takes as it is."""
    return mask.bool()[:, None, None, :]


# ---- Back to text ----------------------------------------------------------------------------------------------------


class ChunkOfTexts:
    """Texts whose entities come in batch by batch, in any order."""

    def __init__(
        self, texts: Sequence[str], prepared: Prepared, names: Sequence[str], with_probabilities: bool, nests: bool
    ) -> None:
        self._texts, self._prepared, self._names = texts, prepared, names
        self._with_probabilities, self._nests = with_probabilities, nests
        self._found: list[tuple[np.ndarray, ...]] = []

    @property
    def is_complete(self) -> bool:
        return len(self._found) == len(self._prepared.batches)

    def add(self, batch: PreparedBatch, decided: Decided) -> None:
        place, known = self._prepared, batch.sentence[decided.sentence]
        first = place.first[known]
        start, end = place.start[first + decided.start], place.end[first + decided.end - 1]
        probability = () if decided.probability is None else (decided.probability,)
        self._found.append((place.text[known], start, end, decided.label, *probability))

    def entities(self) -> Iterator[tuple[str, list[Entity]]]:
        texts, names = self._texts, self._names
        entities: list[list[Entity]] = [[] for _ in texts]
        if self._found:
            columns = [np.concatenate(column) for column in zip(*self._found)]
            order = np.lexsort((columns[1], columns[0]))
            text, start, end, label, *probability = (column[order].tolist() for column in columns)
            shares = probability[0] if self._with_probabilities else repeat(None)
            for i, a, z, y, share in zip(text, start, end, label, shares):
                entities[i].append(Entity(a, z, names[y], texts[i][a:z], share))
        if self._nests:
            entities = [[e._replace(depth=d) for e, d in zip(found, depths(found))] for found in entities]
        return zip(texts, entities)
