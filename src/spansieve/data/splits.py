"""Parts of a corpus to train, develop and test on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from spansieve.data.example import Example


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
    """Describe a part in a line: its sentences, its documents where these are fewer, and its entities."""
    documents = len(set(map(document_key, part)))
    of_documents = f" of {documents:,} documents" if documents < len(part) else ""
    entities = sum(len(example.segments) for example in part)
    return f"{name}: {len(part):,} sentences{of_documents} with {entities:,} entities"
