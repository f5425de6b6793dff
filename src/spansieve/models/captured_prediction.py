"""Prediction as CUDA graphs: what a model does with a batch in one launch. Kernel by kernel there are hundreds, and
with short texts the GPU waits for the host between them.

Axes: B sentences, S subwords of a sentence, and as many tokens at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from spansieve.decoding.constraints import Rules
from spansieve.decoding.decoders import Decoded
from spansieve.models.device_decoder import DeviceDecoder, device_decoder
from spansieve.models.inference import PreparedBatch
from spansieve.models.tagger import Batch, Tagger
from spansieve.models.torch_backend import TorchBackend
from spansieve.nn.cuda.graph_capture import Recorder, Weights

MIN_USES = 3  # a shape that comes less often is not worth the time of capturing it
WIDTH_STEP = 16  # sentences are padded to a multiple of this, so that few shapes occur
MAX_SUBWORDS = 16_384  # in a batch
MAX_SHAPES = 128
WARM_UP_SENTENCES, WARM_UP_WIDTH = (1, 2, 4, 8, 16, 32), 128  # of the shapes that are captured in advance
GRIDS = ("input_ids", "attention_mask", "casing", "first", "last")  # what an encoder reads of each subword or token

logger = logging.getLogger(__name__)


class Shape(NamedTuple):
    """The shape that a batch is padded to."""

    sentences: int
    width: int  # in subwords

    @property
    def subwords(self) -> int:
        return self.sentences * self.width


class CapturedPrediction:
    """Batches by replay, for a tagger on a GPU: encoder, scores and decoding. A shape is captured when it comes for the
    third time, or in advance by `warm_up`; all shapes share memory, and take `max_megabytes` of it at most.

    Weights are read at each replay; where they are not at the place where they were, everything is captured anew.
    Threads take turns.
    """

    def __init__(self, tagger: Tagger, max_megabytes: float) -> None:
        self.tagger, self.max_bytes = tagger, int(max_megabytes * 2**20)
        self._lock = threading.RLock()
        self.by_shape: dict[Shape, Captured] = {}
        self.let_go()

    def __reduce__(self) -> tuple[type[CapturedPrediction], tuple[Tagger, float]]:
        """A copy has nothing captured."""
        return CapturedPrediction, (self.tagger, self.max_bytes / 2**20)

    def let_go(self) -> None:
        """Let go of all that was captured, with its memory, once it is over."""
        with self._lock:
            for captured in self.by_shape.values():
                captured.wait()
            self._max_subwords = MAX_SUBWORDS if self.tagger.encoder.is_pretrained else 0
            self._uses: Counter[Shape] = Counter()
            self.by_shape = {}
            self._weights: Weights | None = None
            self._recorder: Recorder | None = None
            self._decoder: DeviceDecoder | None = None
            self._stream: torch.cuda.Stream | None = None

    @property
    def bytes(self) -> int:
        """The device memory that all of it takes."""
        return 0 if self._recorder is None else self._recorder.bytes

    @property
    def shapes(self) -> list[Shape]:
        """The shapes that are captured."""
        return sorted(self.by_shape)

    def launch(
        self, backend: TorchBackend, batch: PreparedBatch, with_probabilities: bool, rules: Sequence[Rules] | None
    ) -> Callable[[], Decoded] | None:
        """Start on a batch by replay; what is returned waits for the result. None where its shape is not captured."""
        with self._lock, on_device(backend.device):
            if self._recorder is not None and self._recorder.device != backend.device:  # the tagger was moved
                self.let_go()
            self._take_stream(backend.device)
            captured = self._captured_for(batch, backend.device)
            if captured is None:
                return None
            replay = captured.replay(batch)
            if self._weights is None or not self._weights.are_in_use():  # looked up while the device works
                self.let_go()
                return None
            if rules or backend.with_filter or backend.decision or not captured.decodes:
                with torch.inference_mode():
                    scores, lengths = captured.scores_of(batch)
                    return backend.decode(scores, lengths, batch.lengths, with_probabilities, rules)

        def result() -> Decoded:
            with self._lock:
                decoded = replay.result()
            if decoded is None:  # more than there is room for, or no numbers
                return backend.launch_kernels(batch, with_probabilities, rules)()
            return decoded if with_probabilities else decoded._replace(probabilities=None)

        return result

    def _captured_for(self, batch: PreparedBatch, device: torch.device) -> Captured | None:
        shape = self._shape_of(batch)
        if shape is None or torch.is_autocast_enabled(device.type):
            return None
        captured = self.by_shape.get(shape)
        if captured is None:
            self._uses[shape] += 1
            captured = self._capture(shape) if self._uses[shape] == MIN_USES else None
        return captured

    def _take_stream(self, device: torch.device) -> None:
        """Wait for what another stream does with the memory that all shapes share."""
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        if stream != self._stream:
            for captured in self.by_shape.values():
                captured.wait()
            self._stream = stream

    def warm_up(self, seconds: float) -> None:
        """Capture the shapes of short texts, the smallest first, for so many seconds at most."""
        end = time.perf_counter() + seconds
        widths = range(WIDTH_STEP, WARM_UP_WIDTH + 1, WIDTH_STEP)
        padded = (self._padded(sentences, width) for sentences in WARM_UP_SENTENCES for width in widths)
        shapes = {shape for shape in padded if shape is not None}
        with self._lock, on_device(self.tagger.device):
            self._take_stream(self.tagger.device)
            # Twice: where a large one takes too much memory, the small ones are captured anew without it.
            for shape in 2 * sorted(shapes, key=lambda shape: shape.subwords):
                if time.perf_counter() > end:
                    break
                if shape not in self.by_shape and shape.subwords <= self._max_subwords:
                    self._capture(shape)
            took = time.perf_counter() - (end - seconds)
            logger.info("%d CUDA graphs captured in %.1f s, %.0f MB", len(self.by_shape), took, self.bytes / 2**20)

    def _shape_of(self, batch: PreparedBatch) -> Shape | None:
        if not self._max_subwords:
            return None
        num_windows, width = batch.features["input_ids"].shape
        if num_windows != len(batch.lengths):  # a sentence is read in several windows
            return None
        return self._padded(num_windows, width)

    def _padded(self, num_sentences: int, width: int) -> Shape | None:
        if not self._max_subwords:
            return None
        layout = cast(Any, self.tagger.encoder).layout
        limit = layout.capacity + len(layout.before) + len(layout.after)
        width = min(-(-width // WIDTH_STEP) * WIDTH_STEP, limit)
        shape = Shape(1 << (num_sentences - 1).bit_length(), width)
        return shape if shape.subwords <= self._max_subwords else None

    def _capture(self, shape: Shape) -> Captured | None:
        """Capture a shape where that is of use, and fits."""
        number = len(self.by_shape)
        if number >= MAX_SHAPES or (number and self.bytes * (1 + 1 / number) > self.max_bytes):
            return None
        if self._recorder is None:
            device = self.tagger.device
            self._recorder, self._weights = Recorder(device), Weights(self.tagger)
            self._decoder = device_decoder(self.tagger.head.decoder(), device) if device.type == "cuda" else None
        captured = Captured(self.tagger, shape, self._decoder)
        try:
            is_captured = captured.by(self._recorder)
        except torch.OutOfMemoryError:
            is_captured = False
        except RuntimeError as error:
            self.let_go()
            self._max_subwords = 0
            reason = str(error).splitlines()[0]
            logger.warning("the encoder cannot be captured as a CUDA graph; it is run kernel by kernel (%s)", reason)
            return None
        if is_captured:
            self.by_shape[shape] = captured
            if self.bytes <= self.max_bytes:
                return captured
            self.let_go()  # since no part can be given back of memory that is shared
        self._max_subwords = shape.subwords - 1
        return None


def on_device(device: torch.device) -> AbstractContextManager[None]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class Captured:
    """What a tagger does with batches of one shape, from inputs at a fixed place to results at a fixed place."""

    _done: torch.cuda.Event | None = None  # recorded behind the last use of what a replay writes

    def __init__(self, tagger: Tagger, shape: Shape, decoder: DeviceDecoder | None) -> None:
        self._tagger, self._inputs, self._decoder = tagger, FixedInputs(tagger, shape), decoder
        self._slots = None if decoder is None else decoder.slots(keeps_scratch=False)
        # What is decoded with, beside the scores, at places of its own, where each replay writes it as it is by then.
        self._arrays = {name: x.detach().float().clone() for name, x in tagger.head.decoder_arrays().items()}
        if self._slots is not None:
            for name, array in self._arrays.items():
                setattr(self._slots.task, name, array.data_ptr())
        self._scores: tuple[Tensor, ...] = ()
        self._replay: Callable[[], None] = self._run
        if tagger.device.type == "cuda":
            self._done = torch.cuda.Event()
        self._last: Replay | None = None

    @property
    def decodes(self) -> bool:
        return self._decoder is not None

    def _run(self) -> None:
        head, inputs = self._tagger.head, self._inputs
        inputs.send()
        self._scores = head.scores(self._tagger.vectors(Batch(inputs.features(), inputs.lengths)).float())
        if self._decoder is not None and self._slots is not None:
            for name, array in head.decoder_arrays().items():
                self._arrays[name].copy_(array)
            self._decoder.launch(self._slots, self._scores, inputs.lengths, True)

    def by(self, recorder: Recorder) -> bool:
        """Capture what is done; false where that is not of use."""
        with torch.inference_mode():
            replay = recorder.capture(self._run)
        self._replay = replay or self._run
        return replay is not None

    def replay(self, batch: PreparedBatch) -> Replay:
        """Start on a batch, once the result of the last one is read."""
        if self._last is not None:
            self._last.result()
        self._inputs.fill(batch)
        self._replay()
        if self._done is not None:
            self._done.record()
        self._last = Replay(self, len(batch.lengths))
        return self._last

    def scores_of(self, batch: PreparedBatch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Copy the scores and the lengths of the last batch, on the device: the next replay overwrites them."""
        *scores, lengths = (part[: len(batch.lengths)].clone() for part in (*self._scores, self._inputs.lengths))
        if self._done is not None:
            self._done.record()
        return tuple(scores), lengths

    def wait(self) -> None:
        """Wait for the last batch."""
        if self._done is not None:
            self._done.synchronize()

    def __del__(self) -> None:
        self.wait()  # the device may still write

    def result(self, num_sentences: int) -> Decoded | None:
        """Wait for the last batch and read its segments; None where they were not all found on the device."""
        self.wait()
        slots = self._slots
        if self._decoder is None or slots is None or slots.numbers[: slots.shape[0]].min() < 0:
            return None
        segments, probabilities, *_ = self._decoder.read(slots, self._inputs.host_lengths)
        offsets = segments.offsets[: num_sentences + 1]  # sentences that only fill the batch have none
        return Decoded(segments._replace(offsets=offsets), probabilities)


class Replay:
    """A batch on its way."""

    def __init__(self, captured: Captured, num_sentences: int) -> None:
        self._captured: Captured | None = captured
        self._num_sentences = num_sentences
        self._result: Decoded | None = None

    def result(self) -> Decoded | None:
        """The result, which is read once."""
        if self._captured is not None:
            self._result, self._captured = self._captured.result(self._num_sentences), None
        return self._result


class FixedInputs:
    """The features of a batch at a fixed place: in pinned memory, from where one copy brings them to the device."""

    def __init__(self, tagger: Tagger, shape: Shape) -> None:
        encoder, device = cast(Any, tagger.encoder), tagger.device
        names = [name for name in GRIDS if name != "casing" or encoder.casing is not None]
        num_sentences, width = shape
        size, is_cuda = shape.subwords, device.type == "cuda"
        host = torch.zeros(len(names) * size + num_sentences, dtype=torch.int64, pin_memory=is_cuda)
        self._host, self._device = host, host.to(device, copy=True)
        self._grids = {name: host[i * size :][:size].view(shape).numpy() for i, name in enumerate(names)}
        self.host_lengths = host[len(names) * size :].numpy()
        self._features = {name: self._device[i * size :][:size].view(shape) for i, name in enumerate(names)}
        self._features["kept"] = torch.arange(size, device=device)
        self._features["num_tokens"] = self.lengths = self._device[len(names) * size :]  # (B,)
        # Sentences that only fill the batch have no token, but a subword to attend to: without there would be NaN.
        self._grids["input_ids"].fill(encoder.layout.padding)
        self._grids["attention_mask"][:, 0] = 1
        self._flat = host.numpy()
        self._unfilled = self._flat.copy()
        self._first = np.arange(num_sentences)[:, None] * width + len(encoder.layout.before)  # subword of each sentence

    def fill(self, batch: PreparedBatch) -> None:
        """Write a batch of at most this shape, for the next replay."""
        self._flat[:] = self._unfilled
        grids, features = self._grids, batch.features
        num_sentences, width = features["input_ids"].shape
        for name in ("input_ids", "attention_mask", "casing"):
            if name in grids:
                grids[name][:num_sentences, :width] = features[name]
        # Subwords are looked up where they stand, special ones and padding between them, and not one after the other.
        first, last = np.asarray(features["first"]), np.asarray(features["last"])
        shift = first[:, :1] - self._first[:num_sentences]
        np.subtract(first, shift, out=grids["first"][:num_sentences, : first.shape[1]])
        np.subtract(last, shift, out=grids["last"][:num_sentences, : last.shape[1]])
        self.host_lengths[:num_sentences] = batch.lengths

    def send(self) -> None:
        self._device.copy_(self._host, non_blocking=True)

    def features(self) -> dict[str, Tensor]:
        """What the encoder takes."""
        return dict(self._features)
