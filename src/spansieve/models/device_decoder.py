"""Decoding on a GPU in one launch: from scores there to the chosen segments in pinned memory of the host.

Axes: B sentences, L tokens, K widths, Y labels or tags, M segments.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.kernels.nvrtc import NvrtcError, kernel
from spansieve.decoding.decoders import Decoded, Decoder

THREADS = 128  # of a block, where a sentence has one
TILE_SPANS = 1024  # that a block filters
TILE_KEPT, TRACED, ROWS_EACH = 512, 4096, 8  # as in the source
MAX_CHUNKS = 64
OWN_TABLES = 32  # labels of a path, at most, whose tables need no dynamic shared memory: there they take more registers
MAX_TERMS = 64  # widths that a lane of a dense sweep adds up
USUAL_CANDIDATES = 512  # of a sentence, in shared memory; there is more of that for a long one


class Task(ctypes.Structure):
    """The argument of the kernel, as task.cuh has it."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "scores", "global_scores", "lengths", "transition", "start", "end", "scratch", "done", "counts", "segments",
        )),
        ("scratch_size", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in (
            "L", "K", "tiles", "tile_spans", "capacity", "slots", "with_probabilities",
        )),
    ]  # fmt: skip


class Slots:
    """The memory that one launch writes: pinned on the host, and on the device what it needs beside. Used again once it
    is read. Scratch that is not kept is taken for each launch anew: in a capture, of the memory that graphs share."""

    def __init__(self, device: torch.device, keeps_scratch: bool) -> None:
        self._device, self._keeps_scratch, self.task = device, keeps_scratch, Task()
        self.argument = (ctypes.c_void_p * 1)(ctypes.addressof(self.task))
        self._reserved = [0, 0]
        self._scratch: Tensor | None = None
        self.event: torch.cuda.Event | None = None  # recorded behind a launch whose result was not read yet
        self.inputs: tuple[Tensor, ...] = ()  # are kept until the launch is over
        self.shape = (0, 0)

    def reserve(self, num_sentences: int, slots: int, scratch_size: int) -> None:
        """Have room for so many sentences with so many segments each; new memory only where there is too little."""
        header = -(-num_sentences // 4) * 4
        needed = [header + 4 * num_sentences * slots, num_sentences]
        if any(a > b for a, b in zip(needed, self._reserved)):
            self._reserved = list(map(max, needed, self._reserved))
            pinned, sentences = self._reserved
            self._pinned = torch.empty(pinned, dtype=torch.int32, pin_memory=self._device.type == "cuda")
            self._done = torch.zeros(sentences, dtype=torch.int32, device=self._device)
            self.numbers = self._pinned.numpy()
            self.task.counts, self.task.done = self._pinned.data_ptr(), self._done.data_ptr()
        scratch = num_sentences * scratch_size
        if self._scratch is None or len(self._scratch) < scratch:
            self._scratch = torch.empty(scratch, dtype=torch.uint8, device=self._device)
            self.task.scratch = self._scratch.data_ptr()
        self.task.segments = self.task.counts + 4 * header
        self.task.scratch_size, self.task.slots = scratch_size, slots
        self.shape, self.header = (num_sentences, slots), header

    def launched(self, inputs: tuple[Tensor, ...]) -> None:
        """Keep what the launch reads, and give back what it needs no longer than it runs."""
        self.inputs = inputs
        if not self._keeps_scratch:
            self._scratch = None

    def __del__(self) -> None:
        if self.event is not None:  # the device may still write
            self.event.synchronize()


class Plan(NamedTuple):
    """What a launch takes."""

    tiles: int  # blocks of a sentence
    tile_spans: int  # that each of them filters
    capacity: int  # candidates of a sentence, or tokens
    slots: int  # segments of a sentence
    scratch: int  # bytes of a sentence on the device
    shared: int  # bytes of a block


def source_of(decoder: Decoder) -> str:
    """The source of the kernel of a decoder, with its constants."""
    settings, num_labels = decoder.settings, decoder.shape[-1]
    constants = {"Y": num_labels, "MAX_THREADS": max_threads(num_labels)}
    if settings.filters:
        constants |= {"SKIP": settings.skip, "LABELS": decoder.limits.labels_per_span}
        constants |= {"CHUNKS": most_chunks(num_labels), "OWN_TABLES": num_labels <= OWN_TABLES}
        sweep = ["sweep.cuh"] if settings.kind == "filtered" else []
        parts = ["task.cuh", "filter.cuh", *sweep, f"{settings.kind}.cu"]
    else:
        parts, is_chain = ["task.cuh", "dense.cu"], settings.kind == "linear-chain"
        terms = 1 if is_chain else -(-settings.max_width // lanes_for_label(num_labels))
        if terms > MAX_TERMS:
            raise NvrtcError(f"a lane has registers for {MAX_TERMS} widths, got {terms}")
        constants |= {"CHAIN": is_chain, "BIO": is_chain and settings.scheme == "BIO", "TERMS": terms}
        constants |= {"UNIT_NULL": settings.unit_null}
    folder = files("spansieve.crf.kernels") / "cuda" / "decode"
    defines = [f"#define {name} {int(value)}\n" for name, value in constants.items()]
    return "".join([*defines, *((folder / part).read_text(encoding="utf-8") for part in parts)])


def max_threads(num_labels: int) -> int:
    """The threads of a block where a sentence has several: with many labels fewer, which have more registers each."""
    return 1024 if num_labels <= 6 else 512 if num_labels <= 12 else 256


def most_chunks(num_labels: int) -> int:
    """The chunks that candidates of a long sentence are cut into, at most: a block has a thread for each label before
    each of them, in each of three sweeps. With many labels there is one chunk."""
    return max(1, min(MAX_CHUNKS, max_threads(num_labels) // (3 * num_labels)))


def lanes_for_label(num_labels: int) -> int:
    """The number of lanes of a warp that share the widths of a label, a power of two."""
    return 1 << max(1, 32 // num_labels).bit_length() - 1


class DeviceDecoder:
    """The decoder of a head's scores on a GPU. What it cannot decode there, the host's decoder does, and is counted."""

    def __init__(self, decoder: Decoder, device: torch.device) -> None:
        """Compile the kernel of a decoder, which takes about a second; NvrtcError where that is not possible."""
        self.decoder, self.device = decoder, device
        self.num_on_host = 0  # sentences that the host decoded
        self._free: list[tuple[Slots, torch.cuda.Event]] = []
        self._plans: dict[tuple[int, int, bool], Plan] = {}
        self._kernel = kernel(source_of(decoder), "decode", device)
        self._shared = self._kernel.max_shared_memory
        num_labels = decoder.shape[-1]
        plan = self._plan(1, decoder.settings.max_width, True, num_labels)
        if plan.shared > self._shared or plan.capacity < 1:
            raise NvrtcError(f"{num_labels} labels do not fit the shared memory of the device")
        arrays = {"transition": np.zeros((num_labels, num_labels), np.float32)} | decoder.arrays
        self._arrays = {name: torch.from_numpy(x).to(device) for name, x in arrays.items()}

    def decode(
        self, scores: Sequence[Tensor], device_lengths: Tensor, lengths: np.ndarray, with_probabilities: bool
    ) -> Callable[[], Decoded]:
        """Start to decode a batch; what is returned waits for it, and for nothing after it, and reads it once."""
        slots, event = self._free.pop() if self._free else (self.slots(), _recorded(self.device))
        self.launch(slots, scores, device_lengths, with_probabilities)
        self._kernel.record(event)
        slots.event = event

        decoded: Decoded | None = None

        def wait() -> Decoded:
            nonlocal decoded
            if decoded is None:
                event.synchronize()
                slots.event = None
                decoded = self.read(slots, lengths)
                slots.inputs = ()
                self._free.append((slots, event))
            return decoded

        return wait

    def slots(self, keeps_scratch: bool = True) -> Slots:
        """Make memory for one launch. What a launch of some shape needs of it is reserved by the first such launch."""
        made = Slots(self.device, keeps_scratch)
        for name, array in self._arrays.items():
            setattr(made.task, name, array.data_ptr())
        return made

    def launch(self, slots: Slots, scores: Sequence[Tensor], lengths: Tensor, with_probabilities: bool) -> None:
        """Enqueue the decoding of a batch on the current stream: scores as the head has them, lengths (B,) in int64, on
        the device. Into slots that are large enough, that is one launch and nothing else, and can be captured."""
        num_sentences, num_tokens, *widths, num_labels = scores[0].shape
        max_width = widths[0] if widths else 1
        inputs = (*(part.contiguous() for part in scores), lengths.contiguous())
        key = num_tokens, max_width, with_probabilities
        plan = self._plans.get(key) or self._plans.setdefault(key, self._plan(*key, num_labels))
        slots.reserve(num_sentences, plan.slots, plan.scratch)
        task = slots.task
        task.scores, task.global_scores, task.lengths = (inputs[k].data_ptr() for k in (0, -2, -1))
        task.L, task.K, task.with_probabilities = num_tokens, max_width, with_probabilities
        task.tiles, task.tile_spans, task.capacity = plan.tiles, plan.tile_spans, plan.capacity
        if num_sentences:
            threads = THREADS if plan.tiles == 1 else max_threads(num_labels)
            self._kernel.launch((plan.tiles, num_sentences), threads, plan.shared, slots.argument)
        slots.launched(inputs)

    def _plan(self, num_tokens: int, max_width: int, with_probabilities: bool, num_labels: int) -> Plan:
        kind = self.decoder.settings.kind
        if not self.decoder.settings.filters:
            scratch = 36 * (num_tokens + 1) * num_labels + 16 * num_tokens
            sweeps = 36 * max_width * num_labels + 4 * num_labels**2
            shared = 16 * num_labels**2 + max(sweeps, 4 * TRACED)
            return Plan(1, 0, num_tokens, num_tokens, -(-scratch // 16) * 16, shared)
        num_spans, sums = num_tokens * max_width, 32 if with_probabilities else 16  # bytes of a candidate
        tile_spans = max(TILE_SPANS, -(-num_spans // max_threads(num_labels)))
        tiles = max(1, -(-num_spans // tile_spans))
        each = 80 if kind == "nested" else 40 + sums if tiles == 1 else 32
        of_pair = 20 if kind == "nested" else 0 if num_labels <= OWN_TABLES else 36  # bytes of two labels, in tables
        tables = -(-of_pair * num_labels**2 // 16) * 16 + 16
        most = USUAL_CANDIDATES if tiles == 1 else max(USUAL_CANDIDATES, num_tokens)
        capacity = min((self._shared - tables) // each, most)
        scratch = tiles * (TILE_KEPT * 16 + 16) if tiles > 1 else 0
        if kind == "nested":
            scratch += 36 * ROWS_EACH * capacity
        elif tiles > 1:
            chunks = most_chunks(num_labels)
            of_chunks = 48 * num_labels * (chunks * num_labels + chunks + 1 + capacity)
            scratch += sums * capacity + (of_chunks if chunks > 1 else 8 * capacity)
        slots = min(2 * num_tokens if kind == "nested" else num_tokens, capacity)
        return Plan(tiles, tile_spans, capacity, slots, -(-scratch // 16) * 16, tables + each * capacity)

    def read(self, slots: Slots, lengths: np.ndarray) -> Decoded:
        """Read what a launch has written; it is over when this is called. Lengths (B,) are those of the launch."""
        num_sentences, num_slots = slots.shape
        numbers, first, with_probabilities = slots.numbers, slots.header, bool(slots.task.with_probabilities)
        if num_sentences == 1 and (count := int(numbers[0])) >= 0:
            rows = numbers[first : first + 4 * count].reshape(count, 4).copy()
            return _decoded(np.array((0, count)), rows, with_probabilities)
        counts = numbers[:num_sentences].copy()
        is_written = np.arange(num_slots) < counts[:, None]
        rows = numbers[first : first + 4 * is_written.size].reshape(-1, 4).compress(is_written.ravel(), axis=0)
        left = None
        if num_sentences and min(counts.tolist()) < 0:
            left = np.flatnonzero(counts < 0)
            counts[left] = 0
        offsets = np.zeros(num_sentences + 1, np.int64)
        np.add.accumulate(counts, out=offsets[1:])
        decoded = _decoded(offsets, rows, with_probabilities)
        return decoded if left is None else _joined(decoded, self._on_host(slots, lengths, left), left)

    def _on_host(self, slots: Slots, lengths: np.ndarray, left: np.ndarray) -> Decoded:
        """Decode some sentences of a batch as they are decoded where there is no GPU, with the same errors."""
        self.num_on_host += len(left)
        index = torch.from_numpy(left).to(self.device)
        scores = [part.index_select(0, index).cpu().numpy() for part in slots.inputs[:-1]]
        return self.decoder(scores, lengths[left], bool(slots.task.with_probabilities))


def device_decoder(decoder: Decoder, device: torch.device) -> DeviceDecoder | None:
    """Make the decoder on a GPU; None where no kernel decodes so, and, with a warning, where one would but cannot be
    had."""
    if decoder.with_filter or decoder.settings.budget is not None:
        return None  # no kernel weighs probabilities by the filter, or has a budget of candidates
    try:
        return DeviceDecoder(decoder, device)
    except NvrtcError as error:
        warnings.warn(f"the host decodes what the GPU has scored: {error}", RuntimeWarning, stacklevel=2)
        return None


def _recorded(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))  # which makes it
    return event


def _decoded(offsets: np.ndarray, rows: np.ndarray, with_probabilities: bool) -> Decoded:
    """Segments from rows of start, end, label and the bits of a probability, (M, 4)."""
    segments = FlatSegments(offsets, rows[:, 0], rows[:, 1], rows[:, 2])
    return Decoded(segments, rows[:, 3].view(np.float32) if with_probabilities else None)


def _joined(decoded: Decoded, others: Decoded, which: np.ndarray) -> Decoded:
    """Put the segments of some sentences, which have none yet, among those of a batch."""
    ours, theirs = decoded.segments, others.segments
    counts = np.diff(ours.offsets)
    counts[which] = np.diff(theirs.offsets)
    order = np.argsort(np.concatenate((ours.sentence, which[theirs.sentence])), kind="stable")
    columns = [np.concatenate(pair)[order] for pair in zip(ours[1:], theirs[1:])]
    probabilities = None
    if decoded.probabilities is not None and others.probabilities is not None:
        probabilities = np.concatenate((decoded.probabilities, others.probabilities))[order]
    return Decoded(FlatSegments(np.concatenate(([0], np.cumsum(counts))), *columns), probabilities)
