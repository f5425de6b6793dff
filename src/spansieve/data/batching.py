"""Which sentences go together: parts of a corpus, steps of training that follow from the seed alone, and batches for
prediction.

A plan is the same on every process and in every run, so that several processes share it without communication, and a
run that was interrupted goes on where it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import TypeVar

import numpy as np

from spansieve.data.example import Example

STEPS_IN_POOL = 50  # sentences of so many steps are sorted by length together: little padding, much chance
Item = TypeVar("Item")
Made = TypeVar("Made")


def plan_epoch(lengths: Sequence[int], step_size: int, seed: int, epoch: int, smallest: int = 1) -> list[list[int]]:
    """The sentences of each step of an epoch, every sentence once; sentences of a step are alike in length.

    A last step of fewer than `smallest` sentences is joined to the one before it, since every process needs a share.
    """
    chance = Random(f"{seed}/{epoch}")
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


def batches_by_length(lengths: Sequence[int] | np.ndarray, max_tokens: int, max_sentences: int) -> Iterator[list[int]]:
    """Batch sentences of like length, padding counted: each index once. A longer sentence stands alone."""
    order = np.argsort(lengths, kind="stable").tolist()
    first = 0  # of the batch
    for place, length in enumerate(np.sort(lengths).tolist()):
        size = place - first
        if size and (size == max_sentences or (size + 1) * length > max_tokens):
            yield order[first:place]
            first = place
    if order:
        yield order[first:]


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


def split_examples(examples: Sequence[Example], fractions: Sequence[float], seed: int = 0) -> list[list[Example]]:
    """Split examples at random into parts of about these fractions of the sentences, each in the order that they had.

    Documents are not divided; where none is named, sentences of one text stay together, and so do equal sentences. The
    same seed gives the same parts.

    >>> [len(part) for part in split_examples([Example.of(f"sentence {i}") for i in range(20)], [0.9, 0.1])]
    [18, 2]
    """
    if len(fractions) < 2 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions must be at least two, all above 0 and 1 in sum, got {list(fractions)}")
    drawn = by_document(examples)
    if len(drawn) < len(fractions):
        got = f"{len(drawn)} in {len(examples)} sentences"
        raise ValueError(f"{len(fractions)} parts need as many documents, which are not divided, got {got}")
    Random(seed).shuffle(drawn)
    largest = max(range(len(fractions)), key=lambda part: fractions[part])
    parts: list[list[int]] = [[] for _ in fractions]
    for part, fraction in enumerate(fractions):
        if part == largest:
            continue  # it gets what the others leave
        parts[part] += drawn.pop()
        others = sum(not other for other in parts) - 1  # that still need a document, beside the largest
        while len(drawn) > others + 1 and len(parts[part]) + len(drawn[-1]) / 2 <= fraction * len(examples):
            parts[part] += drawn.pop()
    parts[largest] = [number for group in drawn for number in group]
    return [[examples[number] for number in sorted(part)] for part in parts]


def by_document(examples: Sequence[Example]) -> list[list[int]]:
    """Group the places of examples by their documents."""
    groups: dict[object, list[int]] = {}
    for place, example in enumerate(examples):
        groups.setdefault(document_key(example), []).append(place)
    return list(groups.values())


def document_key(example: Example) -> object:
    """What the examples of one document have in common, and no others."""
    return example.document or example.text or example.tokens


def described_part(name: str, part: Sequence[Example]) -> str:
    """Describe a part in a line: its sentences, its documents where these have names, and its entities."""
    documents = len({example.document for example in part} - {None})
    of_documents = f" of {documents:,} documents" if documents else ""
    entities = sum(len(example.segments) for example in part)
    return f"{name}: {len(part):,} sentences{of_documents} with {entities:,} entities"
