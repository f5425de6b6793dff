"""What is doubted of an annotation: the odds against enumeration, and errors that were planted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from spansieve import Segment
from spansieve.data.example import Example
from spansieve.models.filtered import FilteredHead, FilterOnly
from spansieve.models.torch_backend import Scored
from spansieve.prediction.annotation_errors import Claim, audit, findings_of, judge, parts_of_data
from spansieve.segments import NamedSegment
from spansieve.training import run
from tests import oracle
from tests.models.test_heads import LENGTHS, drawn, every_case
from tests.nn.heads import entities_by_definition, oracle_of
from tests.prediction.trained import EXAMPLES, trained
from tests.training import runs


@every_case
@pytest.mark.parametrize("is_annotated", [True, False])
def test_log_odds_are_those_of_enumeration(name, settings, is_annotated):
    """Of every segment that the model has, in each of the four sentences."""
    head, vectors, lengths, _ = drawn(name, settings, 1)
    listed = oracle_of(head, vectors, LENGTHS)
    segments = [
        (b, Segment(start, start + width, 1))
        for b, length in enumerate(LENGTHS)
        for width in (1, 2)
        for start in range(length - width + 1)
    ]
    found = judge(head, Scored(head.scores(vectors), lengths), [Claim(b, s, is_annotated) for b, s in segments])
    judged = 0
    for (b, segment), (log_odds, segmentation, _) in zip(segments, found):
        present, absent = _split(head, listed, b, segment)
        assert (segment in segmentation) is not is_annotated  # it disagrees with the annotation
        if present and absent and name != "filter-only":  # else the graph is another with it, or without
            expected = oracle.log_sum(absent) - oracle.log_sum(present)
            if isinstance(head, FilteredHead) and head.is_loss_filtered and not isinstance(head, FilterOnly):
                by_filter = head.local_log_probabilities(head.scores(vectors)).detach().exp()
                probability = float(by_filter[b, segment.start, segment.width - 1, 1]) / (1 + math.exp(expected))
                expected = math.log(1 - probability) - math.log(probability)
            assert math.isclose(log_odds, expected if is_annotated else -expected, rel_tol=1e-3, abs_tol=2e-3)
            judged += 1
    assert judged > 2 or isinstance(head, FilteredHead)


def _split(head, listed, b, segment):
    scores = [(score, segment in entities_by_definition(head, one.structure)) for score, one in listed.possible(b)]
    return [s for s, is_in in scores if is_in], [s for s, is_in in scores if not is_in]


@pytest.mark.parametrize("head", ["fsemicrf", "crf", "semicrf", "nested"])
def test_what_the_model_knows_by_heart_is_doubted_where_it_was_changed(head):
    tagger = trained(head).tagger
    wrong = [
        replace(EXAMPLES[0], segments=(NamedSegment(3, 4, "PER"),)),
        replace(EXAMPLES[1], segments=(NamedSegment(0, 1, "PER"), NamedSegment(4, 6, "LOC"))),
        replace(EXAMPLES[2], segments=()),
        *EXAMPLES[3:5],
        replace(EXAMPLES[5], segments=(NamedSegment(2, 3, "LOC"),)),
    ]
    found = findings_of(tagger, wrong)
    doubted = {(f.sentence, f.doubt): f for f in found.findings if f.log_odds > 0}
    assert found.num_not_judged == 0
    expected = {(0, "wrong label"), (1, "wrong boundaries"), (2, "missing"), (5, "no entity")}
    if head == "nested":  # beside Ada, Ada Lovelace may be annotated, too
        expected |= {(1, "missing")}
    assert set(doubted) <= expected, doubted
    assert len(doubted) >= 4
    for (sentence, doubt), finding in doubted.items():
        if doubt != "missing" or head != "nested":
            assert finding.segmentation == EXAMPLES[sentence].segments
            assert 0.5 < finding.probability <= 1


def test_what_no_model_of_these_labels_and_widths_can_have_is_counted():
    tagger = trained().tagger
    example = Example.of(
        "Ada Lovelace lives in New York .", [(0, 2, "PER"), (1, 2, "LOC"), (4, 6, "GPE"), (2, 6, "PER")]
    )
    found = findings_of(tagger, [example])
    judged = [f.segment for f in found.findings if f.doubt != "missing"]
    assert len(judged) + found.num_not_judged == 4
    assert found.num_not_judged >= 2


def test_parts_hold_documents_and_equal_sentences_together():
    examples = [Example.of(f"word {i % 7} of it", document=f"d{i % 5}" if i < 20 else None) for i in range(48)]
    parts = parts_of_data(examples, 4, seed=0)
    assert sorted(i for part in parts for i in part) == list(range(48))
    where = {i: number for number, part in enumerate(parts) for i in part}
    for key in [e.document or e.tokens for e in examples]:
        assert len({where[i] for i, e in enumerate(examples) if (e.document or e.tokens) == key}) == 1
    assert max(map(len, parts)) <= 2 * min(map(len, parts))
    assert parts_of_data(examples, 4, seed=0) == parts
    assert parts_of_data(examples, 4, seed=1) != parts
    with pytest.raises(ValueError, match="between 2 and the 12 documents or different sentences of the data, got 13"):
        parts_of_data(examples, 13, seed=0)


def test_planted_errors_come_first_by_models_that_have_not_seen_them(tmp_path, monkeypatch):
    """One label of 27 sentences is wrong, one entity is not there."""
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)  # which takes longer than such a run
    examples = [*runs.TRAIN, *runs.DEV]
    examples[4] = replace(examples[4], segments=tuple(s._replace(label="LOC") for s in examples[4].segments))
    examples[20] = replace(examples[20], segments=examples[20].segments[:1])
    config = runs.config(training__epochs=10, **runs.STILL)
    found = audit(config, examples, tmp_path, folds=3, use_cpu=True)
    first, second = found.findings[:2]
    assert {first.sentence, second.sentence} == {4, 20}
    assert {first.doubt, second.doubt} == {"wrong label", "missing"}
    assert sorted(f.log_odds for f in found.findings)[::-1] == [f.log_odds for f in found.findings]
    assert audit(config, examples, tmp_path, folds=3, use_cpu=True) == found  # nothing is trained again
    unknown = [replace(examples[0], unknown=((0, 2),)), *examples[1:]]
    with pytest.raises(ValueError, match="audited data must be annotated in full"):
        audit(config, unknown, tmp_path, use_cpu=True)


def test_on_the_edge_of_arithmetic_odds_stay_finite():
    """A segment of which P is 1 in floating point still has its own odds."""
    for tagger in (trained("crf").tagger, trained().tagger):
        output = tagger.head.output[-1] if tagger.config.head == "crf" else tagger.head.scorer.output
        with torch.no_grad():
            output.weight.mul_(20)
        odds = [f.log_odds for f in findings_of(tagger, EXAMPLES).findings if f.doubt != "missing"]
        assert all(math.isfinite(value) for value in odds)
        assert max(odds) < -30
        assert len(set(odds)) == len(odds) or tagger.config.head != "crf"
