"""Texts made ready for a model, ahead of it and in processes of their own: tokens, sentences, batches, what the encoder
reads.

What goes between the processes is arrays, no object per token: a million of those take longer to send than to make.

Axes: B sentences, T tokens of all texts.
"""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spansieve.data.batching import batches_by_length
from spansieve.data.tokenizing import Tokenizer, sequences_of_text, tokens_of_text
from spansieve.models.sizing import sizes_of
from spansieve.models.tagger import Batch, Tagger

TEXTS_IN_CHUNK = 4_096
CHARACTERS_IN_CHUNK = 300_000  # some 50,000 tokens: enough for full batches of sentences alike in length
CHUNKS_AHEAD = 2  # of each process
_SURROGATE = re.compile("[\ud800-\udfff]")


class PreparedBatch(NamedTuple):
    features: dict[str, np.ndarray]
    lengths: np.ndarray  # (B,)
    place: np.ndarray | None
    sentence: np.ndarray  # (B,): which of the chunk's sentences these are

    def to_batch(self, device: torch.device) -> Batch:
        """By way of pinned memory, so that nobody waits for the copy."""
        is_pinned = device.type == "cuda"

        def ready(array: np.ndarray) -> Tensor:
            tensor = torch.from_numpy(array)
            return tensor.pin_memory() if is_pinned else tensor

        features = {name: ready(array) for name, array in self.features.items()}
        place = None if self.place is None else ready(self.place)
        return Batch(features, ready(self.lengths), None, place).to(device)


class Prepared(NamedTuple):
    """A chunk of texts: its batches, and where its sentences and tokens stand in the texts."""

    batches: list[PreparedBatch]
    text: np.ndarray  # of each sentence: which of the texts it is of
    first: np.ndarray  # of each sentence: its first token among all
    start: np.ndarray  # (T,): in characters of the text
    end: np.ndarray  # (T,)


@dataclass(frozen=True)
class Preparer:
    """`tagger` may be one without weights: what is done here needs none."""

    tagger: Tagger
    tokenizer: Tokenizer
    sentences: bool
    batch_tokens: int
    batch_sentences: int

    def __call__(self, texts: Sequence[str]) -> Prepared:
        pieces = [(i, tokens) for i, text in enumerate(texts) for tokens in self._sequences(text)]
        words = [_readable([token.text for token in tokens]) for _, tokens in pieces]
        sizes = sizes_of(self.tagger.encoder, words)
        plan = batches_by_length(sizes, self.batch_tokens, self.batch_sentences)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        num_tokens = int(lengths.sum())
        flat = list(chain.from_iterable(tokens for _, tokens in pieces))
        return Prepared(
            [self._batch(indices, words) for indices in plan],
            np.fromiter((i for i, _ in pieces), np.int64, len(pieces)),
            lengths.cumsum() - lengths,
            np.fromiter((token[1] for token in flat), np.int64, num_tokens),
            np.fromiter((token[2] for token in flat), np.int64, num_tokens),
        )

    def _sequences(self, text: str):
        return sequences_of_text(text, self.tokenizer, self.sentences)

    def _batch(self, indices: list[int], words: Sequence[Sequence[str]]) -> PreparedBatch:
        batch = self.tagger.batch([words[i] for i in indices])
        features = {name: value.numpy() for name, value in batch.features.items()}
        place = None if batch.place is None else batch.place.numpy()
        return PreparedBatch(features, batch.lengths.numpy(), place, np.array(indices))


def _readable(tokens: list[str]) -> list[str]:
    """Half a character, which a string can hold and no encoding of text can, becomes the sign for what cannot be
    shown."""
    joined = "".join(tokens)
    if joined.isascii() or not _SURROGATE.search(joined):
        return tokens
    return [_SURROGATE.sub("\ufffd", token) for token in tokens]


# ---- Ahead of the model ----------------------------------------------------------------------------------------------


class PreparedAhead:
    """Chunks of texts, prepared in `workers` processes; in a thread of this one if there are none."""

    def __init__(
        self,
        tagger: Tagger,
        workers: int,
        batch_tokens: int,
        batch_sentences: int,
        tokenizer: Tokenizer = tokens_of_text,
        sentences: bool = True,
    ) -> None:
        if workers < 0:
            raise ValueError(f"workers must be at least 0, got {workers}")
        preparer = Preparer(tagger, tokenizer, sentences, batch_tokens, batch_sentences)
        self._ahead = CHUNKS_AHEAD * max(1, workers)
        self._prepare = preparer if workers == 0 else _prepare_here
        self._pool: Executor
        if workers == 0:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="spansieve-preparing")
        else:
            # Not forked: this process may have threads and a GPU, which a fork would inherit half of.
            without_weights = Preparer(_without_weights(tagger), tokenizer, sentences, batch_tokens, batch_sentences)
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(without_weights,))

    def __call__(self, texts: Iterable[str]) -> Iterator[tuple[list[str], Prepared]]:
        waiting: deque = deque()
        try:
            for chunk in chunks_of(texts):
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


def chunks_of(texts: Iterable[str]) -> Iterator[list[str]]:
    if isinstance(texts, str):  # whose characters would be the texts
        raise TypeError(f"texts must be several strings, got one: {texts[:40]!r}")
    chunk: list[str] = []
    characters = 0
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string, got {type(text).__name__}")
        chunk.append(text)
        characters += len(text)
        if len(chunk) >= TEXTS_IN_CHUNK or characters >= CHARACTERS_IN_CHUNK:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _without_weights(tagger: Tagger) -> Tagger:
    """A copy for other processes: all but the numbers, which take no memory where there are none."""
    tensors = chain(tagger.parameters(), tagger.buffers())
    return copy.deepcopy(tagger, {id(tensor): _empty_like(tensor) for tensor in tensors}).eval()


def _empty_like(tensor: Tensor) -> Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return torch.nn.Parameter(empty, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else empty


_preparer: Preparer | None = None  # of this process, if it is one of the pool


def _start(preparer: Preparer) -> None:
    global _preparer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core each
    torch.set_num_threads(1)
    _preparer = preparer
    gc.freeze()  # what is loaded stays, and need not be looked through again and again


def _prepare_here(texts: list[str]) -> Prepared:
    assert _preparer is not None
    return _preparer(texts)
