"""Texts made ready for a model, ahead of it and in processes of their own: tokens, sentences, batches, what the encoder
reads. No torch here.

What goes between the processes is arrays, no object per token: a million of those take longer to send than to make.

Axes: B sentences, T tokens of all texts.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np

from spansieve.data.batching import batches_by_length
from spansieve.data.tokenizer import Tokenizer, sequences_of_text
from spansieve.models.inference import PreparedBatch, readable_sentences
from spansieve.nn.subwords import SubwordCache, SubwordLayout
from spansieve.nn.word_features import WordFeatures
from spansieve.prediction.text_predictor import chunks_of

TEXTS_IN_CHUNK = 4_096
CHARACTERS_IN_CHUNK = 600_000  # some 100,000 tokens: enough for full batches of sentences alike in length
CHUNKS_AHEAD = 2  # of each process
_OBJECTS = 1_000_000


class Prepared(NamedTuple):
    """A chunk of texts: its batches, and where its sentences and tokens stand in the texts."""

    batches: list[PreparedBatch]
    text: np.ndarray  # of each sentence: which of the texts it is of
    first: np.ndarray  # of each sentence: its first token among all
    start: np.ndarray  # (T,): in characters of the text
    end: np.ndarray  # (T,)


@dataclass(frozen=True)
class Preparer:
    reader: Reader
    tokenizer: Tokenizer
    sentences: bool
    batch_tokens: int
    batch_sentences: int

    def __call__(self, texts: Sequence[str]) -> Prepared:
        found = [sequences_of_text(text, self.tokenizer, self.sentences) for text in texts]
        sequences = list(chain.from_iterable(found))
        words = readable_sentences([[token[0] for token in tokens] for tokens in sequences])
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        flat = list(chain.from_iterable(sequences))
        plan = batches_by_length(self.reader.sizes(words), self.batch_tokens, self.batch_sentences)
        return Prepared(
            [
                PreparedBatch(self.reader.features([words[i] for i in batch]), lengths[batch], np.array(batch))
                for batch in plan
            ],
            np.repeat(np.arange(len(texts)), list(map(len, found))),
            lengths.cumsum() - lengths,
            np.fromiter((token[1] for token in flat), np.int64, len(flat)),
            np.fromiter((token[2] for token in flat), np.int64, len(flat)),
        )


class PreparedAhead:
    """Chunks of texts, prepared in `workers` processes; in a thread of this one if there are none."""

    def __init__(self, preparer: Preparer, workers: int) -> None:
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        self._ahead = CHUNKS_AHEAD * max(1, workers)
        self._prepare = preparer if workers == 0 else _prepare_here
        self._pool: Executor
        if workers == 0:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="spansieve-preparing")
        else:
            # Not forked: this process may have threads and a GPU, of which a fork would inherit half.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(preparer,))

    def __call__(self, texts: Iterable[str]) -> Iterator[tuple[list[str], Prepared]]:
        waiting: deque[tuple[list[str], Future[Prepared]]] = deque()
        try:
            for chunk in chunks_of(texts, TEXTS_IN_CHUNK, CHARACTERS_IN_CHUNK):
                waiting.append((chunk, self._pool.submit(self._prepare, chunk)))
                if len(waiting) > self._ahead:
                    chunk, future = waiting.popleft()
                    yield chunk, future.result()
            while waiting:
                chunk, future = waiting.popleft()
                yield chunk, future.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a process that prepares texts has died, most often for want of memory: try with fewer workers"
            ) from error
        finally:
            for _, future in waiting:
                future.cancel()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


# ---- What encoders read ----------------------------------------------------------------------------------------------


class Reader(Protocol):
    """The half of an encoder that works on the host. It can be sent to other processes."""

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """The size of each sentence as input, special subwords included."""

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The features of B sentences, which the encoder takes."""


@dataclass(frozen=True)
class WordReader:
    """The reader of the built-in encoder."""

    words: WordFeatures

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        return [len(sentence) for sentence in sentences]

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self.words.of_sentences(sentences)


@dataclass(frozen=True)
class SubwordReader:
    """The reader of a Hugging Face encoder."""

    layout: SubwordLayout
    subwords_of: SubwordCache

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        num_special = len(self.layout.before) + len(self.layout.after)
        return [num_special + count for count in self.subwords_of.counts(sentences)]

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        return self.layout.features(sentences, self.subwords_of)


# ---- In the other processes ------------------------------------------------------------------------------------------

_preparer: Preparer | None = None  # of this process, if it is one of the pool


def _start(preparer: Preparer) -> None:
    global _preparer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core each
    # Tokens come and go by the hundred thousand, none of them in a circle. To look through them for circles, again and
    # again, would take as long as to make them.
    gc.set_threshold(_OBJECTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _preparer = preparer


def _end_with_parent() -> None:
    """End this process with its parent: one that is killed sends no signal, and the pool would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _prepare_here(texts: list[str]) -> Prepared:
    assert _preparer is not None
    return _preparer(texts)
