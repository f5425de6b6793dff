"""Each model with its oracle, from one drawn instance."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch

from spansieve.crf import Candidates, Distribution, FilteredSemiMarkov, LinearChain, NestedSegments, SemiMarkov
from tests import oracle
from tests.instances import Instance

MODELS = ["linear_chain", "semi_markov", "unit_null", "filtered", "filtered_skip", "nested"]


def pair(
    model: str, drawn: Instance, kernel: ModuleType | None, requires_grad: bool = False
) -> tuple[Distribution, oracle.Oracle]:
    """A distribution and its oracle."""
    scores, transition = drawn.tensor(drawn.scores, requires_grad), drawn.tensor(drawn.transition, requires_grad)
    lengths = drawn.lengths
    if model == "linear_chain":
        tag_scores = scores[:, :, 0]
        return (
            LinearChain(tag_scores, transition, lengths, kernel=kernel),
            oracle.linear_chain(drawn.scores[:, :, 0], drawn.transition, lengths),
        )
    if model in ("semi_markov", "unit_null"):
        unit_null = model == "unit_null"
        return (
            SemiMarkov(scores, transition, lengths, unit_null, kernel=kernel),
            oracle.semi_markov(drawn.scores, drawn.transition, lengths, unit_null),
        )
    skip = model == "filtered_skip"
    candidates = Candidates.from_local_scores(drawn.tensor(drawn.local_scores), lengths)
    nodes = (candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label)
    flat = drawn.scores[tuple(x.cpu().numpy() for x in nodes)]
    kept = oracle.kept_by_filter(drawn.local_scores, lengths)
    if model == "nested":
        return (
            NestedSegments(candidates, drawn.tensor(flat, requires_grad), transition, kernel=kernel),
            oracle.nested(kept, flat, drawn.transition),
        )
    return (
        FilteredSemiMarkov(candidates, drawn.tensor(flat, requires_grad), transition, skip, kernel=kernel),
        oracle.filtered(kept, flat, drawn.transition, skip),
    )


def remaker(model: str, drawn: Instance, kernel: ModuleType | None):
    """The same distribution from other scores."""
    if model == "linear_chain":
        return lambda s, t: LinearChain(s, t, drawn.lengths, kernel=kernel)
    if model in ("semi_markov", "unit_null"):
        return lambda s, t: SemiMarkov(s, t, drawn.lengths, kernel=kernel)
    candidates = Candidates.from_local_scores(drawn.tensor(drawn.local_scores), drawn.lengths)
    if model == "nested":
        return lambda s, t: NestedSegments(candidates, s, t, kernel=kernel)
    return lambda s, t: FilteredSemiMarkov(candidates, s, t, model == "filtered_skip", kernel=kernel)


def some_instance(seed: int = 0, dtype: torch.dtype = torch.float64, num_labels: int = 3) -> Instance:
    random = np.random.default_rng(seed)
    lengths = [4, 0, 3, 1]
    shape = (len(lengths), max(lengths), 3, num_labels)
    arrays = random.normal(size=shape), random.normal(size=shape), random.normal(size=(num_labels, num_labels))
    return Instance(*arrays, lengths, dtype, False)
