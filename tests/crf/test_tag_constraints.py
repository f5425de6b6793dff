"""Well-formed tag sequences, and nothing else."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from spansieve.crf import LinearChain, TagConstraints
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api
from tests import oracle
from tests.contract import close, rounding

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
BIO = ["O", "B-A", "I-A", "B-B", "I-B"]
BIOES = ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"]
BILOU = ["O", "B-A", "I-A", "L-A", "U-A", "B-B", "I-B", "L-B", "U-B"]
SMALL_BIOES = ["O", "B-A", "I-A", "E-A", "S-A"]

BIO_PAIRS = {
    "O": "O B-A B-B",
    "B-A": "O B-A I-A B-B",
    "I-A": "O B-A I-A B-B",
    "B-B": "O B-A B-B I-B",
    "I-B": "O B-A B-B I-B",
}
BIOES_PAIRS = {
    "O": "O B-A S-A B-B S-B",
    "B-A": "I-A E-A",
    "I-A": "I-A E-A",
    "E-A": "O B-A S-A B-B S-B",
    "S-A": "O B-A S-A B-B S-B",
    "B-B": "I-B E-B",
    "I-B": "I-B E-B",
    "E-B": "O B-A S-A B-B S-B",
    "S-B": "O B-A S-A B-B S-B",
}


def as_bilou(pairs: dict[str, str]) -> dict[str, str]:
    renamed = str.maketrans({"E": "L", "S": "U"})
    return {tag.translate(renamed): following.translate(renamed) for tag, following in pairs.items()}


@pytest.mark.parametrize(
    ("tags", "pairs", "start", "end"),
    [
        (BIO, BIO_PAIRS, "O B-A B-B", "O B-A I-A B-B I-B"),
        (BIOES, BIOES_PAIRS, "O B-A S-A B-B S-B", "O E-A S-A E-B S-B"),
        (BILOU, as_bilou(BIOES_PAIRS), "O B-A U-A B-B U-B", "O L-A U-A L-B U-B"),
    ],
)
def test_allowed_pairs(tags, pairs, start, end):
    constraints = TagConstraints.from_tags(tags)
    for previous, row in zip(tags, constraints.is_allowed.tolist()):
        assert list(itertools.compress(tags, row)) == pairs[previous].split()
    assert list(itertools.compress(tags, constraints.can_start.tolist())) == start.split()
    assert list(itertools.compress(tags, constraints.can_end.tolist())) == end.split()


def test_the_order_of_the_tags_is_free():
    shuffled = ["I-B", "B-A", "O", "I-A", "B-B"]
    allowed = TagConstraints.from_tags(shuffled).is_allowed
    place = [shuffled.index(tag) for tag in BIO]
    assert allowed[place][:, place].equal(TagConstraints.from_tags(BIO).is_allowed)


@pytest.mark.parametrize("tag", ["", "B", "B-", "-A", "X-A", "BI-A", "O-A", "b-A", "A"])
def test_bad_tags(tag):
    with pytest.raises(ValueError, match=r"a tag must be O or a prefix .* such as B-PER, got '" + tag + "'"):
        TagConstraints.from_tags(["O", tag])


# ---- The model with constraints --------------------------------------------------------------------------------------


def is_well_formed(tags: list[int], names: list[str]) -> bool:
    """By reading from left to right which entity is open, and whether it must be closed."""
    must_close = any(name[0] in "ESLU" for name in names)
    entity, is_open = None, False  # the entity that may go on, and whether it has to
    for name in (names[tag] for tag in tags):
        prefix, label = name[0], name[2:]
        if prefix in "IEL":
            if label != entity:
                return False
        elif is_open:
            return False
        entity = label if prefix in "BI" else None
        is_open = must_close and prefix in "BI"
    return not is_open


def well_formed_only(scores: np.ndarray, transition: np.ndarray, lengths: list[int], names: list[str]) -> oracle.Oracle:
    listed = oracle.linear_chain(scores, transition, lengths)
    listed.scored = [[pair for pair in pairs if is_well_formed(pair[1].structure, names)] for pairs in listed.scored]
    return listed


@st.composite
def tagged(draw):
    """Tag names, scores, transition, lengths and whether sums of scores are exact."""
    names = draw(st.sampled_from([BIO, SMALL_BIOES, ["O", "B-A", "I-A"]]))
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    elements = draw(
        st.sampled_from([st.floats(-3, 3), st.integers(-1, 1).map(float), st.sampled_from([1e4, -1e4, 0.0, 1.0])])
    )
    scores = draw(hnp.arrays(np.float64, (len(lengths), max(lengths), len(names)), elements=elements))
    transition = draw(hnp.arrays(np.float64, (len(names), len(names)), elements=elements))
    is_exact = bool((scores == scores.round()).all() and (transition == transition.round()).all())
    return names, scores, transition, lengths, is_exact


@pytest.mark.parametrize("kernel", KERNELS)
@given(drawn=tagged())
@settings(max_examples=60, deadline=None)
def test_equals_enumeration_of_the_well_formed(kernel, drawn):
    names, scores, transition, lengths, is_exact = drawn
    constraints = TagConstraints.from_tags(names)
    tensors = torch.from_numpy(scores), torch.from_numpy(transition)
    chain = LinearChain(*tensors, lengths, constraints, kernel=kernel)
    expected = well_formed_only(scores, transition, lengths, names)
    within = rounding(chain, expected)
    close(chain.log_partition, expected.log_partition, within.sums)
    close(chain.marginals, expected.marginals, within.shares)
    close(chain.max_score, expected.max_score, within.sums)
    assert all(is_well_formed(tags, names) for tags in chain.mode)
    if is_exact:
        assert chain.mode == [expected.mode(b) for b in range(len(lengths))]


@given(drawn=tagged())
@settings(max_examples=40, deadline=None)
def test_never_samples_or_ranks_the_ill_formed(drawn):
    names, scores, transition, lengths, _ = drawn
    chain = LinearChain(
        torch.from_numpy(scores), torch.from_numpy(transition), lengths, TagConstraints.from_tags(names)
    )
    expected = well_formed_only(scores, transition, lengths, names)
    for b, (ranked, drawn_tags) in enumerate(zip(chain.top_k(6), chain.sample(6, torch.Generator().manual_seed(0)))):
        assert all(is_well_formed(tags, names) for tags, _ in ranked)
        assert all(is_well_formed(tags, names) for tags in drawn_tags)
        assert all(len(tags) == lengths[b] for tags in drawn_tags)
        np.testing.assert_allclose([score for _, score in ranked], expected.top_scores(b, 6), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("names", [BIO, SMALL_BIOES])
def test_only_the_well_formed_have_a_probability(names):
    """All of them, and their probabilities sum to 1; all others raise."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1, 3, len(names), generator=generator, dtype=torch.float64)
    transition = torch.randn(len(names), len(names), generator=generator, dtype=torch.float64)
    chain = LinearChain(scores, transition, [3], TagConstraints.from_tags(names))
    total = 0.0
    for tags in itertools.product(range(len(names)), repeat=3):
        if is_well_formed(list(tags), names):
            total += float(chain.log_prob([tags]).exp())
        else:
            with pytest.raises(ValueError, match="structure 0 is outside the support"):
                chain.log_prob([tags])
    assert abs(total - 1.0) < 1e-12


def test_the_end_is_where_the_sentence_ends_and_not_where_the_batch_does():
    scores = torch.zeros(2, 3, 5)
    scores[:, :, 1] = 5.0  # B-A, which must not come last
    chain = LinearChain(scores, torch.zeros(5, 5), [3, 1], TagConstraints.from_tags(SMALL_BIOES))
    assert chain.mode[1] == [0]
    assert chain.mode[0][-1] != 1
