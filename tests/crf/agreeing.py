"""Distributions given what is known, each with an oracle that lists the structures that agree and no others.

Written from the definitions in `spansieve.crf.conditioning`: nothing here knows of masks, watches or depths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np

from spansieve import Segment
from spansieve.crf import (
    Distribution,
    FilteredSemiMarkov,
    Known,
    LinearChain,
    NestedSegments,
    SemiMarkov,
    TagConstraints,
    given,
)
from spansieve.decoding.tag_codec import TagCodec
from spansieve.segments import LabelSet
from tests import oracle
from tests.instances import Instance, gold_for
from tests.oracle import Listed, Oracle

MODELS = ["BIO", "BIOES", "semi_markov", "unit_null", "filtered", "filtered_strict", "filtered_skip", "nested"]
CHAINS = ("BIO", "BIOES")


@st.composite
def known_of(draw, lengths: list[int], max_width: int, num_labels: int, nested: bool = False) -> list[Known]:
    required = gold_for(draw, lengths, max_width, num_labels)
    if nested and num_labels > 1:
        required = [_laminar([*some, *draw(st.lists(_segments(n, max_width, num_labels), max_size=2))])
                    if n else [] for some, n in zip(required, lengths)]  # fmt: skip
    result = []
    for some, length in zip(required, lengths):
        some = [segment for segment in some if draw(st.booleans())]
        result.append(Known(some, *_others(draw, some, length, max_width, num_labels)))
    return result


def _others(draw, required: list[Segment], length: int, max_width: int, num_labels: int) -> tuple[list, list]:
    if not length or num_labels < 2:
        return [], []
    segments = draw(st.lists(_segments(length, max_width, num_labels), max_size=2))
    spans = [(s.start, s.end) for s in draw(st.lists(_segments(length, max_width, num_labels), max_size=1))]
    taken = {(s.start, s.end) for s in required}
    forbidden = [s for s in segments if s not in required] + [s for s in spans if s not in taken]
    complete = [(s.start, s.end) for s in draw(st.lists(_segments(length, max_width, num_labels), max_size=1))]
    return forbidden, complete if draw(st.booleans()) else []


def _segments(length: int, max_width: int, num_labels: int) -> st.SearchStrategy[Segment]:
    places = st.tuples(st.integers(0, length - 1), st.integers(1, max_width), st.integers(1, num_labels - 1))
    return places.filter(lambda p: p[0] + p[1] <= length).map(lambda p: Segment(p[0], p[0] + p[1], p[2]))


def _laminar(segments: list[Segment]) -> list[Segment]:
    kept: list[Segment] = []
    for node in dict.fromkeys(segments):
        if all(not node.overlaps(s) or oracle.holds(node, s) or oracle.holds(s, node) for s in kept):
            kept.append(node)
    return kept


def agrees(entities: Any, known: Known) -> bool:
    """What `Known` says, word by word."""
    entities = set(entities)
    if not entities >= set(known.required):
        return False
    for one in known.forbidden:
        if any(e == one if len(one) == 3 else e[:2] == one for e in entities):
            return False
    return not any(e.overlaps(Segment(*span, 0)) for e in entities - set(known.required) for span in known.complete)


def pair(
    model: str, drawn: Instance, known: list[Known], kernel, requires_grad: bool = False, banned: Any = ()
) -> tuple[Distribution, Oracle, list[Any]]:
    """The distribution given what is known, its oracle, and the scores and transition that gradients reach."""
    make = _chain if model in CHAINS else _semi_markov if model in ("semi_markov", "unit_null") else _over_candidates
    return make(model, drawn, known, kernel, requires_grad, banned)


def _chain(model, drawn, known, kernel, requires_grad, banned):
    num_labels = drawn.scores.shape[3] - 1
    tags = TagCodec(LabelSet([f"L{y}" for y in range(num_labels)]), model)
    # Every tag needs scores of its own: those of other widths are as random as any.
    scores = np.resize(drawn.scores, (*drawn.scores.shape[:2], len(tags)))
    transition = np.resize(drawn.transition, (len(tags), len(tags)))
    leaves = [drawn.tensor(scores, requires_grad), drawn.tensor(transition, requires_grad)]
    chain = LinearChain(*leaves, drawn.lengths, TagConstraints.from_tags(tags.names), kernel=kernel)
    plain = oracle.linear_chain(scores, transition, drawn.lengths)
    listed = [
        [
            one
            for _, one in sentence
            if (found := spelled([tags.names[t] for t in one.structure], model)) is not None
            and agrees(found, known[b])
            and not any(a.end == z.start and (a.label, z.label) in banned for a, z in zip(found, found[1:]))
        ]
        for b, sentence in enumerate(plain.scored)
    ]
    return given(chain, known, banned, tags=tags), Oracle(listed, scores, transition), leaves


def spelled(names: list[str], scheme: str) -> list[Segment] | None:
    """The segments of tags of labels L0, L1 …, None where they are ill-formed."""
    found: list[Segment] = []
    opened: tuple[int, str] | None = None
    for i, name in enumerate([*names, "O"]):
        prefix, label = name[0], name[3:]
        if prefix in "IE":
            if opened is None or opened[1] != label:
                return None
        elif opened is not None:
            if scheme == "BIOES":  # it should have been closed
                return None
            found.append(Segment(opened[0], i, int(opened[1]) + 1))
            opened = None
        if prefix == "B":
            opened = (i, label)
        elif prefix in "ES":
            found.append(Segment(i if opened is None else opened[0], i + 1, int(label) + 1))
            opened = None
    return found


def _semi_markov(model, drawn, known, kernel, requires_grad, banned):
    is_unit = model == "unit_null"
    leaves = [drawn.tensor(array, requires_grad) for array in (drawn.scores, drawn.transition)]
    plain = oracle.semi_markov(drawn.scores, drawn.transition, drawn.lengths, is_unit)

    def entities(one: Listed) -> list[Segment]:
        return [s for s in one.structure if s.label]

    def is_listed(one: Listed, b: int) -> bool:
        # What is required is in no null segment; what is complete may be in one of any width.
        return agrees(entities(one), known[b]) and not set(banned).intersection(one.transitions())

    listed = [[one for _, one in sentence if is_listed(one, b)] for b, sentence in enumerate(plain.scored)]
    distribution = SemiMarkov(*leaves, drawn.lengths, is_unit, kernel=kernel)
    return given(distribution, known, banned), Oracle(listed, drawn.scores, drawn.transition), leaves


def _over_candidates(model, drawn, known, kernel, requires_grad, banned):
    leaves = [drawn.tensor(array, requires_grad) for array in (drawn.scores, drawn.transition)]
    kept = oracle.kept_by_filter(drawn.local_scores, drawn.lengths)
    lists = [sorted({*nodes, *one.required}) for nodes, one in zip(kept, known)]
    listed = [list(map(_dense(b, model), _sets(model)(nodes, known[b], banned))) for b, nodes in enumerate(lists)]
    arguments = (drawn.tensor(drawn.local_scores), *leaves, drawn.lengths)
    if model == "nested":
        distribution: Distribution = NestedSegments.from_scores(*arguments, kernel=kernel)
    else:
        skip = model == "filtered_skip"
        distribution = FilteredSemiMarkov.from_scores(*arguments, skip=skip, kernel=kernel)
    result = given(distribution, known, banned, remove=model != "filtered_strict")
    return result, Oracle(listed, drawn.scores, drawn.transition), leaves


def _dense(b: int, model: str) -> Callable[[tuple[Segment, ...]], Listed]:
    """Parts that stand in dense scores."""

    def listed(chosen: tuple[Segment, ...]) -> Listed:
        index = dict.fromkeys(chosen, 0)
        one = oracle._of_laminar(chosen, index, True) if model == "nested" else oracle._of_path(chosen, index)
        return one._replace(parts=tuple((b, s.start, s.width - 1, s.label) for s in one.structure))

    return listed


def _sets(model: str) -> Callable[[list[Segment], Known, Any], list[tuple[Segment, ...]]]:
    return {"nested": nested_sets, "filtered": left_sets, "filtered_strict": strict_sets}.get(model, any_sets)


def nested_sets(nodes: list[Segment], known: Known, banned: Any) -> list[tuple[Segment, ...]]:
    def is_banned(chosen: tuple[Segment, ...]) -> bool:
        return bool(set(banned).intersection(_dense(0, "nested")(chosen).transitions()))

    return [chosen for chosen in oracle.laminar_sets(nodes) if agrees(chosen, known) and not is_banned(chosen)]


def any_sets(nodes: list[Segment], known: Known, banned: Any) -> list[tuple[Segment, ...]]:
    return [chosen for chosen in oracle.disjoint_sets(nodes) if agrees(chosen, known) and not meets(chosen, banned)]


def strict_sets(nodes: list[Segment], known: Known, banned: Any) -> list[tuple[Segment, ...]]:
    """Of the graph with the required ones among its candidates, the paths that agree."""
    return [chosen for chosen in oracle.maximal_sets(nodes) if agrees(chosen, known) and not meets(chosen, banned)]


def left_sets(nodes: list[Segment], known: Known, banned: Any) -> list[tuple[Segment, ...]]:
    """Candidates that can be with the required ones are left. A set of them is a path when all required ones are in it,
    no banned pair meets, and no candidate can be added but those that could be in a banned pair."""
    left = [node for node in nodes if agrees({node, *known.required}, known)]
    left = [node for node in left if not any(node != r and node.overlaps(r) for r in known.required)]
    may_skip = {
        node
        for node in left
        for other in left
        if (node.end <= other.start and (node.label, other.label) in banned)
        or (other.end <= node.start and (other.label, node.label) in banned)
    } - set(known.required)
    return [
        chosen
        for chosen in oracle.disjoint_sets(left)
        if agrees(chosen, known)
        and not meets(chosen, banned)
        and all(n in chosen or n in may_skip or any(n.overlaps(s) for s in chosen) for n in left)
    ]


def meets(chosen: tuple[Segment, ...], banned: Any) -> bool:
    return any((a.label, z.label) in banned for a, z in zip(chosen, chosen[1:]))
