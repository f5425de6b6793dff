"""Scores decoded without torch, against each head's own distribution."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain, combinations

import numpy as np
import pytest
import torch

from spansieve.config import ConfigError
from spansieve.crf.evidence import Known
from spansieve.crf.flat_segments import flat_segments
from spansieve.decoding.constraints import ConstraintError, Rules
from spansieve.decoding.coverage import Decision
from spansieve.decoding.decoders import Decoder, DecoderSettings
from spansieve.models.filtered import FilteredHead
from spansieve.models.heads import HEADS
from spansieve.segments import Segment
from tests.nn.heads import entities_by_definition, head_of, keep_half, oracle_of, vectors_of

LENGTHS = [9, 1, 14, 3]
CASES = [
    ("fsemicrf", {}),
    ("fsemicrf", {"skip": True}),
    ("fsemicrf", {"skip": True, "margin": 1.0, "labels_per_span": 2, "budget": 5}),
    ("fsemicrf", {"margin": 1.0}),
    ("crf", {"scheme": "BIO"}),
    ("crf", {"scheme": "BIOES"}),
    ("semicrf", {}),
    ("semicrf-unit-null", {}),
    ("filter-only", {"skip": True, "labels_per_span": 2}),
    ("filter-only", {"margin": 1.0, "labels_per_span": 2}),
    ("global-selection", {}),
    ("global-selection", {"skip": True, "labels_per_span": 2}),
    ("nested", {}),
    ("nested", {"margin": 1.0}),
    ("nested-filter-only", {"labels_per_span": 2}),
]
every_case = pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=lambda v: v if isinstance(v, str) else str(v)[1:-1]
)


def test_every_head_is_here():
    assert {name for name, _ in CASES} == set(HEADS)


@every_case
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threads", [1, 2])
def test_segments_and_probabilities_are_those_of_the_distribution(name, settings, seed, threads):
    head, vectors = head_of(name, num_names=3, max_width=4, seed=seed, **settings), vectors_of(LENGTHS, seed)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    with torch.no_grad():
        distribution = head.distribution(vectors, torch.tensor(LENGTHS))
        expected = [head.entities(structure) for structure in distribution.mode]
        scores = [part.contiguous().numpy() for part in head.scores(vectors)]
    decoder = head.decoder(threads)
    without = decoder(scores, np.array(LENGTHS), False)
    decoded = decoder(scores, np.array(LENGTHS), True)
    assert any(expected)
    assert decoded.segments.by_sentence() == without.segments.by_sentence() == expected
    assert without.probabilities is None
    if name != "crf":  # whose marginals are of tags
        marginals = distribution.marginals
        flat = flat_segments(expected)
        index = (flat.sentence, flat.start, flat.end - flat.start - 1, flat.label)
        np.testing.assert_allclose(decoded.probabilities, marginals[index].detach(), rtol=1e-5, atol=1e-6)


def short_batch(name, settings, seed, lengths):
    """A head, the vectors of a batch short enough to enumerate, and its scores."""
    head, vectors = head_of(name, num_names=2, max_width=3, seed=seed, **settings), vectors_of(lengths, seed)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, lengths)
    with torch.no_grad():
        return head, vectors, [part.contiguous().numpy() for part in head.scores(vectors)]


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_coverage_is_that_of_enumeration(name, settings, seed):
    """P(a token is part of an entity of this label), by all structures of short sentences."""
    lengths = [4, 1, 3]
    head, vectors, scores = short_batch(name, settings, seed, lengths)
    covering = head.decoder().covering()
    decoded = covering(scores, np.array(lengths), False)
    assert decoded.segments.by_sentence() == head.decoder()(scores, np.array(lengths), False).segments.by_sentence()
    listed = oracle_of(head, vectors, lengths)
    for b, prediction in enumerate(decoded.predictions(("", "A", "B"), np.array(lengths))):
        expected = np.zeros((lengths[b], 2))
        for p, one in listed.probabilities(b):
            for segment in entities_by_definition(head, one.structure):
                expected[segment.start : segment.end, segment.label - 1] += p
        np.testing.assert_allclose(prediction.coverage, expected.clip(max=1), atol=1e-5)
        counts = [
            sum(
                p * sum(s.label == y for s in entities_by_definition(head, one.structure))
                for p, one in listed.probabilities(b)
            )
            for y in (1, 2)
        ]
        np.testing.assert_allclose(prediction.expected, counts, atol=1e-5)


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_no_other_set_has_a_larger_f1_to_be_expected(name, settings, seed):
    """By enumeration: the probability of each segment, and all sets of them that the model could return."""
    lengths = [4, 1, 3]
    head, vectors, scores = short_batch(name, settings, seed, lengths)
    listed, is_nested = oracle_of(head, vectors, lengths), head.kind == "nested"
    decided = []
    for b in range(len(lengths)):
        probability: dict[Segment, float] = {}
        for p, one in listed.probabilities(b):
            for segment in set(entities_by_definition(head, one.structure)):
                probability[segment] = probability.get(segment, 0.0) + p
        expected = sum(probability.values())
        sets = [chosen for chosen in powerset(sorted(probability)) if goes_together(chosen, is_nested)]
        f1 = [2 * sum(map(probability.get, chosen)) / (len(chosen) + expected) if chosen else 0.0 for chosen in sets]
        for cutoff in (max(max(f1) / 2, 0.01), 0.2, 0.5):
            decoder = head.decoder().deciding(Decision(f1_cutoff=cutoff))
            decoded = decoder(scores, np.array(lengths), True)
            found = decoded.segments.by_sentence()[b]
            gain, best = (
                max(sum(probability.get(s, -1) - cutoff for s in chosen) for chosen in some) for some in ([found], sets)
            )
            assert gain == pytest.approx(best, abs=1e-5)
            own = decoded.probabilities[decoded.segments.sentence == b]
            np.testing.assert_allclose(own, [probability[s] for s in found], atol=1e-5)
            if cutoff == max(f1) / 2 and found:
                reached = 2 * sum(map(probability.get, found)) / (len(found) + expected)
                assert reached == pytest.approx(max(f1), abs=1e-4)
                decided.append(found)
    assert decided


@every_case
def test_the_largest_f1_under_constraints(name, settings):
    """What is required is in it, what is forbidden is not, and what is below its threshold is left out."""
    head, vectors = head_of(name, num_names=2, max_width=3, **settings), vectors_of([5])
    with torch.no_grad():
        scores = [part.contiguous().numpy() for part in head.scores(vectors)]
    required = Segment(1, 3, 2)
    rules = [Rules(Known([required], complete=[(3, 4)]), thresholds=(0.0, 0.0, 0.3), required=frozenset([required]))]
    decoder = head.decoder().deciding(Decision(f1_cutoff=0.1))
    decoded = decoder(scores, np.array([5]), True, rules)
    found = dict(zip(decoded.segments.by_sentence()[0], decoded.probabilities))
    assert found[required] == 1
    assert all(segment.end <= 3 or segment.start >= 4 for segment in found)
    assert all(probability >= (0.3 if segment.label == 2 else 0.1) for segment, probability in found.items())
    assert decoder(scores, np.array([5]), False, rules).segments.by_sentence() == [tuple(found)]
    with pytest.raises(ConstraintError, match="banned pairs must be decoded by probability"):
        decoder(scores, np.array([5]), True, [Rules(banned=frozenset([(1, 2)]))])


def powerset(segments):
    return chain.from_iterable(combinations(segments, size) for size in range(5))


def goes_together(segments, is_nested):
    """Whether any two are disjoint or, where that may be, one lies within the other and is not the same span."""
    return all(
        a.end <= b.start
        or b.end <= a.start
        or (is_nested and a[:2] != b[:2] and (a.start - b.start) * (a.end - b.end) <= 0)
        for a, b in combinations(segments, 2)
    )


def test_a_chain_of_long_entities_lists_every_likely_one():
    """Beginnings are followed while they are likely: the same as the marginals of all segments."""
    head, vectors = head_of("crf", num_names=2, scheme="BIO"), vectors_of([30])
    with torch.no_grad():
        (scores,) = (3 * part.numpy() for part in head.scores(vectors))
    batch = head.decoder().batch([scores], np.array([30]))
    segments = flat_segments([[(i, j, y) for i in range(30) for j in range(i + 1, 31) for y in (1, 2)]])
    values = batch.probabilities(segments)
    for least in (0.02, 0.3):
        found, own = batch.likely_segments(least)
        expected = {tuple(s): p for s, p in zip(segments.by_sentence()[0], values) if p > least}
        assert len(expected) > 5
        assert dict(zip(map(tuple, found.by_sentence()[0]), own)) == pytest.approx(expected)


@pytest.mark.parametrize("margin", [2.0, np.inf])
def test_a_wider_margin_covers_what_the_filter_left_out(margin):
    """With all spans kept it is the coverage of a model that has no filter."""
    head, vectors = head_of("fsemicrf", skip=True, margin=0.5, labels_per_span=2), vectors_of(LENGTHS)
    keep_half(head, vectors, LENGTHS)
    with torch.no_grad():
        local, scores = (part.contiguous().numpy() for part in head.scores(vectors))
    found = head.decoder().covering(margin)([local, scores], np.array(LENGTHS), True).coverage
    wider = local - np.array([margin, 0, 0], np.float32)
    np.testing.assert_allclose(
        found, head.decoder().covering()([wider, scores], np.array(LENGTHS), True).coverage, atol=1e-6
    )
    is_covered, was_covered = (
        each[..., 1:].max(-1) > 0
        for each in (found, head.decoder().covering()([local, scores], np.array(LENGTHS), True).coverage)
    )
    assert (is_covered >= was_covered).all()
    if margin == np.inf:
        assert is_covered.sum() == sum(LENGTHS) > was_covered.sum()


@pytest.mark.parametrize(
    ("head", "settings", "margin", "message"),
    [
        ("fsemicrf", {}, 1.0, "margin must be 0 under a model without skips, got 1.0"),
        ("nested", {}, np.inf, "margin must be finite under a nested model"),
        ("crf", {}, -1.0, "margin must be at least 0, got -1"),
        ("crf", {}, np.nan, "margin must be at least 0, got nan"),
    ],
)
def test_margins_that_cannot_be(head, settings, margin, message):
    with pytest.raises(ValueError, match=message):
        head_of(head, **settings).decoder().covering(margin)


@every_case
def test_the_filters_own_probability_is_of_the_scores_as_they_were_learned(name, settings):
    """Whatever margin null has to win by. Where nothing filters, it is the marginal."""
    head, vectors, lengths = head_of(name, num_names=3, max_width=4, **settings), vectors_of(LENGTHS), np.array(LENGTHS)
    if isinstance(head, FilteredHead):
        keep_half(head, vectors, LENGTHS)
    with torch.no_grad():
        scores = [part.contiguous().numpy() for part in head.scores(vectors)]
        if isinstance(head, FilteredHead):
            learned = head.scorer.dense(head.scorer(vectors))[..., : len(head.labels)].softmax(-1)
    alone, product = (head.decoder(with_filter=with_filter)(scores, lengths, True) for with_filter in (False, True))
    segments = alone.segments
    assert len(segments.start)
    assert segments.by_sentence() == product.segments.by_sentence()
    expected = alone.probabilities
    if isinstance(head, FilteredHead):
        index = (segments.sentence, segments.start, segments.end - segments.start - 1, segments.label)
        expected = expected * learned[index].numpy()
    np.testing.assert_allclose(product.probabilities, expected, rtol=1e-4, atol=1e-6)


@every_case
def test_what_cannot_be_decoded_is_refused(name, settings):
    head, vectors = head_of(name, **settings), vectors_of(LENGTHS)
    decoder, lengths = head.decoder(), np.array(LENGTHS)
    arrays = decoder.arrays
    wrong = [arrays | {"transition": np.zeros((2, 2), np.float32)}, arrays | {"transition": np.zeros(3)}]
    for given in wrong if head.kind == "nested" else [{}, *wrong]:
        with pytest.raises(ValueError, match="transition must be numbers of shape"):
            Decoder(head.decoder_settings, head.labels, given)
    with torch.no_grad():
        scores = [part.contiguous().numpy().copy() for part in head.scores(vectors)]
    for wrong_scores in ([part[..., :-1] for part in scores], [*scores, scores[0]], [x.astype(float) for x in scores]):
        with pytest.raises(ValueError, match=r"scores must be . float32 arrays of shape"):
            decoder(wrong_scores, lengths, True)
    for part in scores:
        part[:] = np.nan
    with pytest.raises(ValueError, match="scores must be numbers below"):
        decoder(scores, lengths, True)


@every_case
def test_scores_are_not_changed(name, settings):
    head = head_of(name, **settings)
    with torch.no_grad():
        scores = [part.contiguous().numpy() for part in head.scores(vectors_of(LENGTHS))]
    before = [part.copy() for part in scores]
    head.decoder()(scores, np.array(LENGTHS), True)
    for part, other in zip(scores, before):
        np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "greedy"}, "decoder.kind must be one of linear-chain, semi-markov, filtered, nested, got 'greedy'"),
        ({"max_width": 0}, "decoder.max_width must be at least 1, got 0"),
        ({"labels_per_span": 0}, "decoder.labels_per_span must be at least 1, got 0"),
        ({"budget": -1}, "decoder.budget must be at least 0, got -1"),
    ],
)
def test_settings_that_cannot_be(wrong, message):
    with pytest.raises(ConfigError, match=message):
        DecoderSettings(**{"kind": "filtered", "max_width": 3} | wrong)


def test_no_torch():
    code = "import spansieve.decoding.decoders, spansieve.models.inference, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
