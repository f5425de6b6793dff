"""Which sentences go through a model together: no torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spansieve.data.batching import batches_by_length, documents_together
from spansieve.models.found import Documents

TOKENS_TOGETHER = 32_000  # of documents whose scores are held at once, with the one that goes beyond


class Most(NamedTuple):
    """How large a batch may be."""

    tokens: int  # padding included; where the encoder reads subwords, of those
    sentences: int


def planned(
    lengths: Sequence[int], groups: Sequence[Sequence[int]], documents: Documents | None, most: Most
) -> Iterator[list[list[int]]]:
    """Batches, some at a time: each sentence of the groups once, in a batch with others of its group that are alike in
    length. Sentences of one document are among the same batches; where documents do not matter, each comes alone."""
    if documents is None:
        yield from ([batch] for batch in _batches(groups, lengths, most))
        return
    group_of = {i: number for number, group in enumerate(groups) for i in group}
    for part in documents_together(documents, lengths, TOKENS_TOGETHER):
        here: dict[int, list[int]] = {}
        for i in part:
            if i in group_of:
                here.setdefault(group_of[i], []).append(i)
        yield list(_batches(list(here.values()), lengths, most))


def _batches(groups: Sequence[Sequence[int]], lengths: Sequence[int], most: Most) -> Iterator[list[int]]:
    for group in groups:
        for batch in batches_by_length([lengths[i] for i in group], *most):
            yield [group[k] for k in batch]


def checked_documents(documents: Documents | None, num_sentences: int, is_listening: bool) -> Documents | None:
    """None where they make no difference."""
    if documents is not None and len(documents) != num_sentences:
        raise ValueError(f"documents must be one per sentence, {num_sentences}, got {len(documents)}")
    return documents if is_listening and documents is not None and any(x is not None for x in documents) else None
