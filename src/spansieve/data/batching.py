"""Which sentences go together: steps of training that follow from the seed alone, and batches for prediction.

A plan is the same on every process and in every run, so that several processes share it without communication, and a
run that was interrupted goes on where it was.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

STEPS_IN_POOL = 50  # sentences of so many steps are sorted by length together: little padding, much chance
Item = TypeVar("Item")
Made = TypeVar("Made")


def plan_epoch(lengths: Sequence[int], step_size: int, seed: int, epoch: int, smallest: int = 1) -> list[list[int]]:
    """The sentences of each step of an epoch, every sentence once; sentences of a step are alike in length.

    A last step of fewer than `smallest` sentences is joined to the one before it, since every process needs a share.
    """
    chance = random.Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    chance.shuffle(order)
    steps: list[list[int]] = []
    pool_size = step_size * STEPS_IN_POOL
    for low in range(0, len(order), pool_size):
        pool = sorted(order[low : low + pool_size], key=lambda i: lengths[i])
        steps += [pool[i : i + step_size] for i in range(0, len(pool), step_size)]
    if len(steps) > 1:
        short = next((step for step in steps if len(step) < smallest), None)
        if short is not None:
            steps.remove(short)
            steps[-1] += short
    chance.shuffle(steps)
    return steps


def process_batches(step: Sequence[int], process: int, processes: int, parts: int) -> list[list[int]]:
    """The batches of one process's part of a step, `parts` of them at most; none of them is empty.

    A step has a sentence for each process at least.
    """
    own = step[process::processes]
    return [list(own[part::parts]) for part in range(parts) if part < len(own)]


def batches_by_length(lengths: Sequence[int], max_tokens: int, max_sentences: int) -> Iterator[list[int]]:
    """Batch sentences of like length, padding counted: each index once. A longer sentence stands alone."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) == max_sentences or (len(batch) + 1) * lengths[i] > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def batches_of_groups(
    lengths: Sequence[int], groups: Sequence[Sequence[int]], max_tokens: int, max_sentences: int
) -> list[list[int]]:
    """Batch each sentence of the groups once, with others of its group that are alike in length.

    >>> batches_of_groups([2, 9, 2, 2], [[0, 1, 2], [3]], max_tokens=10, max_sentences=2)
    [[0, 2], [1], [3]]
    """
    return [
        [group[k] for k in batch]
        for group in groups
        for batch in batches_by_length([lengths[i] for i in group], max_tokens, max_sentences)
    ]


def prepared_ahead(items: Iterable[Item], make: Callable[[Item], Made], depth: int = 5) -> Iterator[Made]:
    """Call `make` on each item, on the next ones in a thread while the caller works. An error is raised at its item."""
    pool, made = ThreadPoolExecutor(1), deque[Future[Made]]()
    try:
        for item in items:
            made.append(pool.submit(make, item))
            if len(made) > depth:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
