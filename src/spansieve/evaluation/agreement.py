"""How far annotators of the same texts agree: span F1, and Cohen's kappa of the labels of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from spansieve.data.alignment import documents_of_examples
from spansieve.data.example import Example
from spansieve.data.tokenizer import split_at, tokens_of_text
from spansieve.evaluation.scores import evaluate

Annotation = tuple[int, int, str]  # `text[start:end]` is a label
Annotated = dict[tuple[str, int], list[Annotation]]  # by the text, and how often it occurred before


@dataclass(frozen=True)
class Agreement:
    """The agreement of two annotators on the texts that both have."""

    first: str
    second: str
    texts: int
    f1: float  # of entities with the same characters and label; the same with either as gold
    kappa: float  # Cohen's, of tokens with their label or none; 1 where all tokens are alike to both


@dataclass(frozen=True)
class AgreementReport:
    pairs: list[Agreement]
    disagreements: list[dict[str, Any]]  # a text, and the entities of each annotator that not all of them have

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def agreement_of(annotators: Mapping[str, Sequence[Example]]) -> AgreementReport:
    """Compare the annotations of each two annotators, by name, of the texts that both have."""
    if len(annotators) < 2:
        raise ValueError(f"agreement needs at least two annotators of the same texts, got {', '.join(annotators)}")
    annotated = {name: _by_text(examples) for name, examples in annotators.items()}
    pairs = [_agreement(*pair, annotated) for pair in combinations(annotated, 2)]
    disagreements = []
    for key in dict.fromkeys(key for texts in annotated.values() for key in texts):
        entities = {name: set(texts[key]) for name, texts in annotated.items() if key in texts}
        shared = set.intersection(*entities.values())
        if any(own != shared for own in entities.values()):
            only = {name: [(*e, key[0][e[0] : e[1]]) for e in sorted(own - shared)] for name, own in entities.items()}
            disagreements.append({"text": key[0], "entities": only})
    return AgreementReport(pairs, disagreements)


def _by_text(examples: Iterable[Example]) -> Annotated:
    """Group annotations by text, in characters: where an entity cuts a token, annotators have different tokens."""
    seen: Counter[str] = Counter()
    annotated: Annotated = {}
    for document in documents_of_examples(replace(example, document=None) for example in examples):
        annotated[document.text, seen[document.text]] = list(document.annotations)
        seen[document.text] += 1
    return annotated


def _agreement(first: str, second: str, annotated: Mapping[str, Annotated]) -> Agreement:
    shared = [key for key in annotated[first] if key in annotated[second]]
    if not shared:
        raise ValueError(f"{first} and {second} must have a text in common, got none")
    own, other = ([annotated[name][key] for key in shared] for name in (first, second))
    labels = [pair for key, *both in zip(shared, own, other) for pair in _token_labels(key[0], *both)]
    return Agreement(first, second, len(shared), evaluate(own, other).f1 if any(own + other) else 1.0, kappa(labels))


def _token_labels(text: str, *annotations: Sequence[Annotation]) -> Iterable[tuple[Any, ...]]:
    """The label, or labels, that each annotator gives to each token; tokens end where an entity of any of them does."""
    tokens = split_at(tokens_of_text(text), {border for some in annotations for a in some for border in a[:2]})
    return zip(
        *([{label for start, end, label in some if start <= t.start < end} for t in tokens] for some in annotations)
    )


def kappa(pairs: Sequence[tuple[Any, Any]]) -> float:
    """Cohen's kappa of pairs of labels: by how much more than by chance they agree.

    >>> round(kappa([("PER", "PER"), ("", ""), ("", ""), ("PER", "")]), 2)
    0.5
    """
    first, second = (Counter(str(sorted(label)) for label in column) for column in zip(*pairs))
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = sum(count * second[label] for label, count in first.items()) / len(pairs) ** 2
    return 1.0 if chance == 1 else (observed - chance) / (1 - chance)
