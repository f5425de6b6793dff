"""Brute force behind the interface of the real thing: every structure is listed, then everything follows by counting.

Nothing here knows of recursions, windows or edges. A model gives, per sentence, all of its structures; a structure is
given by the positions of its parts in the scores and by its label sequence, or by the pairs of labels that meet in it.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spansieve import Segment


class Listed(NamedTuple):
    structure: Any
    parts: tuple[tuple[int, ...], ...]  # positions in the scores
    labels: tuple[int, ...]
    order: tuple[Any, ...]  # of equally good structures the one with the smallest is the mode
    pairs: tuple[tuple[int, int], ...] | None = None  # positions in the transition; None: those of the label sequence

    def transitions(self) -> list[tuple[int, int]]:
        return list(zip(self.labels, self.labels[1:]) if self.pairs is None else self.pairs)


class Oracle:
    """The verbs of `Distribution`, by enumeration, in float64."""

    def __init__(self, listed: list[list[Listed]], scores: np.ndarray, transition: np.ndarray) -> None:
        self.scores = scores.astype(np.float64)
        self.transition = transition.astype(np.float64)
        self.scored = [[(self._score(one), one) for one in sentence] for sentence in listed]

    def _score(self, one: Listed) -> float:
        pairs = one.transitions()
        return float(sum(self.scores[p] for p in one.parts) + sum(self.transition[p] for p in pairs))

    @cached_property
    def size(self) -> float:
        """What is added up at most: absolute scores and transitions of a structure, and the log of their number."""
        sizes = [[self._size(one) for _, one in self.possible(b)] for b in range(len(self.scored))]
        return max((1.0 + math.log(max(1, len(some))) + max(some, default=0.0) for some in sizes), default=1.0)

    def _size(self, one: Listed) -> float:
        return float(
            sum(abs(self.scores[p]) for p in one.parts) + sum(abs(self.transition[p]) for p in one.transitions())
        )

    def possible(self, b: int) -> list[tuple[float, Listed]]:
        return [(score, one) for score, one in self.scored[b] if score > -math.inf]

    @property
    def log_partition(self) -> np.ndarray:
        return np.array([log_sum([s for s, _ in self.possible(b)]) for b in range(len(self.scored))])

    @property
    def max_score(self) -> np.ndarray:
        return np.array([max((s for s, _ in self.possible(b)), default=-math.inf) for b in range(len(self.scored))])

    def mode(self, b: int) -> Any:
        best = max(score for score, _ in self.possible(b))
        return min((one for score, one in self.possible(b) if score == best), key=lambda one: one.order).structure

    def probabilities(self, b: int) -> list[tuple[float, Listed]]:
        total = log_sum([s for s, _ in self.possible(b)])
        return [(math.exp(score - total), one) for score, one in self.possible(b)]

    @property
    def marginals(self) -> np.ndarray:
        result = np.zeros(self.scores.shape)
        for b in range(len(self.scored)):
            for probability, one in self.probabilities(b):
                for part in one.parts:
                    result[part] += probability
        return result

    @property
    def transition_counts(self) -> np.ndarray:
        result = np.zeros((len(self.scored), *self.transition.shape))
        for b in range(len(self.scored)):
            for probability, one in self.probabilities(b):
                for pair in one.transitions():
                    result[(b, *pair)] += probability
        return result

    def entropy(self) -> np.ndarray:
        return np.array(
            [-sum(p * math.log(p) for p, _ in self.probabilities(b) if p > 0) for b in range(len(self.scored))]
        )

    def top_scores(self, b: int, k: int) -> list[float]:
        return sorted((score for score, _ in self.possible(b)), reverse=True)[:k]


def log_sum(values: list[float]) -> float:
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(sum(math.exp(v - top) for v in values))


def linear_chain(scores: np.ndarray, transition: np.ndarray, lengths: list[int]) -> Oracle:
    num_tags = scores.shape[2]
    listed = []
    for b, length in enumerate(lengths):
        sequences = itertools.product(range(num_tags), repeat=length)
        listed.append([Listed(list(t), tuple((b, i, y) for i, y in enumerate(t)), t, t[::-1]) for t in sequences])
    return Oracle(listed, scores, transition)


def semi_markov(scores: np.ndarray, transition: np.ndarray, lengths: list[int], unit_null: bool = False) -> Oracle:
    _, _, max_width, num_labels = scores.shape

    def segmentations(start: int, length: int):
        if start == length:
            yield ()
        for end in range(start + 1, min(start + max_width, length) + 1):
            for label in range(num_labels):
                if not (unit_null and label == 0 and end - start > 1):
                    for rest in segmentations(end, length):
                        yield (Segment(start, end, label), *rest)

    listed = []
    for b, length in enumerate(lengths):
        listed.append([_of_segments(segments, b) for segments in segmentations(0, length)])
    return Oracle(listed, scores, transition)


def _of_segments(segments: tuple[Segment, ...], b: int) -> Listed:
    parts = tuple((b, s.start, s.width - 1, s.label) for s in segments)
    return Listed(segments, parts, tuple(s.label for s in segments), path_order(segments))


def path_order(segments: tuple[Segment, ...]) -> tuple[tuple[int, int, int], ...]:
    """The last segment decides first, then the one before it."""
    return tuple((s.end, s.start, s.label) for s in reversed(segments))


def filtered(candidates: list[list[Segment]], scores: np.ndarray, transition: np.ndarray, skip: bool = False) -> Oracle:
    """`scores[c]` goes by the candidates in (sentence, end, start, label) order."""
    listed, at = [], 0
    for nodes in candidates:
        nodes = sorted(nodes, key=lambda s: (s.end, s.start, s.label))
        index = {node: at + k for k, node in enumerate(nodes)}
        at += len(nodes)
        listed.append([_of_path(path, index) for path in (disjoint_sets if skip else maximal_sets)(nodes)])
    return Oracle(listed, scores, transition)


def _of_path(path: tuple[Segment, ...], index: dict[Segment, int]) -> Listed:
    return Listed(path, tuple((index[s],) for s in path), tuple(s.label for s in path), path_order(path))


def disjoint_sets(nodes: list[Segment]) -> list[tuple[Segment, ...]]:
    """Every set of candidates no two of which overlap, from left to right."""
    sets: list[tuple[Segment, ...]] = [()]
    for node in sorted(nodes):
        sets += [(*chosen, node) for chosen in sets if not any(node.overlaps(s) for s in chosen)]
    return sets


def maximal_sets(nodes: list[Segment]) -> list[tuple[Segment, ...]]:
    """Those to which no candidate can be added."""
    return [
        chosen
        for chosen in disjoint_sets(nodes)
        if all(node in chosen or any(node.overlaps(s) for s in chosen) for node in nodes)
    ]


def nested(candidates: list[list[Segment]], scores: np.ndarray, transition: np.ndarray | None) -> Oracle:
    """`scores[c]` goes by the candidates in (sentence, end, start, label) order."""
    listed, at = [], 0
    for nodes in candidates:
        nodes = sorted(nodes, key=lambda s: (s.end, s.start, s.label))
        index = {node: at + k for k, node in enumerate(nodes)}
        at += len(nodes)
        listed.append([_of_laminar(chosen, index, transition is not None) for chosen in laminar_sets(nodes)])
    return Oracle(listed, scores, np.zeros((1, 1)) if transition is None else transition)


def _of_laminar(chosen: tuple[Segment, ...], index: dict[Segment, int], has_labels: bool) -> Listed:
    structure = tuple(sorted(chosen, key=lambda s: (s.start, -s.end)))
    parents = [min((s for s in chosen if holds(s, child)), key=lambda s: s.width, default=None) for child in structure]
    pairs = [(0 if parent is None else parent.label, child.label) for parent, child in zip(parents, structure)]
    return Listed(
        structure,
        tuple((index[s],) for s in structure),
        tuple(s.label for s in structure),
        nested_order(structure),
        tuple(pairs if has_labels else [(0, 0)] * len(pairs)),
    )


def holds(outer: Segment, inner: Segment) -> bool:
    return outer.contains(inner) and outer.width > inner.width


def nested_order(structure: tuple[Segment, ...]) -> tuple[Any, ...]:
    """The last outermost segment decides first, then what is within it, then what is before it."""
    outermost = [s for s in structure if not any(holds(other, s) for other in structure)]
    if not outermost:
        return ()
    last = max(outermost)
    within = tuple(s for s in structure if holds(last, s))
    before = tuple(s for s in structure if s.end <= last.start)
    return ((last.end, last.start, last.label), nested_order(within), nested_order(before))


def laminar_sets(nodes: list[Segment]) -> list[tuple[Segment, ...]]:
    """Every set of candidates any two of which are disjoint, or one of which holds the other."""
    sets: list[tuple[Segment, ...]] = [()]
    for node in nodes:
        sets += [
            (*chosen, node)
            for chosen in sets
            if all(not node.overlaps(s) or holds(node, s) or holds(s, node) for s in chosen)
        ]
    return sets


def kept_by_filter(
    local_scores: np.ndarray, lengths: list[int], labels_per_span: int = 1, budget: int | None = None
) -> list[list[Segment]]:
    """By the words of `Candidates.from_local_scores`, span by span."""
    result = []
    for b, length in enumerate(lengths):
        found: list[tuple[float, Segment]] = []
        for start in range(length):
            for end in range(start + 1, min(length, start + local_scores.shape[2]) + 1):
                scores = local_scores[b, start, end - start - 1]
                labels = sorted((y for y in range(1, len(scores)) if scores[y] > scores[0]), key=lambda y: -scores[y])
                best = labels[:labels_per_span]
                found += [(scores[y] - scores[0], Segment(start, end, y)) for y in sorted(best)]
        ranked = sorted(found, key=lambda pair: -pair[0])  # stable: of equals the first
        result.append(sorted(segment for _, segment in ranked[:budget]))
    return result


def kept_for_training(
    local_scores, lengths: list[int], gold: list[list[Segment]], skip: bool, unknown=None, **limits
) -> list[list[Segment]]:
    """Both training rules: clear of gold goes, unless `skip` or nothing is known of its tokens; gold comes, with its
    gold label."""
    result = []
    kept = kept_by_filter(local_scores, lengths, **limits)
    for nodes, golden, ranges in zip(kept, gold, unknown or [()] * len(gold)):
        near = [node for node in nodes if skip or is_unknown(node, ranges) or any(node.overlaps(g) for g in golden)]
        result.append(sorted({*near, *golden}))
    return result


def every_span(local_scores: np.ndarray, lengths: list[int]) -> list[list[Segment]]:
    """With each of its labels but null."""
    _, _, max_width, num_labels = local_scores.shape
    return [
        [
            Segment(start, end, label)
            for start in range(length)
            for end in range(start + 1, min(length, start + max_width) + 1)
            for label in range(1, num_labels)
        ]
        for length in lengths
    ]


def is_unknown(segment: Segment, ranges) -> bool:
    """True when nothing is known of all of its tokens."""
    return any(start <= segment.start and segment.end <= end for start, end in ranges)
