"""Decoding for other people's models, against every segmentation of small sentences, written as tags one by one."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from spansieve import Constraints, Segment
from spansieve.crf.kernels import ScoreError
from spansieve.data.tag_schemes import tags_of_segments
from spansieve.decode import SpanDecoder, TokenDecoder, averaged, join_subwords, summed
from spansieve.decoding import token_scores
from spansieve.decoding.constraints import ConstraintError
from spansieve.segments import NamedSegment
from tests.oracle import disjoint_sets, laminar_sets

LABELS = ("LOC", "PER")
PREFIXES = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES", "BILOU": "BILU", "IO": "I", "plain": "I"}
SCHEMES = list(PREFIXES)
NUMBERS = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.0, 0.25, 1.0, 2.5])
few = settings(max_examples=40, deadline=None)


def tags_of(scheme: str, labels=LABELS) -> list[str]:
    """The tags of a scheme, O in the middle: a classifier may have them in any order."""
    if scheme == "plain":
        return [labels[0], "O", *labels[1:]]
    tags = [f"{prefix}-{label}" for prefix in PREFIXES[scheme] for label in labels]
    return [*tags[:1], "O", *tags[1:]]


def every_set(length: int, labels=LABELS, max_width: int = 99) -> list[tuple[NamedSegment, ...]]:
    spans = [(i, j) for i in range(length) for j in range(i + 1, min(length, i + max_width) + 1)]
    nodes = [Segment(*span, label) for span in spans for label in range(len(labels))]
    return [tuple(NamedSegment(*s[:2], labels[s.label]) for s in chosen) for chosen in disjoint_sets(nodes)]


class Classifier:
    """Logits of one sentence, and the score of any set of segments by its tags."""

    def __init__(self, seed: int, scheme: str, length: int, learned: bool = False, labels=LABELS) -> None:
        random = np.random.default_rng(seed)
        self.scheme, self.tags, self.length, self.labels = scheme, tags_of(scheme, labels), length, labels
        size = len(self.tags)
        self.logits = random.choice([-3.0, -1.0, 0.0, 0.5, 2.0], (length, size))
        shapes = {"transition": (size, size), "start": (size,), "end": (size,)}
        self.learned = {name: random.normal(size=shape) for name, shape in shapes.items()} if learned else {}

    def score(self, segments) -> float:
        known = [segment for segment in segments if segment.label in self.labels]
        try:
            tags = tags_of_segments(known, self.length, self.scheme)
        except ValueError:  # IO cannot tell two that touch apart
            return -math.inf
        ids = [self.tags.index(tag) for tag in tags]
        total = sum(self.logits[i, y] for i, y in enumerate(ids))
        if self.learned and ids:
            total += self.learned["start"][ids[0]] + self.learned["end"][ids[-1]]
            total += sum(self.learned["transition"][pair] for pair in itertools.pairwise(ids))
        return float(total)

    def decoder(self, **options) -> TokenDecoder:
        scheme = self.scheme if self.scheme in ("IOB1", "plain") else "auto"
        return TokenDecoder(self.tags, scheme, **self.learned, **options)

    def decoded(self, **options):
        return self.decoder(**options)(self.logits)


class Listed:
    """Every set that can be, with its probability."""

    def __init__(self, scored) -> None:
        self.scored = [(score, frozenset(chosen)) for chosen, score in scored if score > -math.inf]
        top = max(score for score, _ in self.scored)
        total = sum(math.exp(score - top) for score, _ in self.scored)
        self.probability = {chosen: math.exp(score - top) / total for score, chosen in self.scored}

    def marginals(self) -> dict[NamedSegment, float]:
        found: dict[NamedSegment, float] = {}
        for chosen, probability in self.probability.items():
            for segment in chosen:
                found[segment] = found.get(segment, 0.0) + probability
        return found


def key(segment) -> NamedSegment:
    return NamedSegment(*segment[:3])


def assert_equal(decoded, listed: Listed, sets) -> None:
    """Best, marginals and largest expected F1 of the first sentence are those of all sets."""
    best = decoded.best()[0]
    chosen, marginals = frozenset(map(key, best)), listed.marginals()
    assert len(chosen) == len(best)
    assert listed.probability[chosen] == pytest.approx(max(listed.probability.values()))
    for segment in best:
        assert segment.probability == pytest.approx(marginals[key(segment)], abs=1e-9)
    assert [s[:3] for s in decoded.best(with_probabilities=False)[0]] == [s[:3] for s in best]
    assert_marginals(decoded, marginals)
    if not any(one and one.banned for one in decoded.constraints):
        assert_expected_f1(decoded, marginals, sets)


def assert_marginals(decoded, marginals) -> None:
    found = {key(segment): segment.probability for segment in decoded.marginals(1e-9)[0]}
    assert found == pytest.approx({s: p for s, p in marginals.items() if p >= 1e-9}, abs=1e-9)


def assert_expected_f1(decoded, marginals, sets) -> None:
    expected = sum(marginals.values())

    def f1(chosen) -> float:
        return 2 * sum(marginals.get(key(s), 0.0) for s in chosen) / (len(chosen) + expected) if chosen else 0.0

    assert f1(decoded.best("f1")[0]) == pytest.approx(max(map(f1, sets)), abs=1e-9)
    assert decoded.f1_cutoff() == pytest.approx(max(map(f1, sets)) / 2, abs=1e-9)


# ---- Token classifiers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@drawn(
    seed=st.integers(0, 10**6), length=st.integers(1, 4), learned=st.booleans(), max_width=st.sampled_from([1, 2, 64])
)
@few
def test_a_token_classifier_is_as_enumerated(scheme, seed, length, learned, max_width):
    classifier = Classifier(seed, scheme, length, learned)
    sets = every_set(length, max_width=max_width)
    listed = Listed((chosen, classifier.score(chosen)) for chosen in sets)
    decoded = classifier.decoded(max_width=max_width)
    assert_equal(decoded, listed, sets)
    for k in (1, 3, 10_000):
        k_best = decoded.top_k(k)[0]
        found = [frozenset(one.segments) for one in k_best]
        assert len(set(found)) == len(found) == min(k, len(listed.probability))
        assert [one.probability for one in k_best] == pytest.approx([listed.probability[one] for one in found])
        assert [one.probability for one in k_best] == pytest.approx(sorted(listed.probability.values())[::-1][:k])


def agrees(chosen, constraints: Constraints) -> bool:
    spans, required = {segment[:2] for segment in chosen}, set(constraints.required)
    if not required <= set(chosen):
        return False
    if any((one in chosen) if len(one) == 3 else (tuple(one) in spans) for one in constraints.forbidden):
        return False
    for start, end in constraints.complete:
        if any(s.start < end and start < s.end and s not in required for s in chosen):
            return False
    pairs = itertools.pairwise(sorted(chosen))
    return not any(a.end == b.start and (a.label, b.label) in constraints.banned for a, b in pairs)


@st.composite
def constraints(draw, length: int) -> Constraints:
    def span(with_label: bool):
        start = draw(st.integers(0, length - 1))
        place = start, draw(st.integers(start + 1, length))
        return (*place, draw(st.sampled_from(LABELS))) if with_label else place

    required = [span(True)] if draw(st.booleans()) else []
    forbidden = [span(draw(st.booleans())) for _ in range(draw(st.integers(0, 3)))]
    complete = [span(False)] if draw(st.booleans()) else []
    banned = [(draw(st.sampled_from(LABELS)), draw(st.sampled_from(LABELS)))] if draw(st.booleans()) else []
    return Constraints(required, forbidden, complete, banned)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "IO"])
@drawn(data=st.data(), seed=st.integers(0, 10**6), length=st.integers(1, 4), learned=st.booleans())
@few
def test_constraints_condition_a_token_classifier(scheme, data, seed, length, learned):
    classifier, known = Classifier(seed, scheme, length, learned), data.draw(constraints(length))
    sets = [chosen for chosen in every_set(length) if agrees(chosen, known)]
    scored = [(chosen, classifier.score(chosen)) for chosen in sets]
    decoded = classifier.decoded()
    if any(s[:2] == f[:2] and (len(f) == 2 or s == f) for s in known.required for f in known.forbidden):
        with pytest.raises(ConstraintError, match="is required, and forbidden too"):
            decoded.given(known).best()
    elif max((score for _, score in scored), default=-math.inf) == -math.inf:
        with pytest.raises(ConstraintError, match="no segmentation of sentence 0 agrees"):
            decoded.given(known).best()
    else:
        assert_equal(decoded.given([known]), Listed(scored), sets)


@pytest.mark.parametrize("learned", [False, True])
def test_a_batch_is_its_sentences_alone(learned, monkeypatch):
    """Whatever stands behind their lengths, in whatever batches the graphs are made."""
    monkeypatch.setattr(token_scores, "MOST_NUMBERS", 200)  # of two sentences of 5 tokens
    classifiers = [Classifier(seed, "BIOES", length, learned) for seed, length in enumerate((3, 0, 5, 1, 12, 5))]
    decoder = TokenDecoder(classifiers[0].tags, **classifiers[0].learned)
    padded = np.full((6, 13, len(classifiers[0].tags)), np.nan, np.float32)
    for row, classifier in zip(padded, classifiers):
        row[: classifier.length] = classifier.logits
    known = [None, None, Constraints(required=[(1, 3, "PER")]), None, Constraints(banned=[("PER", "LOC")]), None]
    batch = decoder(padded, lengths=[c.length for c in classifiers])
    listed = decoder([classifier.logits.astype(np.float32) for classifier in classifiers])
    for decoded in (batch, listed, batch.given(known)):
        k_best = decoded.top_k(2)
        for b, classifier in enumerate(classifiers):
            alone = decoder([classifier.logits.astype(np.float32)])
            alone = alone.given(known[b]) if decoded.constraints and known[b] else alone
            for mine, own in ((decoded.best(), alone.best()), (decoded.marginals(), alone.marginals())):
                assert [s[:3] for s in mine[b]] == [s[:3] for s in own[0]]
                assert [s.probability for s in mine[b]] == pytest.approx([s.probability for s in own[0]])
            assert [k.segments for k in k_best[b]] == [k.segments for k in alone.top_k(2)[0]]


def test_the_chain_and_the_graph_agree_on_long_sentences():
    for scheme in SCHEMES:
        classifier = Classifier(7, scheme, 60, learned=True)
        classifier.logits = np.random.default_rng(1).normal(size=classifier.logits.shape)
        decoded = classifier.decoded()
        (best,) = decoded.best()
        assert [NamedSegment(*s[:3]) for s in best] == decoded.top_k(1)[0][0].segments
        assert len(best) > 5


def test_no_entity_is_wider_than_the_widest():
    logits = np.zeros((6, 3))
    logits[0, 1] = logits[1:, 2] = 9.0
    logits[1:, 1] = -99.0
    tags = ["O", "B-PER", "I-PER"]
    assert [s[:2] for s in TokenDecoder(tags)(logits).best()[0]] == [(0, 6)]
    (best,) = TokenDecoder(tags, max_width=4)(logits).best()
    assert [s[:2] for s in best] == [(0, 4)]
    with pytest.raises(ConstraintError, match="is 5 tokens wide, and the model has no entity wider than 4"):
        TokenDecoder(tags, max_width=4)(logits).given(Constraints(required=[(0, 5, "PER")])).best()


def test_thresholds_leave_out_what_is_less_probable():
    decoded = TokenDecoder(["O", "B-PER", "B-LOC"])(np.log([[0.2, 0.7, 0.1], [0.3, 0.1, 0.6]]))
    assert [s.label for s in decoded.best()[0]] == ["PER", "LOC"]
    with_threshold = decoded.given(Constraints(thresholds={"LOC": 0.65}))
    assert [(s.label, round(s.probability, 6)) for s in with_threshold.best()[0]] == [("PER", 0.7)]
    assert [s[2:] for s in with_threshold.best(with_probabilities=False)[0]] == [("PER", None)]
    assert [s.label for s in with_threshold.best("f1")[0]] == ["PER"]


def test_f1_is_of_all_sentences_together():
    """What is worth it alone need not be beside sentences that are certain; a cutoff keeps them apart."""
    decoder = TokenDecoder(["O", "B-PER"])
    unsure, sure = np.log([[0.7, 0.3]]), np.log([[0.001, 0.999]])
    assert decoder([unsure]).best("f1") != [[]]
    together = decoder([unsure, *[sure] * 20])
    assert together.best("f1")[0] == []
    assert together.f1_cutoff() == pytest.approx(20 * 0.999 / (20 + 20 * 0.999 + 0.3))
    assert together.best("f1", cutoff=0.29)[0] != []


def test_tags_by_column_number_as_a_config_has_them():
    by_number = {2: "O", 0: "B-PER", 1: "I-PER"}
    logits = np.random.default_rng(0).normal(size=(5, 3))
    assert TokenDecoder(by_number)(logits).best() == TokenDecoder(["B-PER", "I-PER", "O"])(logits).best()
    assert (
        TokenDecoder({str(k): v for k, v in by_number.items()})(logits).best() == TokenDecoder(by_number)(logits).best()
    )


def test_a_tag_that_is_missing_cannot_be():
    """A corpus may have no MISC of three tokens, and its classifier no tag for that."""
    decoder = TokenDecoder(["O", "S-MISC", "B-MISC", "E-MISC"])
    decoded = decoder(np.random.default_rng(0).normal(size=(4, 4)))
    assert {s.end - s.start for s in decoded.marginals(0.0)[0]} == {1, 2}


def test_numbers_of_any_kind():
    """Half precision and integers are taken as they are; the input is not changed."""
    logits = np.random.default_rng(0).integers(-3, 4, (2, 5, 3))
    decoder = TokenDecoder(["O", "B-PER", "I-PER"])
    expected = decoder(logits.astype(np.float64)).best()
    for kind in (np.float16, np.float32, np.int64):
        given = logits.astype(kind)
        assert decoder(given).best() == expected
        assert (given == logits).all()
    assert decoder(logits.tolist()).best() == decoder(np.asfortranarray(logits)).best() == expected


# ---- Subwords --------------------------------------------------------------------------------------------------------


def test_subwords_are_joined_to_words():
    rows = np.arange(12.0).reshape(6, 2)
    ids = [None, 0, 0, 2, 2, None]
    assert join_subwords(rows, ids, null=0).tolist() == [[2, 3], [0, -np.inf], [6, 7]]
    assert join_subwords(rows, ids, "sum", null=0)[[0, 2]].tolist() == [[6, 8], [14, 16]]
    assert join_subwords(rows, ids, "mean", null=0)[[0, 2]].tolist() == [[3, 4], [7, 8]]
    assert join_subwords(rows[:2], [None, None]).shape == (0, 2)


@pytest.mark.parametrize("join", ["first", "sum", "mean"])
def test_a_decoder_joins_what_it_is_given(join):
    logits = np.random.default_rng(3).normal(size=(2, 7, 3))
    ids = [[None, 0, 0, 1, 2, 2, None], [None, 0, 1, 1, None, None, None]]
    decoder = TokenDecoder(["O", "B-PER", "I-PER"])
    joined = decoder([join_subwords(rows, own, join, 0) for rows, own in zip(logits, ids)])
    assert decoder(logits, word_ids=ids, join=join).marginals() == joined.marginals()
    assert decoder(logits[0], word_ids=ids[0], join=join).marginals()[0] == joined.marginals()[0]


# ---- Scored spans ----------------------------------------------------------------------------------------------------


@st.composite
def spans(draw, longest: int = 5) -> list[tuple[int, int, str, float]]:
    every = [(i, j, label) for i in range(longest) for j in range(i + 1, longest + 1) for label in LABELS]
    chosen = draw(st.lists(st.sampled_from(every), unique=True, max_size=6))
    return [(*one, draw(NUMBERS)) for one in chosen]


def sets_of(some, is_nested: bool) -> list[tuple[NamedSegment, ...]]:
    ids = [Segment(start, end, LABELS.index(label)) for start, end, label, *_ in some]
    return [
        tuple(NamedSegment(*s[:2], LABELS[s.label]) for s in chosen)
        for chosen in (laminar_sets if is_nested else disjoint_sets)(ids)
    ]


@pytest.mark.parametrize("is_nested", [False, True])
@drawn(some=spans(), data=st.data())
@few
def test_scored_spans_are_as_enumerated(is_nested, some, data):
    """In characters far apart, given as log-odds or as probabilities, with constraints and without."""
    scores = {NamedSegment(*one[:3]): one[3] for one in some}
    known = data.draw(constraints(5)) if data.draw(st.booleans()) else Constraints()
    known = Constraints(known.required, known.forbidden, known.complete)
    listed = some + [(*one, 0.0) for one in known.required if one not in scores]
    sets = [chosen for chosen in sets_of(listed, is_nested) if agrees(chosen, known)]
    if not sets:
        return  # required and forbidden at once
    all_scores = {NamedSegment(*one[:3]): one[3] for one in listed}
    expected = Listed((chosen, sum(all_scores[s] for s in chosen)) for chosen in sets)
    far = [{"start": 1000 * a, "end": 1000 * z, "label": y, "score": s} for a, z, y, s in some]
    far_known = Constraints(
        [(1000 * a, 1000 * z, y) for a, z, y in known.required],
        [(1000 * one[0], 1000 * one[1], *one[2:]) for one in known.forbidden],
        [(1000 * a, 1000 * z) for a, z in known.complete],
    )
    for decoder, given in (
        (SpanDecoder("log-odds", is_nested, LABELS), [some]),
        (SpanDecoder("probability", is_nested, LABELS), [[(*s[:3], 1 / (1 + math.exp(-s[3]))) for s in some]]),
    ):
        assert_equal(decoder(given).given(known), expected, sets)
    decoded = SpanDecoder("log-odds", is_nested, LABELS)([[], far]).given([None, far_known])
    placed = [(s.start // 1000, s.end // 1000, s.label) for s in decoded.best()[1]]
    assert decoded.best()[0] == []
    assert expected.probability[frozenset(map(key, placed))] == pytest.approx(max(expected.probability.values()))


def test_a_span_that_is_certain_or_impossible():
    decoded = SpanDecoder("probability")([[(0, 2, "PER", 1.0), (1, 3, "LOC", 0.5), (5, 6, "LOC", 0.0)]])
    assert [s[:3] for s in decoded.best()[0]] == [(0, 2, "PER")]
    assert decoded.best()[0][0].probability > 0.999999
    assert [s.label for s in decoded.marginals(0.0)[0]] == ["PER", "LOC"]


# ---- Several models --------------------------------------------------------------------------------------------------


@drawn(
    seeds=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    schemes=st.tuples(st.sampled_from(SCHEMES), st.sampled_from(SCHEMES)),
    learned=st.tuples(st.booleans(), st.booleans()),
    length=st.integers(1, 3),
    third=st.booleans(),
    some=spans(3),
)
@settings(max_examples=80, deadline=None)
def test_models_are_summed_on_one_graph(seeds, schemes, learned, length, third, some):
    """Of different schemes, the second with a label of its own, and with scored spans beside them."""
    names = ((*LABELS,), ("PER", "ORG"))
    parts = zip(seeds, schemes, learned, names)
    classifiers = [Classifier(seed, scheme, length, flag, labels) for seed, scheme, flag, labels in parts]
    some = [one for one in some if one[1] <= length]
    scores, floor = {NamedSegment(*one[:3]): one[3] for one in some}, math.log(0.05 / 0.95)

    def score(chosen) -> float:
        total = classifiers[0].score(chosen) + 0.5 * classifiers[1].score(chosen)
        return total + third * sum(2 * scores.get(s, floor) for s in chosen if s.label in LABELS)

    sets = every_set(length, ("LOC", "PER", "ORG"))
    models = [classifier.decoded() for classifier in classifiers]
    models += [SpanDecoder("log-odds", labels=LABELS)([some])] if third else []
    decoded = summed(models, [1.0, 0.5, 2.0][: len(models)], unlisted=0.05)
    listed = Listed((chosen, score(chosen)) for chosen in sets)
    assert_equal(decoded, listed, sets)
    assert decoded.top_k(1)[0][0].probability == pytest.approx(max(listed.probability.values()))


@pytest.mark.parametrize("is_nested", [False, True])
@drawn(first=spans(4), second=spans(4))
@few
def test_spans_are_summed(is_nested, first, second):
    decoder, floor = SpanDecoder("log-odds", is_nested, LABELS), math.log(0.01 / 0.99)
    scores = [{NamedSegment(*one[:3]): one[3] for one in some} for some in (first, second)]
    union = sorted({*scores[0], *scores[1]})
    sets = sets_of(union, is_nested)
    listed = Listed((chosen, sum(each.get(s, floor) for s in chosen for each in scores)) for chosen in sets)
    assert_equal(summed([decoder([first]), decoder([second])]), listed, sets)


@pytest.mark.parametrize("is_nested", [False, True])
@drawn(seed=st.integers(0, 10**6), some=spans(3))
@few
def test_marginals_are_averaged_over_the_models_that_have_a_label(is_nested, seed, some):
    classifier = Classifier(seed, "BIO", 3, labels=("PER", "ORG"))
    tokens = Listed((chosen, classifier.score(chosen)) for chosen in every_set(3, ("PER", "ORG"))).marginals()
    scores = {NamedSegment(*one[:3]): one[3] for one in some}
    spans_alone = Listed((c, sum(scores[s] for s in c)) for c in sets_of(some, is_nested)).marginals()
    weights = {"PER": (0.75, 0.25), "ORG": (1.0, 0.0), "LOC": (0.0, 1.0)}
    mixed = {
        s: weights[s.label][0] * tokens.get(s, 0.0) + weights[s.label][1] * spans_alone.get(s, 0.0)
        for s in {*tokens, *spans_alone}
    }
    decoded = averaged([classifier.decoded(), SpanDecoder("log-odds", is_nested, LABELS)([some])], [3.0, 1.0])
    assert_marginals(decoded, mixed)

    def gain(chosen) -> float:
        return sum(mixed.get(key(s), 0.0) - 0.5 for s in chosen)

    nodes = [Segment(*s[:2], ("LOC", "ORG", "PER").index(s.label)) for s in mixed if mixed[s] > 0.3]
    every = [
        tuple(NamedSegment(*s[:2], ("LOC", "ORG", "PER")[s.label]) for s in chosen)
        for chosen in (laminar_sets if is_nested else disjoint_sets)(nodes)
    ]
    assert gain(decoded.best()[0]) == pytest.approx(max(map(gain, every)), abs=1e-9)


def test_an_average_takes_constraints():
    classifiers = [Classifier(seed, "BIO", 4) for seed in (1, 2)]
    decoded = averaged([one.decoded() for one in classifiers]).given(Constraints(required=[(1, 3, "PER")]))
    assert (1, 3, "PER", pytest.approx(1.0)) in decoded.best()[0]


def test_a_model_with_itself_is_itself():
    classifier = Classifier(4, "BIOES", 4)
    alone, twice = classifier.decoded(), averaged([classifier.decoded()] * 2)
    assert_marginals(twice, {key(s): s.probability for s in alone.marginals(0.0)[0]})
    half = summed([classifier.decoded()] * 2, [0.5, 0.5])
    assert_marginals(half, {key(s): s.probability for s in alone.marginals(0.0)[0]})


# ---- Bad input -------------------------------------------------------------------------------------------------------

TAGS = ["O", "B-PER", "I-PER"]
ZEROS = np.zeros((2, 4, 3))


@pytest.mark.parametrize(
    ("labels", "scheme", "message"),
    [
        (["LABEL_0", "LABEL_1"], "auto", "labels are no tags: .*got 'LABEL_0'.*plain"),
        (["O", "PER"], "auto", "labels are no tags: .*got 'PER'.*scheme='plain'"),
        (["O"], "auto", "labels must have O and a tag of an entity"),
        ([], "auto", "labels must have O and a tag of an entity"),
        (["B-PER", "I-PER"], "auto", "labels must have O and a tag of an entity"),
        (["O", "B-PER", "B-PER"], "auto", "labels must be distinct, got 'B-PER'"),
        (["O", "B-PER", "I-PER", "E-PER"], "auto", "must have tags that begin, end and are a whole entity in BIOES"),
        (["O", "B-PER", "S-PER"], "BIO", "labels must be tags of scheme BIO, got 'S-PER'"),
        (["O", "B-PER", "I-PER", "I-LOC"], "auto", "labels must have the tags of a whole LOC in BIO"),
        (["O", "B-PER"], "BIOUS", "scheme must be one of BIO, IOB1"),
        ({0: "O", 2: "B-PER"}, "auto", "labels must be of the columns 0 to 1, got"),
    ],
)
def test_labels_that_are_no_scheme(labels, scheme, message):
    with pytest.raises(ValueError, match=message):
        TokenDecoder(labels, scheme)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TokenDecoder(TAGS, transition=np.zeros((2, 2))), ValueError, r"transition must be numbers .*\(3, 3\)"),
        (lambda: TokenDecoder(TAGS, start=[0, np.nan, 0]), ValueError, "start must be numbers below"),
        (lambda: TokenDecoder(TAGS, max_width=0), ValueError, "max_width must be at least 1, got 0"),
        (lambda: TokenDecoder([1, 2]), TypeError, "labels must be names of tags"),
        (lambda: TokenDecoder(TAGS)(np.zeros((2, 4, 5))), ValueError, r"a column per label, 3, got \(2, 4, 5\)"),
        (lambda: TokenDecoder(TAGS)([np.zeros((2, 3)), np.zeros((2, 4))]), ValueError, r"column per label, 3"),
        (lambda: TokenDecoder(TAGS)(np.zeros((1, 2, 4, 3))), ValueError, "a row per token"),
        (lambda: TokenDecoder(TAGS)(np.zeros(3)), ValueError, "a row per token"),
        (lambda: TokenDecoder(TAGS)(np.full((2, 3), np.nan)), ScoreError, "NaN or .inf at token 0 of sentence 0"),
        (lambda: TokenDecoder(TAGS)(np.full((2, 3), np.inf)), ScoreError, "must be numbers below"),
        (lambda: TokenDecoder(TAGS)(np.full((2, 3), -np.inf)).best(), ScoreError, "no possible segmentation"),
        (lambda: TokenDecoder(TAGS)(np.full((2, 3), -np.inf)).marginals(), ScoreError, "no possible segmentation"),
        (lambda: TokenDecoder(TAGS)(np.full((2, 3), -np.inf)).top_k(2), ScoreError, "no possible segmentation"),
        (lambda: TokenDecoder(TAGS)(ZEROS, lengths=[4]), ValueError, "lengths must be 2 numbers up to 4"),
        (lambda: TokenDecoder(TAGS)(ZEROS, lengths=[4, 5]), ValueError, "lengths must be 2 numbers up to 4"),
        (lambda: TokenDecoder(TAGS)(ZEROS, word_ids=[[0, 1, 2, 3]]), ValueError, "word_ids must be one list per"),
        (lambda: TokenDecoder(TAGS)(ZEROS[0], word_ids=[0, 1]), ValueError, "word_ids must be one per row"),
        (lambda: join_subwords(ZEROS[0], [0, 0, 1, 1], "last"), ValueError, "join must be one of first, sum, mean"),
        (lambda: TokenDecoder(TAGS)(ZEROS).best("recall"), ValueError, "objective must be one of probability, f1"),
        (lambda: TokenDecoder(TAGS)(ZEROS).top_k(0), ValueError, "k must be at least 1"),
        (lambda: TokenDecoder(TAGS)(ZEROS).given([None]), ConstraintError, "constraints must be one per sentence"),
        (
            lambda: TokenDecoder(TAGS)(ZEROS).given(Constraints(required=[(3, 5, "PER")])).best(),
            ConstraintError,
            "must lie within the 4 tokens",
        ),
        (
            lambda: TokenDecoder(TAGS)(ZEROS).given(Constraints(required=[(0, 1, "LOC")])).best(),
            ConstraintError,
            "unknown label 'LOC'",
        ),
        (lambda: SpanDecoder("logit"), ValueError, "score must be one of probability, log-odds, got 'logit'"),
        (lambda: SpanDecoder("probability")([(0, 1, "PER", 0.5)]), TypeError, "one list of .* per text"),
        (
            lambda: SpanDecoder("probability")([[(0, 1, "PER", 1.5)]]),
            ScoreError,
            "from 0 to 1, got 1.5; score='log-odds'",
        ),
        (lambda: SpanDecoder("probability")([[(0, 1, "PER", np.nan)]]), ScoreError, "NaN"),
        (lambda: SpanDecoder("log-odds")([[(0, 1, "PER", np.inf)]]), ScoreError, "got NaN or .inf"),
        (lambda: SpanDecoder("log-odds")([[(1, 1, "PER", 0.0)]]), ValueError, "must have 0 <= start < end"),
        (lambda: SpanDecoder("log-odds")([[(0.5, 1, "PER", 0.0)]]), TypeError, "integer"),
        (lambda: SpanDecoder("log-odds")([[(0, 1, "PER", 0.0)] * 2]), ValueError, r"\(0, 1, 'PER'\) of text 0 twice"),
        (lambda: SpanDecoder("log-odds")([[]]).top_k(2), ValueError, "top_k must be asked of token classifiers"),
        (
            lambda: SpanDecoder("log-odds")([[(0, 1, "A", 0.0)]]).given(Constraints(banned=[("A", "A")])).best(),
            ConstraintError,
            "banned pairs",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


PER = TokenDecoder(TAGS)(np.zeros((1, 4, 3)))
LOC = TokenDecoder(["O", "B-LOC"])(np.zeros((1, 4, 2)))


@pytest.mark.parametrize("together", [summed, averaged])
def test_models_that_do_not_go_together(together):
    with pytest.raises(ValueError, match=r"models must have labels in common, got PER and LOC; separate_labels=True"):
        together([PER, LOC])
    assert set(together([PER, LOC], separate_labels=True).labels) == {"PER", "LOC"}
    for models, message in (
        ([], "models must be at least one"),
        ([PER, TokenDecoder(TAGS)(np.zeros((2, 4, 3)))], "models must be of the same sentences, got 1, 2"),
        ([PER, TokenDecoder(TAGS)(np.zeros((1, 5, 3)))], "models must be of the same tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            together(models)
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="each with a weight above 0"):
            together([PER, PER], weights)


def test_what_cannot_be_summed():
    wide, nested = (
        SpanDecoder("log-odds")([[(0, 9, "PER", 0.0)]]),
        SpanDecoder("log-odds", True)([[(0, 1, "PER", 0.0)]]),
    )
    for models in ([PER, wide], [PER, nested]):
        with pytest.raises(ValueError, match="spans in a sum with tokens must be disjoint ones, of tokens within"):
            summed(models)
    for model in (summed([PER, PER]), averaged([PER, PER]), PER.given(Constraints())):
        with pytest.raises(ValueError, match="models must be as decoders return them"):
            summed([PER, model])
    with pytest.raises(ValueError, match="unlisted must be a probability between 0 and 1, got 0"):
        summed([PER, PER], unlisted=0)
    with pytest.raises(ConstraintError, match="got them a second time"):
        PER.given(Constraints()).given(Constraints())


def test_banned_pairs_are_no_matter_of_marginals():
    known = Constraints(banned=[("PER", "PER")])
    for decoded, objective in ((PER.given(known), "f1"), (averaged([PER, PER]).given(known), "probability")):
        with pytest.raises(ConstraintError, match="banned pairs must be decoded by probability"):
            decoded.best(objective)


def test_nothing_is_ordinary():
    """No sentence at all, sentences without tokens, texts without spans."""
    decoder = TokenDecoder(TAGS)
    assert (
        decoder([]).best()
        == decoder([]).marginals()
        == decoder([]).top_k(2)
        == decoder(np.zeros((0, 4, 3))).best()
        == []
    )
    empty = decoder([np.zeros((0, 3))])
    assert empty.best() == empty.best("f1") == empty.marginals() == [[]]
    assert empty.top_k(3) == [[([], 1.0)]]
    for nested in (False, True):
        none = SpanDecoder("probability", nested)([[], []])
        assert none.best() == none.best("f1") == none.marginals() == [[], []]
        assert SpanDecoder("probability", nested)([]).best() == []


def test_no_torch():
    code = (
        "import sys, numpy as np, spansieve.decode as d\n"
        "d.TokenDecoder(['O', 'B-X', 'I-X'])(np.zeros((3, 3))).top_k(2)\n"
        "d.SpanDecoder('probability', nested=True)([[(0, 1, 'X', 0.5)]]).best('f1')\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
