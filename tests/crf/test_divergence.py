"""Cross-entropy and divergence of two distributions, against enumeration."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from spansieve.crf import (
    Candidates,
    FilteredSemiMarkov,
    Known,
    LinearChain,
    NestedSegments,
    SemiMarkov,
    cross_entropy,
    kl_divergence,
)
from spansieve.crf import given as given_known
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from tests import oracle
from tests.contract import close, rounding
from tests.crf.small import raises
from tests.distributions import MODELS, pair, remaker, some_instance
from tests.instances import Instance, instances
from tests.oracle import Oracle

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]


def enumerated(teacher: Oracle, student: Oracle) -> np.ndarray:
    """-Σ P(structure) log Q(structure), structure by structure."""
    result = []
    for b in range(len(teacher.scored)):
        log_z = student.log_partition[b]
        known = {str(one.structure): score - log_z for score, one in student.possible(b)}
        terms = [(p, known.get(str(one.structure), -math.inf)) for p, one in teacher.probabilities(b)]
        result.append(-sum(p * q for p, q in terms if p > 0))
    return np.array(result)


@st.composite
def two_instances(draw) -> tuple[Instance, Instance]:
    """Two with other scores and, for the filtered, other candidates."""
    first = draw(instances(most_tokens=3, most_sentences=2))
    shape, elements = first.scores.shape, st.one_of(st.floats(-3, 3, width=32), st.just(-np.inf))
    arrays = [draw(hnp.arrays(np.float64, one, elements=elements)) for one in (shape, shape, shape[-1:] * 2)]
    return first, first._replace(scores=arrays[0], local_scores=arrays[1], transition=arrays[2])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", MODELS)
@given(drawn=two_instances())
@settings(max_examples=15, deadline=None)
def test_equals_enumeration(model, kernel, drawn):
    first, second = drawn
    if model == "filtered":  # maximal paths: the student has the teacher's candidates
        second = second._replace(local_scores=first.local_scores)
    (teacher, listed), (student, other) = pair(model, first, kernel), pair(model, second, kernel)
    expected = enumerated(listed, other)
    within = rounding(teacher, listed).entropy + rounding(student, other).entropy
    close(cross_entropy(teacher, student), expected, within * (1 + other.size))
    divergence = kl_divergence(teacher, student)
    close(divergence, expected - listed.entropy(), within * (1 + other.size))
    assert (divergence >= -within * (1 + other.size)).all()


@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances(most_tokens=3, most_sentences=2))
@settings(max_examples=10, deadline=None)
def test_of_a_distribution_with_itself(model, drawn):
    distribution, listed = pair(model, drawn, None)
    within = rounding(distribution, listed).entropy
    close(cross_entropy(distribution, distribution), distribution.entropy().double().numpy(), within)
    close(kl_divergence(distribution, distribution), np.zeros(len(drawn.lengths)), within)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_by_finite_differences(model):
    teacher, _ = pair(model, some_instance(0), None)
    remake = remaker(model, some_instance(0), None)
    inputs = [
        value.detach().requires_grad_()
        for value in (teacher.scores, teacher.transition, teacher.scores.sigmoid(), teacher.transition.sigmoid())
    ]
    assert torch.autograd.gradcheck(lambda s, t, u, v: cross_entropy(remake(s, t), remake(u, v)), inputs)
    assert torch.autograd.gradcheck(lambda s, t, u, v: kl_divergence(remake(s, t), remake(u, v)), inputs)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("labels_per_span", [1, 2])
def test_dense_scores_and_other_candidates(kernel, labels_per_span):
    """A student that keeps all, with the gradient to its dense scores, which what the teacher does not keep shares."""
    drawn = some_instance(3)
    local, scores, transition = map(drawn.tensor, (drawn.local_scores, drawn.scores, drawn.transition))
    teacher = FilteredSemiMarkov.from_scores(local, scores, transition, drawn.lengths, skip=True, kernel=kernel)
    kept = oracle.kept_by_filter(drawn.local_scores, drawn.lengths)

    def student(u, v):
        everything = torch.cat((torch.full_like(local[..., :1], -torch.inf), local[..., 1:]), -1)
        options = {"skip": True, "labels_per_span": labels_per_span, "kernel": kernel}
        return FilteredSemiMarkov.from_scores(everything, u, v, drawn.lengths, **options)

    other = student(scores.sin(), transition.sin())
    flat = other.scores.numpy()
    by_oracle = oracle.filtered(
        [list(nodes) for nodes in other.candidates.segments()], flat, np.sin(drawn.transition), True
    )
    own = oracle.filtered(kept, teacher.scores.numpy(), drawn.transition, True)
    expected = enumerated(own, by_oracle)
    assert np.isfinite(expected).all()
    close(cross_entropy(teacher, other), expected, 1e-12)
    inputs = (scores.sin().requires_grad_(), transition.sin().requires_grad_())
    assert torch.autograd.gradcheck(lambda u, v: cross_entropy(teacher, student(u, v)), inputs, fast_mode=True)
    assert torch.isinf(cross_entropy(other, teacher)[0])  # which lacks candidates that the other has


def test_dense_scores_on_a_gpu():
    """The same as on the CPU; without a GPU, in Triton's interpreter."""
    cuda = pytest.importorskip("spansieve.crf.kernels.cuda", reason="needs Triton", exc_type=ImportError)
    drawn = some_instance(3)
    found = []
    for kernel, device in ((None, "cpu"), (cuda, "cuda" if torch.cuda.is_available() else "cpu")):
        one = drawn._replace(device=device)
        local, scores, transition = map(one.tensor, (drawn.local_scores, drawn.scores, drawn.transition))
        inputs, options = (
            (scores, transition, torch.tensor(drawn.lengths, device=device)),
            {"skip": True, "kernel": kernel},
        )
        teacher = FilteredSemiMarkov.from_scores(local, *inputs, **options)
        everything = torch.cat((torch.full_like(local[..., :1], -torch.inf), local[..., 1:]), -1)
        student = FilteredSemiMarkov.from_scores(everything, *inputs, labels_per_span=2, **options)
        found.append([cross_entropy(teacher, student).cpu(), cross_entropy(student, teacher).cpu()])
    assert found[0][0].isfinite().all()
    assert found[0][1].isinf().any()
    torch.testing.assert_close(found[1], found[0])


def test_widths_and_padding_may_differ():
    drawn = some_instance(1)
    scores, transition = drawn.tensor(drawn.scores), drawn.tensor(drawn.transition)
    narrow = SemiMarkov(scores[:, :, :2], transition, drawn.lengths)
    wide = SemiMarkov(torch.nn.functional.pad(scores, [0, 0, 0, 0, 0, 2]), transition, drawn.lengths)
    listed = [
        oracle.semi_markov(array, drawn.transition, drawn.lengths) for array in (drawn.scores[:, :, :2], drawn.scores)
    ]
    close(cross_entropy(narrow, wide), enumerated(*listed), 1e-12)
    found = cross_entropy(wide, narrow)
    assert found.isinf().tolist() == [length > 2 for length in drawn.lengths]


def test_what_the_student_cannot_have_is_infinite_and_without_a_gradient():
    scores = torch.zeros(2, 3, 2)
    teacher = LinearChain(scores, torch.zeros(2, 2), [3, 0])
    forbidden = torch.zeros(2, 3, 2)
    forbidden[0, 1, 1] = -torch.inf
    learned = torch.zeros(2, 2, requires_grad=True)
    found = cross_entropy(teacher, LinearChain(forbidden, learned, [3, 0]))
    assert found.tolist() == [math.inf, 0.0]
    assert torch.autograd.grad(found.sum(), learned)[0].eq(0).all()
    with_ban = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    assert cross_entropy(teacher, LinearChain(scores, with_ban, [3, 0])).tolist() == [math.inf, 0.0]
    assert kl_divergence(LinearChain(scores, with_ban, [3, 0]), teacher).isfinite().all()


# ---- From one kind to another ----------------------------------------------------------------------------------------


def as_entities(listed: Oracle) -> list[dict[tuple, float]]:
    """The probability of each set of entities, null segments left out."""
    result = []
    for b in range(len(listed.scored)):
        sums: dict[tuple, float] = {}
        for p, one in listed.probabilities(b):
            key = tuple(s for s in one.structure if s.label)
            sums[key] = sums.get(key, 0.0) + p
        result.append(sums)
    return result


def by_entities(teacher: Oracle, student: Oracle) -> np.ndarray:
    pairs = zip(as_entities(teacher), as_entities(student))
    return np.array([-sum(p * math.log(q[key]) if p else 0.0 for key, p in own.items()) for own, q in pairs])


def every_candidate(drawn: Instance) -> Candidates:
    return Candidates.from_lists(oracle.every_span(drawn.local_scores, drawn.lengths), drawn.lengths)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit_null", [False, True])
def test_from_semi_markov_to_filtered(seed, unit_null):
    drawn = some_instance(seed)
    teacher, listed = pair("unit_null" if unit_null else "semi_markov", drawn, None)
    candidates = every_candidate(drawn)
    scores = torch.randn(len(candidates), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    zeros = torch.zeros(3, 3, dtype=torch.float64)
    student = FilteredSemiMarkov(candidates, scores, zeros, skip=True)
    nodes = [list(x) for x in candidates.segments()]
    other = oracle.filtered(nodes, scores.numpy(), zeros.numpy(), skip=True)
    close(cross_entropy(teacher, student), by_entities(listed, other), 1e-12)
    leaf = scores.clone().requires_grad_()
    make = lambda s: cross_entropy(teacher, FilteredSemiMarkov(candidates, s, zeros, skip=True))  # noqa: E731
    assert torch.autograd.gradcheck(make, leaf)


@pytest.mark.parametrize("constant", [0.0, -0.7])
@pytest.mark.parametrize("model", ["filtered", "filtered_skip"])
def test_from_filtered_to_semi_markov(model, constant):
    drawn = some_instance(5)
    teacher, listed = pair(model, drawn, None)
    scores, same = drawn.tensor(np.cos(drawn.scores)), torch.full((3, 3), constant, dtype=torch.float64)
    student = SemiMarkov(scores, same, drawn.lengths, unit_null=True)
    other = oracle.semi_markov(np.cos(drawn.scores), same.numpy(), drawn.lengths, unit_null=True)
    close(cross_entropy(teacher, student), by_entities(listed, other), 1e-12)


def test_what_is_not_exact_is_refused():
    drawn = some_instance()
    semi, filtered, chain = (pair(model, drawn, None)[0] for model in ("semi_markov", "filtered_skip", "linear_chain"))
    learned = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    with raises("student must have a transition of zeros that is not learned"):
        cross_entropy(semi, filtered)
    with raises("student must have a transition of zeros that is not learned"):
        cross_entropy(semi, FilteredSemiMarkov(filtered.candidates, filtered.scores, learned, skip=True))
    with raises("student must have a transition of one number that is not learned"):
        cross_entropy(filtered, semi)
    for teacher, student in ((semi, chain), (chain, semi), (filtered, chain)):
        with raises("as the teacher is"):
            cross_entropy(teacher, student)
    with raises("student must be a SemiMarkov, as the teacher is, got FilteredSemiMarkov"):
        kl_divergence(semi, filtered)
    maximal = FilteredSemiMarkov(filtered.candidates, filtered.scores, filtered.transition)
    with raises("student must have skip=True, or else"):
        cross_entropy(filtered, maximal)
    assert cross_entropy(maximal, filtered).isfinite().all()


def test_errors_name_what_is_wrong():
    chain = LinearChain(torch.zeros(2, 3, 2), torch.zeros(2, 2), [3, 1])
    with raises("teacher and student must be over the same sentences, got other lengths"):
        cross_entropy(chain, LinearChain(torch.zeros(2, 3, 2), torch.zeros(2, 2), [3, 2]))
    with raises("teacher and student must have the same labels, got 2 and 3"):
        cross_entropy(chain, LinearChain(torch.zeros(2, 3, 3), torch.zeros(3, 3), [3, 1]))
    nested = NestedSegments(Candidates.from_lists([[(0, 2, 1)]], [2]), torch.zeros(1))
    with raises("student must not be conditioned by given()"):
        cross_entropy(nested, given_known(nested, [Known(required=[(0, 2, 1)])]))
    with raises("a distribution must be one of LinearChain, SemiMarkov", TypeError):
        cross_entropy(chain, "chain")


def test_a_conditioned_teacher():
    """Which is how knowledge is distilled: what the teacher thinks, given what an annotator said."""
    nested = NestedSegments(Candidates.from_lists([[(0, 2, 1), (0, 1, 1)]], [2]), torch.zeros(2))
    known = given_known(nested, [Known(required=[(0, 2, 1)])])
    assert cross_entropy(known, nested).tolist() == pytest.approx([math.log(4)])
