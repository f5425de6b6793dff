"""Texts made ready for a model, ahead of it and in processes of their own: tokens, sentences, batches, what the encoder
reads. No torch here.

What comes back from another process is arrays, in memory that both share: no object per token, and through the pipe
between them go but the places of the arrays.

Axes: B sentences, T tokens of all texts.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, Protocol

import numpy as np

from spansieve.data.batching import batches_by_length
from spansieve.data.block_tokenizer import BlockTokenizer, TokenBlock
from spansieve.data.tokenizer import Tokenizer
from spansieve.models.inference import PreparedBatch, readable_sentences
from spansieve.prediction.text_predictor import chunks_of

TEXTS_IN_CHUNK = 10_000
# Some 200,000 tokens: the more, the more alike in length are the sentences of a batch. With batches of 16,384 subwords
# of CoNLL-2003's test set 7 % of what is read is padding; with chunks of half the size 13 %.
CHARACTERS_IN_CHUNK = 1_200_000
CHUNKS_AHEAD = 2  # prepared or being prepared, beside one in each process
CHUNKS_IN_USE = 3  # by whom they are prepared for
BYTES_OF_CHUNK = 24 << 20  # a chunk of English takes 16 of 24 MiB; one that takes more goes through the pipe
_OBJECTS = 1_000_000
_ALIGNMENT = 64


class Reader(Protocol):
    """The half of an encoder that works on the host, for words named by number. It can be sent to other processes, and
    knows no words there."""

    def clear(self) -> None:
        """Forget the words."""

    def learn(self, words: Sequence[str]) -> None:
        """Take over the next words of the vocabulary."""

    def sizes(self, word: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The size of each sentence as input, special subwords included, (B,); `word`: the tokens of all, (T,)."""

    def features(self, word: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
        """The features of sentences of these lengths, which the encoder takes."""


class Prepared(NamedTuple):
    """A chunk of texts: its batches, and where its sentences and tokens stand in the texts."""

    batches: list[PreparedBatch]
    text: np.ndarray  # (B,): which of the texts each sentence is of
    first: np.ndarray  # (B,): its first token among all
    start: np.ndarray  # (T,): in characters of the text
    end: np.ndarray  # (T,)


class Preparer:
    """Texts to batches. What it has learned of words stays in its process; threads take turns."""

    def __init__(
        self, reader: Reader, tokenizer: Tokenizer, sentences: bool, batch_tokens: int, batch_sentences: int
    ) -> None:
        self.reader, self.batch_tokens, self.batch_sentences = reader, batch_tokens, batch_sentences
        self.tokenizer = BlockTokenizer(tokenizer, sentences)
        self._num_learned = 0
        self._turn = threading.Lock()

    def __reduce__(self) -> tuple[type[Preparer], tuple[Any, ...]]:
        cut = self.tokenizer
        return Preparer, (self.reader, cut.tokenizer, cut.sentences, self.batch_tokens, self.batch_sentences)

    def __call__(self, texts: Sequence[str]) -> Prepared:
        with self._turn:
            block = self.tokens(texts)
            return Prepared(self.batches(block), block.text, block.first, block.start, block.end)

    def tokens(self, texts: Sequence[str]) -> TokenBlock:
        """Cut the texts into tokens and sentences; the reader learns the words that are new."""
        if self.tokenizer.is_full:
            self.tokenizer.clear()
            self.reader.clear()
            self._num_learned = 0
        block = self.tokenizer(texts)
        if new := self.tokenizer.words[self._num_learned :]:
            self.reader.learn(readable_sentences([new])[0])
            self._num_learned += len(new)
        return block

    def batches(self, block: TokenBlock) -> list[PreparedBatch]:
        sizes = self.reader.sizes(block.word, block.length)
        plan = batches_by_length(sizes, self.batch_tokens, self.batch_sentences)
        return [self._batch(block, np.array(batch)) for batch in plan]

    def _batch(self, block: TokenBlock, sentence: np.ndarray) -> PreparedBatch:
        lengths = block.length[sentence]
        before = lengths.cumsum() - lengths
        tokens = np.arange(lengths.sum()) + np.repeat(block.first[sentence] - before, lengths)
        return PreparedBatch(self.reader.features(block.word[tokens], lengths), lengths, sentence)


class PreparedAhead:
    """Chunks of texts, prepared in `workers` processes; in a thread of this one if there are none."""

    def __init__(self, preparer: Preparer, workers: int) -> None:
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        self._ahead = workers + CHUNKS_AHEAD
        self._preparer = preparer
        self._slots: _Slots | None = None
        self._pool: Executor | None
        if workers == 0:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="spansieve-preparing")
            return
        # Not forked: this process may have threads and a GPU, of which a fork would inherit half.
        context = multiprocessing.get_context("spawn")
        slots = self._slots = _Slots(context, self._ahead + CHUNKS_IN_USE, pickle.dumps(preparer))
        pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(slots.memory, slots.pickled))
        for _ in range(workers):  # all of them start now: the pool itself would start each when it is needed
            pool.submit(os.getpid)
        self._pool = pool

    def __call__(self, texts: Iterable[str]) -> Iterator[tuple[list[str], Prepared]]:
        waiting: deque[_Chunk] = deque()
        try:
            for texts_of_chunk in chunks_of(texts, TEXTS_IN_CHUNK, CHARACTERS_IN_CHUNK):
                waiting.append(self._submit(texts_of_chunk))
                if len(waiting) > self._ahead:
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a process that prepares texts has died, most often for want of memory: try with fewer workers"
            ) from error
        finally:
            for chunk in waiting:
                chunk.future.cancel()
                if self._slots is not None:
                    self._slots.free_after(chunk)

    def _submit(self, texts: list[str]) -> _Chunk:
        if self._pool is None:
            raise RuntimeError("texts must be given before close()")
        if self._slots is None:
            return _Chunk(texts, self._pool.submit(self._preparer, texts), None)
        slot = self._slots.take()
        return _Chunk(texts, self._pool.submit(_prepare_here, texts, slot), slot)

    def _next(self, waiting: deque[_Chunk]) -> tuple[list[str], Prepared]:
        chunk = waiting[0]
        result = chunk.future.result()
        waiting.popleft()  # from here on its slot is its arrays'
        if self._slots is None or chunk.slot is None:
            return chunk.texts, result
        if isinstance(result, _Packed):
            return chunk.texts, self._slots.unpacked(result, chunk.slot)
        self._slots.free(chunk.slot)
        return chunk.texts, result

    def close(self) -> None:
        """End the processes, and free the memory that they shared."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._slots = None


class _Chunk(NamedTuple):
    texts: list[str]
    future: Future[Any]
    slot: _Slot | None


# ---- Memory that the processes share ---------------------------------------------------------------------------------


class _Slot(NamedTuple):
    """A part of the memory."""

    first: int
    size: int

    def bytes_in(self, memory: Any) -> np.ndarray:
        return np.frombuffer(memory, np.uint8, self.size, self.first)


class _Packed(NamedTuple):
    """A pickle, and how many bytes each of its arrays has: they lie one after the other in the slot."""

    pickled: bytes
    sizes: list[int]


class _Slots:
    """Memory that the processes share, with a slot for each chunk. A slot is free again when the last array in it is
    gone. The memory has no name: nothing is left of it when the processes are gone, however they end."""

    def __init__(self, context: Any, number: int, pickled: bytes) -> None:
        # What the processes start with is in it, too. A tokenizer is large: if it were written to them one by one, they
        # would start one after the other.
        self.pickled = _Slot(number * BYTES_OF_CHUNK, len(pickled))
        self.memory = context.RawArray(ctypes.c_char, self.pickled.first + self.pickled.size)
        self.pickled.bytes_in(self.memory)[:] = np.frombuffer(pickled, np.uint8)
        self._free = deque(_Slot(i * BYTES_OF_CHUNK, BYTES_OF_CHUNK) for i in range(number))

    def take(self) -> _Slot | None:
        """A free slot, if there is one: the last that was used, whose memory is near."""
        return self._free.pop() if self._free else None

    def free(self, slot: _Slot) -> None:
        self._free.append(slot)

    def free_after(self, chunk: _Chunk) -> None:
        """Free the slot of a chunk that nobody waits for, when it is done."""
        if (slot := chunk.slot) is not None:
            chunk.future.add_done_callback(lambda _: self.free(slot))

    def unpacked(self, packed: _Packed, slot: _Slot) -> Any:
        own = slot.bytes_in(self.memory)
        weakref.finalize(own, self._free.append, slot).atexit = False
        buffers, at = [], 0
        for size in packed.sizes:
            buffers.append(own[at : at + size])  # which holds `own`
            at += _aligned(size)
        return pickle.loads(packed.pickled, buffers=buffers)


def _packed(value: Any, slot: np.ndarray) -> _Packed | None:
    """Put the arrays of a value into a slot; None where they do not fit."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    if sum(_aligned(len(array)) for array in arrays) > len(slot):
        return None
    at = 0
    for array in arrays:
        slot[at : at + len(array)] = array
        at += _aligned(len(array))
    return _Packed(pickled, [len(array) for array in arrays])


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# ---- In the other processes ------------------------------------------------------------------------------------------

_here: tuple[Preparer, Any] | None = None  # the preparer of this process and the shared memory, if it is of the pool


def _start(memory: Any, pickled: _Slot) -> None:
    global _here
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core each
    # New words come by the ten thousand, none of them in a circle. To look through them for circles, again and again,
    # would take as long as to make them.
    gc.set_threshold(_OBJECTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here = pickle.loads(pickled.bytes_in(memory).data), memory


def _end_with_parent() -> None:
    """End this process with its parent: one that is killed sends no signal, and the pool would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _prepare_here(texts: list[str], slot: _Slot | None) -> Prepared | _Packed:
    assert _here is not None
    preparer, memory = _here
    prepared = preparer(texts)
    packed = None if slot is None else _packed(prepared, slot.bytes_in(memory))
    return packed or prepared
