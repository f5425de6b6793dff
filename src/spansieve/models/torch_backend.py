"""A model run by torch, as the batch loop takes it.

Axes: B sentences, L tokens, K widths, Y labels, D features, N candidates, R slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from spansieve.crf import SemiMarkov
from spansieve.crf.candidates import kept_mask
from spansieve.crf.filtered_by_device import FilteredOnCuda
from spansieve.crf.flat_segments import FlatSegments, dense_index, flat_segments, segments_at
from spansieve.crf.kernels import ScoreError
from spansieve.data.example import Example
from spansieve.decoding.constraints import Constraints, Rules
from spansieve.decoding.decoders import Decoded, Decoder
from spansieve.decoding.decoders import decode as decode_batch
from spansieve.decoding.prediction import Prediction, Probability, check_probability
from spansieve.models.filtered import FilteredHead, GraphCounts
from spansieve.models.inference import PreparedBatch, predict_with
from spansieve.models.tagger import Batch, Tagger
from spansieve.nn.encoder import Encoder
from spansieve.persistence.manifest import ModelError

BATCHES_IN_FLIGHT = 3  # on the device or on their way back
READY_MASKS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # the encoders that take them


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
    decoded_by: Callable[[Decoder], Decoder] | None = None,
) -> list[Prediction]:
    """Predict the best set of segments of each sentence. `on_batch` is called with the scores of each batch;
    `decoded_by` makes another decoder of the model's own."""
    was_training = tagger.training
    tagger.eval()
    try:
        backend = TorchBackend(tagger, probability, on_batch)
        backend.decoder = backend.decoder if decoded_by is None else decoded_by(backend.decoder)
        return predict_with(backend, sentences, with_probabilities, constraints, batch_tokens)
    finally:
        tagger.train(was_training)


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
        self, tagger: Tagger, probability: Probability = "given-candidates", on_batch: OnBatch | None = None
    ) -> None:
        check_probability(probability)
        self.tagger, self.device, self.on_batch = tagger, tagger.device, on_batch
        self.depth = 0 if self.device.type == "cpu" else BATCHES_IN_FLIGHT
        self.support = tagger.head.decoder_settings.support(tagger.labels)
        threads = torch.get_num_threads() if self.depth == 0 else 1
        self.decoder = tagger.head.decoder(threads, with_filter=probability == "with-filter")
        self._takes_ready_masks = self.device.type == "cuda" and takes_ready_masks(tagger.encoder)

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        return self.tagger.encoder.sizes(sentences)

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        return self.tagger.encoder.features(sentences)

    def launch(
        self, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded]:
        # `on_batch` may compute the k best, which come by way of gradients; inference mode has none.
        with torch.inference_mode() if self.on_batch is None else torch.no_grad():
            on_device = self.on_device(batch)
            scores = self.tagger.head.scores(self.tagger.vectors(on_device).float())
            if self.on_batch is not None:
                self.on_batch(batch.sentence, Scored(scores, on_device.lengths))
            return self.decode(scores, on_device.lengths, batch.lengths, with_probabilities, rules)

    def on_device(self, batch: PreparedBatch) -> Batch:
        """Copy a batch to the device by way of pinned memory, so that the host need not wait."""
        features: Mapping[str, Any] = batch.features
        made = Batch({name: self._pinned(array) for name, array in features.items()}, self._pinned(batch.lengths)).to(
            self.device
        )
        if self._takes_ready_masks:
            # transformers checks a mask (W, S) for whether it masks anything at all, which synchronises the host; one
            # of (W, 1, 1, S) it takes as it is.
            made.features["attention_mask"] = made.features["attention_mask"].bool()[:, None, None, :]
        return made

    def _pinned(self, array: np.ndarray | Tensor) -> Tensor:
        tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def decode(
        self,
        scores: tuple[Tensor, ...],
        device_lengths: Tensor,
        lengths: np.ndarray,
        with_probabilities: bool,
        rules: Sequence[Rules] | None,
    ) -> Callable[[], Decoded]:
        """Decode on the host what is little to copy, on the device what is much."""
        kind = self.decoder.settings.kind
        if self.depth == 0:
            try:
                decoded = self.decoder([part.numpy() for part in scores], lengths, with_probabilities, rules)
            except ScoreError as error:
                raise ModelError(f"the model's weights give no scores to decode: {error}") from error
            return lambda: decoded
        is_plain = self.decoder.widened_by is None and self.decoder.decision is None
        needs_all = not is_plain or any(rule.is_knowledge for rule in rules or ())
        if needs_all or self.decoder.with_filter or kind == "linear-chain" or (rules and kind == "semi-markov"):
            arrays = to_host([part.contiguous() for part in scores])
            return lambda: self.decoder(arrays(), lengths, with_probabilities, rules)
        if kind == "semi-markov":
            on_device = self._decoded_on_device(scores, device_lengths, with_probabilities)
            return lambda: on_device
        candidates = candidates_to_host(self._is_candidate(scores, device_lengths), scores[1])
        num_tokens = scores[0].shape[1]
        return lambda: decode_batch(
            self.decoder.candidates(*candidates(), lengths, num_tokens), with_probabilities, rules
        )

    def _is_candidate(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Tensor:
        """What the filter keeps, (B, L, K, Y)."""
        if self.decoder.settings.kind == "nested":
            return kept_mask(scores[0], lengths, self.decoder.limits)
        distribution = self.tagger.head.distribution_of(scores, lengths)
        assert isinstance(distribution, FilteredOnCuda)
        return distribution.is_candidate

    def _decoded_on_device(self, scores: tuple[Tensor, ...], lengths: Tensor, with_probabilities: bool) -> Decoded:
        head = self.tagger.head
        distribution = head.distribution_of(scores, lengths)
        assert isinstance(distribution, SemiMarkov)
        segments = flat_segments([head.entities(structure) for structure in distribution.mode])
        if not with_probabilities:
            return Decoded(segments, None)
        index = torch.from_numpy(dense_index(segments, distribution.scores.shape)).to(self.device)
        probabilities = distribution.marginals.flatten()[index].clamp(0.0, 1.0)
        return Decoded(segments, probabilities.cpu().numpy())


def takes_ready_masks(encoder: Encoder) -> bool:
    if not encoder.is_pretrained:
        return False
    from spansieve.nn.pretrained_encoder import VERSION

    config: Any = cast(Any, encoder).model.config
    return VERSION >= (5, 0) and config.model_type in READY_MASKS and config._attn_implementation == "sdpa"


# ---- From the device to the host ------------------------------------------------------------------------------------

# The scores of all spans stay where they were made. Of what the filter keeps, one span in a hundred, flat index and
# score are packed there and copied; the host decodes them in less time than it takes to start a kernel. The number of
# candidates is not read, since the host would have to wait for it: there is a slot for as many as there are tokens, and
# where that is too little, which only an untrained model needs, they are copied again.


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
    copied.record()

    def wait() -> list[np.ndarray]:
        copied.synchronize()
        return [tensor.numpy() for tensor in pinned]

    return wait


def candidates_to_host(is_candidate: Tensor, global_scores: Tensor) -> Callable[[], tuple[FlatSegments, np.ndarray]]:
    """Start the transfer of the candidates of a batch, from a dense mask and dense scores, (B, L, K, Y) each. What is
    returned waits for them: segments sorted by (sentence, end, start, label), and their scores (N,)."""
    num_slots = is_candidate.shape[0] * is_candidate.shape[1]
    wait = to_host(pack(is_candidate, global_scores, num_slots))

    def candidates() -> tuple[FlatSegments, np.ndarray]:
        number, index, scores = wait()
        if number[0] > num_slots:
            number, index, scores = to_host(pack(is_candidate, global_scores, int(number[0])))()
        index, scores = index[: number[0]], scores[: number[0]]
        if not (scores < np.inf).all():
            raise ValueError("the model's scores must be numbers, got NaN or +inf: was it trained to the end?")
        segments, order = segments_at(index, is_candidate.shape)
        return segments, scores[order]

    return candidates


@torch.inference_mode()
def pack(is_candidate: Tensor, global_scores: Tensor, num_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pack what is kept of (B, L, K, Y), in tensor operations of fixed shapes: the number of candidates (1,), and of
    the first R of them flat index and score, (R + 1,)."""
    is_kept = is_candidate.flatten()
    rank = is_kept.cumsum(0)
    # All that is not kept, or that there is no slot for, goes to the last slot, which is never read.
    slot = torch.where(is_kept & (rank <= num_slots), rank - 1, num_slots)
    index = torch.arange(len(is_kept), device=is_kept.device)
    score = global_scores.flatten()
    return (
        rank[-1:],
        index.new_zeros(num_slots + 1).scatter_(0, slot, index),
        score.new_zeros(num_slots + 1).scatter_(0, slot, score),
    )
