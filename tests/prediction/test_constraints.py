"""Predictions that agree with what is known: in characters and in tokens, for every model and its export."""

from __future__ import annotations

import random
import re
import time
from itertools import pairwise

import numpy as np
import pytest
import torch

from spansieve.crf import Known, given
from spansieve.crf.evidence import Span
from spansieve.data.tokenizer import sequences_of_text
from spansieve.decoding.constraints import Constraints, Rules, Support, placed
from spansieve.models.filtered import FilteredHead
from spansieve.models.heads import HEADS
from spansieve.prediction.predictor import Predictor
from spansieve.segments import NamedSegment, Segment
from tests.prediction.onnx.taggers import drawn_sentences, drawn_tagger

TEXT = "Ada Lovelace lives in New York . Then we went to Paris yesterday ."
CASES = [(name, {}) for name in HEADS] + [("fsemicrf", {"skip": True}), ("crf", {"scheme": "BIO"})]
every_case = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


def labels_of(entities) -> list[tuple[str, str]]:
    return [(entity.text, entity.label) for entity in entities]


def span(text: str, words: str) -> tuple[int, int]:
    return text.index(words), text.index(words) + len(words)


# ---- In characters ---------------------------------------------------------------------------------------------------


def test_required_forbidden_and_the_rest(predictor):
    assert labels_of(predictor.predict(TEXT)) == [("Ada Lovelace", "PER"), ("New York", "LOC"), ("Paris", "LOC")]
    known = Constraints(required=[(*span(TEXT, "York"), "PER")], forbidden=[span(TEXT, "Paris")])
    found = predictor.predict(TEXT, constraints=known)
    assert ("York", "PER") in labels_of(found)
    assert not {"New York", "Paris"} & {entity.text for entity in found}
    assert [entity.probability for entity in found if entity.text == "York"] == [1.0]


def test_an_entity_may_be_another_label(predictor):
    known = Constraints(forbidden=[(*span(TEXT, "Paris"), "LOC")])
    assert ("Paris", "LOC") not in labels_of(predictor.predict(TEXT, constraints=known))


def test_nothing_else_in_a_complete_span(predictor):
    known = Constraints(required=[(*span(TEXT, "lives"), "LOC")], complete=[span(TEXT, "Lovelace lives in New")])
    assert labels_of(predictor.predict(TEXT, constraints=known)) == [("lives", "LOC"), ("Paris", "LOC")]
    assert predictor.predict(TEXT, constraints=Constraints(complete=[(0, len(TEXT))])) == []


def test_what_was_predicted_may_be_required(predictor):
    found = predictor.predict(TEXT)
    again = predictor.predict(TEXT, constraints=Constraints(required=found))
    assert labels_of(again) == labels_of(found)
    assert [entity.probability for entity in again] == [1.0] * 3


def test_each_text_has_its_own(predictor):
    texts = [TEXT, "we went to Paris yesterday", ""]
    known = [None, Constraints(forbidden=[span(texts[1], "Paris")]), Constraints(banned=[("PER", "LOC")])]
    found = predictor.predict(texts, constraints=known)
    assert found[0] == predictor.predict(TEXT)
    assert found[1:] == [[], []]
    assert [entities for _, entities in predictor.stream(texts, constraints=known)] == found
    with raises("constraints must be one per text, 3, got 1"):
        predictor.predict(texts, constraints=known[:1])
    with raises("constraints must be one per text, 3, got one for all"):
        predictor.predict(texts, constraints=known[1])


def test_labels_that_must_not_meet(predictor):
    both = "Ada Lovelace lives in New York ."
    assert labels_of(predictor.predict(both)) == [("Ada Lovelace", "PER"), ("New York", "LOC")]
    assert len(predictor.predict(both, constraints=Constraints(banned=[("PER", "LOC")]))) == 1
    assert len(predictor.predict(both, constraints=Constraints(banned=[("LOC", "PER")]))) == 2
    required = [(*span(both, "Ada Lovelace"), "PER"), (*span(both, "New York"), "LOC")]
    with raises("no segmentation agrees with the constraints"):
        predictor.predict(both, constraints=Constraints(required, banned=[("PER", "LOC")]))


def test_blanks_do_not_count_and_offsets_are_the_texts(predictor):
    text = "  Ada\u00a0 Lovelace \n lives"
    start, end = span(text, "Ada\u00a0 Lovelace")
    known = Constraints(required=[(start - 2, end + 2, "PER")])
    assert [e[:4] for e in predictor.predict(text, constraints=known)] == [(start, end, "PER", text[start:end])]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            Constraints([(0, 2, "PER")]),
            "the constraint (0, 2) in '[Ad]a Lovelace l' must end where a token ends",
        ),
        (Constraints([(0, 2, "PER")]), "that ends within the token 'Ada'"),
        (
            Constraints(forbidden=[(5, 12)]),
            "must start where a token starts, got one that starts within the token",
        ),
        (Constraints([(3, 4, "PER")]), "the constraint (3, 4) in 'Ada[ ]Lovelace liv' must hold a token, got blanks"),
        (Constraints([(0, 99, "PER")]), "must lie within the 66 characters of its text, got (0, 99, 'PER')"),
        (Constraints([(22, 37, "LOC")]), "must lie within one sentence, got one across two"),
        (Constraints([(0, 3, "GPE")]), "unknown label 'GPE' in constraints; the model knows LOC, PER"),
        (Constraints(thresholds={"GPE": 0.5}), "unknown label 'GPE' in constraints"),
        (Constraints(banned=[("PER", "GPE")]), "unknown label 'GPE' in constraints"),
        (Constraints([(0, 3, "PER"), (0, 12, "LOC")]), "must not overlap, got LOC 'Ada Lovelace' and PER 'Ada'"),
        (Constraints([(0, 3, "PER")], [(0, 3)]), "PER 'Ada' is required, and forbidden too"),
        (Constraints([(0, 21, "PER")]), "required PER 'Ada Lovelace lives in' is 4 tokens wide, and the model has no"),
    ],
)
def test_what_cannot_be(predictor, known, message):
    with raises(message):
        predictor.predict(TEXT, constraints=known)


def raises(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


def test_what_is_no_constraint():
    for wrong in ((3, 3, "PER"), (5, 2, "PER"), (-1, 2, "PER"), (0.0, 2, "PER")):
        with raises(f"a span must be (start, end) with 0 <= start < end, got {wrong}"):
            Constraints(required=[wrong])
    with raises("the threshold of PER must lie between 0 and 1, got 1.5"):
        Constraints(thresholds={"PER": 1.5})
    assert not Constraints()


def test_complete_spans_take_in_what_they_touch():
    text = "Ada met Bob . Then they left ."
    sentences = sequences_of_text(text)
    known = placed(Constraints(complete=[(5, 16)], banned=[("A", "B")]), text, sentences)
    assert [one.complete for one in known] == [(Span(1, 4),), (Span(0, 1),)]
    assert [one.banned for one in known] == [frozenset({("A", "B")})] * 2
    assert placed(Constraints(complete=[(3, 4)]), text, sentences)[0].complete == ()


def test_many_constraints_take_time_in_proportion():
    """One look-up each: 30,000 on 200,000 characters took minutes when each looked at every token."""
    text = "word " * 40_000
    sentences = sequences_of_text(text)
    many = [(5 * i, 5 * i + 4) for i in range(10_000)]
    known = Constraints([(start + 100_000, end + 100_000, "PER") for start, end in many], many, many)
    begin = time.process_time()
    found = placed(known, text, sentences)
    assert time.process_time() - begin < 10
    assert [sum(map(len, (one.required, one.forbidden, one.complete))) for one in found] == [30_000]


def test_constraints_in_tokens(predictor):
    sentences = [["we", "went", "to", "Paris", "yesterday"], ["Paris"], []]
    known = [Constraints([NamedSegment(0, 1, "PER")], complete=[(3, 5)]), None, None]
    found = predictor.predict_tokens(sentences, True, known)
    assert found[0] == ([(0, 1, "PER")], [1.0])
    assert found[1:] == predictor.predict_tokens(sentences, True)[1:]
    with raises("a constraint must lie within the 5 tokens of its sentence, got (4, 6)"):
        predictor.predict_tokens(sentences, True, [Constraints(forbidden=[(4, 6)]), None, None])


# ---- Every model -----------------------------------------------------------------------------------------------------


def drawn_rules(support: Support, sentences: list[list[str]], seed: int) -> list[Rules]:
    """One bans a pair for all, which shares their batch."""
    chance = random.Random(seed)
    names = support.labels.names
    banned = [tuple(chance.choices(names, k=2))] if chance.random() < 0.5 else []
    return [support.rules(_drawn(chance, len(tokens), names, banned), tokens) for tokens in sentences]


def _drawn(chance: random.Random, length: int, names, banned) -> Constraints:
    required, forbidden, reached = [], [], 0
    for start in range(length):
        if start >= reached and chance.random() < 0.1:
            reached = min(length, start + chance.randint(1, 3))
            required.append((start, reached, chance.choice(names)))
        elif start >= reached and chance.random() < 0.3:
            end = min(length, start + chance.randint(1, 3))
            forbidden.append((start, end, chance.choice([*names, None])))
    taken = {segment[:2] for segment in required}
    forbidden = [one for one in forbidden if one[:2] not in taken]
    thresholds = {name: chance.random() * 0.6 for name in names} if chance.random() < 0.5 else {}
    return Constraints(required, forbidden, [], banned, thresholds)


def support_of(tagger) -> Support:
    return tagger.head.decoder_settings.support(tagger.labels)


def batch_of(tagger, seed: int = 0):
    """Sentences with their scores, as tensors, and their lengths."""
    sentences = [tokens for tokens in drawn_sentences(seed, count=8, longest=9) if tokens]
    batch = tagger.batch([[token or "-" for token in tokens] for tokens in sentences])
    with torch.no_grad():
        return sentences, tagger.head.scores(tagger.vectors(batch)), batch.lengths


def decoded(tagger, scores, lengths, rules, with_probabilities=True, with_filter=False):
    """The segments of each sentence, and their probabilities."""
    arrays = [part.contiguous().numpy() for part in scores]
    found = tagger.head.decoder(with_filter=with_filter)(arrays, lengths.numpy(), with_probabilities, rules)
    segments, ends = found.segments.by_sentence(), found.segments.offsets.tolist()
    values = None if found.probabilities is None else found.probabilities.tolist()
    return segments, None if values is None else [values[a:z] for a, z in pairwise(ends)]


@every_case
@pytest.mark.parametrize("seed", range(3))
def test_what_comes_out_agrees(name, settings, seed):
    tagger = drawn_tagger(name, seed=seed, **settings)
    sentences, scores, lengths = batch_of(tagger, seed)
    rules = [one._replace(banned=frozenset()) for one in drawn_rules(support_of(tagger), sentences, seed)]
    assert any(one.thresholds for one in rules)
    for found, shares, one in zip(*decoded(tagger, scores, lengths, rules), rules):
        assert set(found) >= set(one.known.required)
        assert not set(found) & set(one.known.forbidden)
        assert not {segment[:2] for segment in found} & set(one.known.forbidden)
        for segment, share in zip(found, shares):
            assert 0 <= share <= 1
            assert share == 1.0 if one.requires(segment) else not one.is_below(segment, share)


@pytest.mark.parametrize(("name", "settings"), [*CASES, ("global-selection", {"skip": True})], ids=str)
def test_decoding_is_that_of_the_distribution_given_what_is_known(name, settings):
    """P(segment) is by definition Z with it required, of Z; for a chain there is no other way to ask."""
    num_compared = 0
    for seed in range(4):
        tagger = drawn_tagger(name, seed=seed, **settings)
        head, (sentences, scores, lengths) = tagger.head, batch_of(tagger, seed)
        rules = [one._replace(thresholds=()) for one in drawn_rules(support_of(tagger), sentences, seed)]
        known, banned, tags = [one.known for one in rules], rules[0].banned, getattr(head, "tags", None)
        with torch.no_grad():
            try:
                expected = given(head.distribution_of(scores, lengths), known, banned, tags=tags)
                modes = [head.entities(mode) for mode in expected.mode]
            except ValueError:
                with pytest.raises(ValueError, match=r"no segmentation agrees|banned pairs need"):
                    decoded(tagger, scores, lengths, rules)
                continue
            found, shares = decoded(tagger, scores, lengths, rules)
            assert found == modes
            for b, (segments, own) in enumerate(zip(found, shares)):
                for segment, share in zip(segments, own):
                    if name == "crf":
                        also = [one.joined(Known([segment])) if b == c else one for c, one in enumerate(known)]
                        there = given(head.distribution_of(scores, lengths), also, banned, tags=tags)
                        probability = (there.log_partition[b] - expected.log_partition[b]).exp().item()
                    else:
                        probability = expected.marginals[b, segment.start, segment.width - 1, segment.label].item()
                    assert share == pytest.approx(probability, rel=1e-4, abs=1e-5)
                    num_compared += 1
    assert num_compared > 10


@pytest.mark.parametrize(
    ("name", "settings"),
    [("crf", {}), ("crf", {"scheme": "BIO"}), ("semicrf-unit-null", {}), ("fsemicrf", {"skip": True}), ("nested", {})],
    ids=str,
)
def test_below_its_threshold_an_entity_is_not_returned_and_nothing_else_changes(name, settings):
    dropped = kept = 0
    for seed in range(12):
        tagger = drawn_tagger(name, seed=seed, **settings)
        chance = np.random.default_rng(seed)
        batch = tagger.batch([["Paris", "the", "UN"], ["London", "abc"]])
        rules = [Rules(thresholds=(0.0, *chance.uniform(0.5, 1.0, 3).tolist())) for _ in range(2)]
        with torch.no_grad():
            scores = tagger.head.scores(tagger.vectors(batch))
        plain = decoded(tagger, scores, batch.lengths, None)
        found, without = (decoded(tagger, scores, batch.lengths, rules, asked) for asked in (True, False))
        for b, one in enumerate(rules):
            pairs = list(zip(plain[0][b], plain[1][b]))
            above = [(segment, share) for segment, share in pairs if share >= one.thresholds[segment.label]]
            assert [segment for segment, _ in above] == list(found[0][b])
            assert [share for _, share in above] == pytest.approx(found[1][b], abs=1e-6)
            dropped += len(pairs) - len(above)
            kept += len(above)
        assert without == (found[0], None)
    assert dropped >= 2
    assert kept >= 2


def test_thresholds_of_a_predictor_are_of_its_probability():
    tagger = drawn_tagger("fsemicrf")
    sentences = [tokens for tokens in drawn_sentences(1) if tokens]
    known = [Constraints(thresholds={"LOC": 0.5, "ORG": 0.5, "PER": 0.5})] * len(sentences)
    for kind in ("given-candidates", "with-filter"):
        predictor = Predictor(tagger, probability=kind)
        free, kept = (
            [share for found in predictor.predict_tokens(sentences, True, some) for share in found.probabilities]
            for some in (None, known)
        )
        assert min(free) < 0.5 <= min(kept)
        without = predictor.predict_tokens(sentences, False, known)
        assert [f.segments for f in without] == [f.segments for f in predictor.predict_tokens(sentences, True, known)]


def test_a_required_segment_that_the_filter_dropped_is_found():
    tagger = drawn_tagger("fsemicrf")
    assert isinstance(tagger.head, FilteredHead)
    sentences = [["Paris", "the", "London"]]
    batch = tagger.batch(sentences)
    with torch.no_grad():
        kept = set(tagger.distribution(batch).candidates.segments()[0])
    (dropped,) = [s for s in [Segment(1, 2, y) for y in (1, 2, 3)] if s not in kept][:1]
    name = tagger.labels.name(dropped.label)
    (found,) = Predictor(tagger).predict_tokens(sentences, True, [Constraints([(1, 2, name)])])
    assert NamedSegment(1, 2, name) in found.segments
