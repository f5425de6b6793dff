"""A model run by torch, as the batch loop takes it.

Axes: B sentences, L tokens, K widths, Y labels, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.data.example import Example
from spansieve.decoding.constraints import Constraints, Rules, Support
from spansieve.decoding.coverage import Decision
from spansieve.decoding.decoders import Decoded, Decoder
from spansieve.decoding.prediction import Prediction, Probability
from spansieve.models.device_decoder import DeviceDecoder, device_decoder
from spansieve.models.filtered import FilteredHead, GraphCounts
from spansieve.models.inference import PreparedBatch, predict_with
from spansieve.models.tagger import Batch, Tagger

if TYPE_CHECKING:
    from spansieve.models.captured_prediction import CapturedPrediction

BATCHES_IN_FLIGHT = 3  # on the device or on their way back


class Scored(NamedTuple):
    """The scores of a batch, from which its head makes a distribution: `head.distribution_of(*scored)`."""

    scores: tuple[Tensor, ...]
    lengths: Tensor  # (B,)


OnBatch = Callable[[Any, Scored], None]  # which of the sentences, and their scores


def predict_segments(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    with_probabilities: bool = False,
    on_batch: OnBatch | None = None,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
    constraints: Sequence[Constraints | None] | None = None,
    captured: CapturedPrediction | None = None,
    decision: Decision | None = None,
) -> list[Prediction]:
    """Predict the best set of segments of each sentence. `on_batch` is called with the scores of each batch; a
    `decision` takes something else than the best set."""
    with evaluating(tagger):
        backend = TorchBackend(tagger, probability, on_batch, captured, decision)
        return predict_with(backend, sentences, with_probabilities, constraints, batch_tokens)


@contextmanager
def evaluating(tagger: Tagger) -> Iterator[None]:
    """Put a tagger into evaluation mode for a while: it takes half a millisecond to put it there, and again back."""
    was_training = tagger.training
    if was_training:
        tagger.eval()
    try:
        yield
    finally:
        if was_training:
            tagger.train()


def graph_counter(tagger: Tagger, examples: Sequence[Example]) -> tuple[list[GraphCounts], OnBatch | None]:
    """Make a list of counts, and what fills it batch by batch while the examples are predicted; None where the model
    does not filter."""
    head, counts = tagger.head, [GraphCounts()]

    def count(indices: Sequence[int], scored: Scored) -> None:
        assert isinstance(head, FilteredHead)
        counts.append(head.graph_counts(*scored, [tagger.known_segments(examples[i]) for i in indices]))

    return counts, count if isinstance(head, FilteredHead) else None


class TorchBackend:
    """A tagger, in evaluation mode, on its device."""

    def __init__(
        self,
        tagger: Tagger,
        probability: Probability = "given-candidates",
        on_batch: OnBatch | None = None,
        captured: CapturedPrediction | None = None,
        decision: Decision | None = None,
    ) -> None:
        """Take a tagger; with `captured`, which is of the same tagger, batches of few subwords are replayed. A
        `decision` is made on the host."""
        self.tagger, self.labels, self.device, self.on_batch = tagger, tagger.labels, tagger.device, on_batch
        self.sizes, self.features = tagger.encoder.sizes, tagger.encoder.features
        self.captured = captured if on_batch is None and self.device.type == "cuda" else None
        if captured is not None and self.device.type != "cuda" and captured.by_shape:
            captured.let_go()  # the tagger was moved
        self.depth = 0 if self.device.type == "cpu" else BATCHES_IN_FLIGHT
        self.with_filter, self.decision = probability == "with-filter", decision

    @property
    def support(self) -> Support:
        return self.tagger.head.decoder_settings.support(self.labels)

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of scores on the host. To make it waits for the device."""
        threads = torch.get_num_threads() if self.depth == 0 else 1
        decoder = self.tagger.head.decoder(threads, self.with_filter)
        return decoder if self.decision is None else decoder.deciding(self.decision)

    @cached_property
    def device_decoder(self) -> DeviceDecoder | None:
        if self.device.type != "cuda" or self.decision is not None:
            return None
        return device_decoder(self.decoder, self.device)

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        replayed = None
        if self.captured is not None:
            replayed = self.captured.launch(self, batch, with_probabilities, rules)
        return replayed or self.launch_kernels(batch, with_probabilities, rules)

    def launch_kernels(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        """Start on a batch kernel by kernel."""
        # `on_batch` may compute the k best, which come by way of gradients; inference mode has none.
        with torch.inference_mode() if self.on_batch is None else torch.no_grad():
            on_device = self.on_device(batch)
            scores = self.tagger.head.scores(self.tagger.vectors(on_device).float())
            if self.on_batch is not None:
                self.on_batch(batch.sentence, Scored(scores, on_device.lengths))
            return self.decode(scores, on_device.lengths, batch.lengths, with_probabilities, rules)

    def on_device(self, batch: PreparedBatch) -> Batch:
        """Copy a batch to the device by way of pinned memory, so that the host need not wait."""
        tensors = [torch.as_tensor(array) for array in (*batch.features.values(), batch.lengths)]
        if self.device.type == "cuda":
            tensors = [tensor.pin_memory() for tensor in tensors]
        *features, lengths = tensors
        return Batch(dict(zip(batch.features, features)), lengths).to(self.device)

    def decode(
        self,
        scores: tuple[Tensor, ...],
        device_lengths: Tensor,
        lengths: np.ndarray,
        with_probabilities: bool,
        rules: Sequence[Rules] | None,
    ) -> Callable[[], Decoded]:
        """Start to decode a batch, on the device where there is a kernel for it and there are no rules."""
        if self.depth == 0:
            decoded = self.decoder([part.numpy() for part in scores], lengths, with_probabilities, rules)
            return lambda: decoded
        if self.device_decoder is None or rules is not None:
            arrays = to_host([part.contiguous() for part in scores])
            return lambda: self.decoder(arrays(), lengths, with_probabilities, rules)
        return self.device_decoder.decode(scores, device_lengths, lengths, with_probabilities)


def to_host(tensors: Sequence[Tensor]) -> Callable[[], list[np.ndarray]]:
    """Start to copy tensors to pinned memory; what is returned waits for them, and for nothing after them."""
    if not tensors[0].is_cuda:
        arrays = [tensor.numpy() for tensor in tensors]
        return lambda: arrays
    pinned = [
        torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        for tensor in tensors
    ]
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(tensors[0].device))  # another device may be current

    def wait() -> list[np.ndarray]:
        copied.synchronize()
        return [tensor.numpy() for tensor in pinned]

    return wait
