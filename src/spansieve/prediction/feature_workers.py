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
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np

from spansieve.data.batching import batches_by_length, prepared_ahead
from spansieve.data.block_tokenizer import BlockTokenizer, TokenBlock
from spansieve.data.tokenizer import Tokenizer
from spansieve.models.inference import PreparedBatch, readable_sentences
from spansieve.nn.subwords import SubwordReader
from spansieve.nn.word_features import WordReader
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
Reader = SubwordReader | WordReader  # the half of an encoder that works on the host


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
    """Chunks of texts, prepared in `workers` processes; in a thread of this one if there are none.

    The processes share memory with this one, a slot for each chunk, which is free again when the last array in it is
    gone. The memory has no name: nothing is left of it when the processes are gone, however they end.
    """

    def __init__(self, preparer: Preparer, workers: int) -> None:
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        self._preparer, self._workers = preparer, workers
        self._pool: ProcessPoolExecutor | None = None
        if workers == 0:
            return
        # Not forked: this process may have threads and a GPU, of which a fork would inherit half.
        context = multiprocessing.get_context("spawn")
        # What the processes start with is in the memory, too. A tokenizer is large: if it were written to them one by
        # one, they would start one after the other.
        pickled = np.frombuffer(pickle.dumps(preparer), np.uint8)
        total = (workers + CHUNKS_AHEAD + CHUNKS_IN_USE) * BYTES_OF_CHUNK
        self._free = deque(slice(start, start + BYTES_OF_CHUNK) for start in range(0, total, BYTES_OF_CHUNK))
        self._memory: Any = context.RawArray(ctypes.c_char, total + len(pickled))
        place = slice(total, total + len(pickled))
        _bytes_of(self._memory, place)[:] = pickled
        self._pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(self._memory, place))
        for _ in range(workers):  # all of them start now: the pool itself would start each when it is needed
            self._pool.submit(os.getpid)

    def __call__(self, texts: Iterable[str]) -> Iterator[tuple[list[str], Prepared]]:
        chunks = chunks_of(texts, TEXTS_IN_CHUNK, CHARACTERS_IN_CHUNK)
        if self._workers == 0:
            return prepared_ahead(chunks, lambda chunk: (chunk, self._preparer(chunk)), CHUNKS_AHEAD)
        return self._by_processes(chunks)

    def _by_processes(self, chunks: Iterable[list[str]]) -> Iterator[tuple[list[str], Prepared]]:
        waiting: deque[_Chunk] = deque()
        try:
            for texts in chunks:
                waiting.append(self._submit(texts))
                if len(waiting) > self._workers + CHUNKS_AHEAD:
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
                chunk.future.add_done_callback(partial(self._free_slot, chunk.slot))

    def _submit(self, texts: list[str]) -> _Chunk:
        if self._pool is None:
            raise RuntimeError("texts must be given before close()")
        slot = self._free.pop() if self._free else None  # the last that was used, whose memory is near
        return _Chunk(texts, self._pool.submit(_prepare_here, texts, slot), slot)

    def _next(self, waiting: deque[_Chunk]) -> tuple[list[str], Prepared]:
        texts, future, slot = waiting[0]
        result = future.result()
        waiting.popleft()
        if slot is None or not isinstance(result, _Packed):
            self._free_slot(slot)
            return texts, cast(Prepared, result)
        own = _bytes_of(self._memory, slot)
        weakref.finalize(own, self._free_slot, slot).atexit = False
        buffers = [own[start:end] for start, end in _bounds_in_slot(result.sizes)]  # which hold `own`
        return texts, pickle.loads(result.pickled, buffers=buffers)

    def _free_slot(self, slot: slice | None, _: object = None) -> None:
        if slot is not None:
            self._free.append(slot)

    def close(self) -> None:
        """End the processes, and free the memory that they shared."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = self._memory = None


class _Chunk(NamedTuple):
    texts: list[str]
    future: Future[Prepared | _Packed]
    slot: slice | None


class _Packed(NamedTuple):
    """A pickle, and how many bytes each of its arrays has: they lie one after the other in the slot."""

    pickled: bytes
    sizes: list[int]


def _bytes_of(memory: Any, slot: slice) -> np.ndarray:
    return np.frombuffer(memory, np.uint8, slot.stop - slot.start, slot.start)


def _bounds_in_slot(sizes: Sequence[int]) -> list[tuple[int, int]]:
    starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    return [(start, start + size) for start, size in zip(starts, sizes)]


# ---- In the other processes ------------------------------------------------------------------------------------------

_here: tuple[Preparer, Any] | None = None  # the preparer of this process and the shared memory, if it is of the pool


def _start(memory: Any, pickled: slice) -> None:
    global _here
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core each
    # New words come by the ten thousand, none of them in a circle. To look through them for circles, again and again,
    # would take as long as to make them.
    gc.set_threshold(_OBJECTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here = pickle.loads(_bytes_of(memory, pickled).data), memory


def _end_with_parent() -> None:
    """End this process with its parent: one that is killed sends no signal, and the pool would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _prepare_here(texts: list[str], slot: slice | None) -> Prepared | _Packed:
    """Prepare texts, and put the arrays into the slot, if there is one and they fit."""
    assert _here is not None
    preparer, memory = _here
    prepared = preparer(texts)
    if slot is None:
        return prepared
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(prepared, protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    sizes = list(map(len, arrays))
    bounds, own = _bounds_in_slot(sizes), _bytes_of(memory, slot)
    if any(end > len(own) for _, end in bounds):
        return prepared
    for array, (start, end) in zip(arrays, bounds):
        own[start:end] = array
    return _Packed(pickled, sizes)
