"""Every distribution given what is known against enumeration: the structures that agree, and no others."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given as drawing
from hypothesis import settings

from spansieve import Segment
from spansieve.crf import (
    Candidates,
    FilteredSemiMarkov,
    Gold,
    Known,
    LinearChain,
    NestedSegments,
    SemiMarkov,
    TagConstraints,
    given,
)
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from spansieve.decoding.tag_codec import TagCodec
from spansieve.segments import LabelSet
from tests import oracle
from tests.contract import check, check_samples, check_top_k, close, rounding
from tests.crf.agreeing import CHAINS, MODELS, known_of, pair
from tests.distributions import some_instance
from tests.instances import Instance, instances

every_kernel = pytest.mark.parametrize(
    "kernel", [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
)
every_model = pytest.mark.parametrize("model", MODELS)


def draw_case(model: str, data: st.DataObject, with_bans: bool = True) -> tuple[Instance, list[Known], set]:
    """Chains of many tags have many sequences: theirs are short."""
    drawn = data.draw(instances(*((3, 2, 2 if model == "BIOES" else 3) if model in CHAINS else (4, 2))))
    _, _, max_width, num_labels = drawn.scores.shape
    known = data.draw(known_of(drawn.lengths, max_width, num_labels, nested=model == "nested"))
    labels = st.integers(1, max(1, num_labels - 1))
    bans = data.draw(st.sets(st.tuples(labels, labels), max_size=2)) if with_bans and num_labels > 1 else set()
    return drawn, known, bans


@every_kernel
@every_model
@drawing(data=st.data())
@settings(max_examples=25, deadline=None)
def test_equals_enumeration(model, kernel, data):
    drawn, known, bans = draw_case(model, data)
    distribution, listed, _ = pair(model, drawn, known, kernel, banned=bans)
    # A watched segment has tags of its own, whose order is not that of the tags they stand for.
    check(distribution, listed, drawn.is_exact and model not in CHAINS)


@every_model
@drawing(data=st.data(), k=st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_top_k_equals_enumeration(model, data, k):
    drawn, known, bans = draw_case(model, data)
    distribution, listed, _ = pair(model, drawn, known, None, banned=bans)
    check_top_k(distribution, listed, k)


@every_model
@drawing(data=st.data())
@settings(max_examples=10, deadline=None)
def test_gradients_are_the_marginals(model, data):
    drawn, known, bans = draw_case(model, data)
    distribution, listed, leaves = pair(model, drawn, known, None, requires_grad=True, banned=bans)
    gradients = torch.autograd.grad(distribution.log_partition.sum(), leaves, retain_graph=True, allow_unused=True)
    if drawn.scores.size and gradients[0] is not None:
        within = rounding(distribution, listed).shares
        close(gradients[0], listed.marginals, within)
        close(gradients[1], listed.transition_counts.sum(0), len(known) * within)
    for gradient in torch.autograd.grad(distribution.entropy().sum(), leaves, allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


KNOWN = [Known(), Known(complete=[(1, 2)]), Known(forbidden=[(0, 1)])]


@every_model
def test_samples_come_with_their_probabilities(model):
    num_labels = 2 if model == "BIOES" else 3
    known = [Known(required=[(1, 3, num_labels - 1)], forbidden=[(0, 1, 1)]), *KNOWN]
    check_samples(*pair(model, some_instance(num_labels=num_labels), known, None)[:2])


@every_model
def test_nothing_known_changes_nothing(model):
    drawn = some_instance()
    before = pair(model, drawn, [Known()] * 4, None)[0]
    after = given(before, [Known()] * 4, tags=_tags(model))
    torch.testing.assert_close(before.log_partition, after.log_partition)
    torch.testing.assert_close(before.marginals, after.marginals)
    assert before.mode == after.mode


def _tags(model: str) -> TagCodec | None:
    return TagCodec(LabelSet(["A", "B"]), model) if model in CHAINS else None


@pytest.mark.parametrize("model", ["BIO", "semi_markov", "filtered", "filtered_skip", "nested"])
def test_step_by_step_is_all_at_once(model):
    """What is learned later may be added to what was known before."""
    drawn = some_instance(3)
    first, second = Known(required=[(0, 1, 1)]), Known(forbidden=[(1, 3)], complete=[(3, 4)])
    both = Known(first.required, second.forbidden, second.complete)
    rest = [Known()] * 3
    once = given(pair(model, drawn, [Known()] * 4, None)[0], [first, *rest], tags=_tags(model))
    stepwise = given(once, [second, *rest], tags=_tags(model))
    at_once = pair(model, drawn, [both, *rest], None)[0]
    torch.testing.assert_close(stepwise.log_partition, at_once.log_partition)
    torch.testing.assert_close(stepwise.marginals, at_once.marginals)


def test_the_probability_of_what_is_known():
    """log Z given it less log Z: of a segment, its marginal; and with its complement, 1."""
    drawn = some_instance(1)
    scores = drawn.tensor(drawn.scores, requires_grad=True)
    free = SemiMarkov(scores, drawn.tensor(drawn.transition), drawn.lengths)
    segment, rest = (1, 3, 2), [Known()] * 3
    with_it = given(free, [Known(required=[segment]), *rest]).log_partition - free.log_partition
    without = given(free, [Known(forbidden=[segment]), *rest]).log_partition - free.log_partition
    torch.testing.assert_close(with_it[0].exp(), free.marginals[0, 1, 1, 2])
    torch.testing.assert_close(with_it[0].exp() + without[0].exp(), torch.ones((), dtype=torch.float64))
    torch.testing.assert_close(with_it[1:], torch.zeros(3, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(with_it.sum(), scores)
    assert gradient.abs().sum() > 0
    assert gradient.isfinite().all()


# ---- Candidates ------------------------------------------------------------------------------------------------------


def test_a_lone_forbidden_candidate_is_gone():
    """Strictly there would be nothing: each path takes a candidate that overlaps no other."""
    candidates = Candidates.from_lists([[(0, 1, 1), (2, 4, 1)]], [4])
    model = FilteredSemiMarkov(candidates, torch.tensor([1.0, 2.0]), torch.zeros(2, 2))
    known = [Known(forbidden=[(0, 1)])]
    assert given(model, known).mode == [((2, 4, 1),)]
    assert given(model, known, remove=False).log_partition.item() == -torch.inf


def test_candidates_of_a_banned_pair_may_be_left_out():
    candidates = Candidates.from_lists([[(0, 1, 1), (2, 3, 2), (4, 5, 2)]], [5])
    model = FilteredSemiMarkov(candidates, torch.tensor([1.0, 2.0, -1.0]), torch.zeros(3, 3))
    assert model.mode == [((0, 1, 1), (2, 3, 2), (4, 5, 2))]
    assert given(model, [Known()], banned=[(1, 2)]).mode == [((2, 3, 2),)]
    assert given(model, [Known()], banned=[(2, 1)]).mode == model.mode  # nothing could be one
    assert given(model, [Known(required=[(0, 1, 1)])], banned=[(1, 2)]).mode == [((0, 1, 1),)]
    assert given(model, [Known()], banned=[(1, 2)], remove=False).log_partition.item() == -torch.inf


@every_kernel
@drawing(data=st.data(), drawn=instances())
@settings(max_examples=25, deadline=None)
def test_some_candidates_may_be_skipped(kernel, data, drawn):
    """A set is a path when no candidate that may not be skipped can be added."""
    lists = oracle.kept_by_filter(drawn.local_scores, drawn.lengths)
    candidates = Candidates.from_local_scores(drawn.tensor(drawn.local_scores), drawn.lengths)
    mask = data.draw(st.lists(st.booleans(), min_size=len(candidates), max_size=len(candidates)))
    nodes = (candidates.sentence, candidates.start, candidates.end - candidates.start - 1, candidates.label)
    flat = drawn.scores[tuple(x.numpy() for x in nodes)]
    may_skip = {(b, s) for (b, s), m in zip(_in_order(lists), mask) if m}
    listed, at = [], 0
    for b, found in enumerate(lists):
        index = {s: at + k for k, s in enumerate(sorted(found, key=lambda s: (s.end, s.start, s.label)))}
        at += len(found)
        must = [s for s in found if (b, s) not in may_skip]
        sets = [c for c in oracle.disjoint_sets(found) if all(s in c or any(s.overlaps(o) for o in c) for s in must)]
        listed.append([oracle._of_path(chosen, index) for chosen in sets])
    model = FilteredSemiMarkov(
        candidates, drawn.tensor(flat), drawn.tensor(drawn.transition), torch.tensor(mask, dtype=torch.bool),
        kernel=kernel,
    )  # fmt: skip
    check(model, oracle.Oracle(listed, flat, drawn.transition), drawn.is_exact)


def _in_order(lists: list[list[Segment]]) -> list[tuple[int, Segment]]:
    return [(b, s) for b, nodes in enumerate(lists) for s in sorted(nodes, key=lambda s: (s.end, s.start, s.label))]


def test_flat_candidates_keep_their_scores():
    lists = [[(0, 2, 1), (1, 3, 2), (3, 4, 1)], [(0, 1, 2)]]
    for kind in (FilteredSemiMarkov, NestedSegments):
        model = kind(Candidates.from_lists(lists, [4, 2]), torch.tensor([1.0, 3.0, 2.0, -1.0]), torch.zeros(3, 3))
        left = given(model, [Known(required=[(0, 2, 1)]), Known(forbidden=[(0, 1, 2)])])
        assert left.candidates.segments() == [((0, 2, 1), (3, 4, 1)), ()]
        assert left.scores.tolist() == [1.0, 2.0]
        assert left.mode == [((0, 2, 1), (3, 4, 1)), ()]
        with raises("required segment (2, 3, 1) of sentence 0 must be a candidate, since nothing else has a score"):
            given(model, [Known(required=[(2, 3, 1)]), Known()])


# ---- What is refused -------------------------------------------------------------------------------------------------


def raises(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


def semi_markov() -> SemiMarkov:
    return SemiMarkov(torch.zeros(2, 4, 2, 3), torch.zeros(3, 3), [4, 3])


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([Known()], "known must be one per sentence, 2, got 1"),
        ([Known(), Known([(0, 2, 1), (1, 3, 1)])], "required segments must not overlap, got segment (0, 2, 1) and"),
        ([Known(), Known([(2, 4, 1)])], "segment (2, 4, 1) of sentence 1 must lie within its 3 tokens"),
        ([Known([(0, 3, 1)]), Known()], "segment (0, 3, 1) of sentence 0 is 3 wide, but the widest scored is 2"),
        ([Known([(0, 1, 3)]), Known()], "label of segment (0, 1, 3) of sentence 0 must lie between 1 and 2"),
        ([Known([(0, 1, 0)]), Known()], "label of segment (0, 1, 0) of sentence 0 must lie between 1 and 2"),
        ([Known([(0, 1, 1)], [(0, 1)]), Known()], "segment (0, 1, 1) of sentence 0 is required, and forbidden too"),
        ([Known(forbidden=[(3, 5)]), Known()], "segment (3, 5, 1) of sentence 0 must lie within its 4 tokens"),
        ([Known(complete=[(2, 2)]), Known()], "segment (2, 2, 1) of sentence 0 must lie within its 4 tokens"),
    ],
)
def test_what_cannot_be_known(known, message):
    with raises(message):
        given(semi_markov(), known)


def test_wide_segments_may_be_forbidden():
    """They are not in the model anyhow."""
    model = semi_markov()
    left = given(model, [Known(forbidden=[(0, 4)]), Known()])
    torch.testing.assert_close(left.log_partition, model.log_partition)


def test_labels_that_are_none():
    with raises("a banned pair must be of labels below 3, got (1, 3)"):
        given(semi_markov(), [Known(), Known()], banned=[(1, 3)])
    chain = LinearChain(torch.zeros(1, 2, 5), torch.zeros(5, 5), [2])
    with raises("tags must say how segments are written, for a linear chain, got None"):
        given(chain, [Known()])
    with raises("a banned pair must be of labels from 1 to 2, got 3"):
        given(chain, [Known()], banned=[(1, 3)], tags=TagCodec(LabelSet(["A", "B"]), "BIO"))


def test_structures_that_disagree_have_no_probability():
    tags = TagCodec(LabelSet(["A"]), "BIO")
    chain = LinearChain(torch.zeros(1, 3, 3), torch.zeros(3, 3), [3], TagConstraints.from_tags(tags.names))
    left = given(chain, [Known(forbidden=[(0, 2, 1)])], tags=tags)
    assert left.log_prob([[1, 2, 2]]).item() == left.log_prob(Gold.from_tags([[1, 2, 2]], (1, 3, 3))).item()
    assert np.isclose(left.log_prob([[1, 1, 0]]).exp().item(), 1 / 11)
    with raises("structure 0 is outside the support: a part of it has a score of -inf"):
        left.log_prob([[1, 2, 0]])
    nested = NestedSegments(Candidates.from_lists([[(0, 2, 1), (0, 1, 1)]], [2]), torch.zeros(2))
    with raises("segmentation 0 is outside the support: segment (0, 1, 1) is required"):
        given(nested, [Known(required=[(0, 1, 1)])]).log_prob([[(0, 2, 1)]])
