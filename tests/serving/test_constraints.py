"""What is known of a text, over HTTP: the answer agrees with it, or says why it cannot."""

from __future__ import annotations

import time

import pytest

from spansieve.crf.evidence import Known
from spansieve.decoding.constraints import ConstraintError, Constraints, Rules, group_by_banned_pairs, placed
from spansieve.serving.limits import Limits
from tests.serving.running import problem, running
from tests.serving.tiny import trained

TEXT = "we went to Paris yesterday\n\nthe Bank of York"
YORK = {"start": 40, "end": 44, "label": "LOC"}
BANK = {"start": 32, "end": 44, "label": "ORG"}


def labels_of(result) -> list[tuple[str, str]]:
    return [(entity["text"], entity["label"]) for entity in result["entities"]]


@pytest.mark.parametrize("options", [{}, {"alternatives": 3, "graph": True}])
def test_the_answer_agrees(server, options):
    for known, expected in [
        ({"required": [YORK]}, ("York", "LOC")),
        ({"required": [BANK]}, ("Bank of York", "ORG")),
        ({"forbidden": [YORK], "required": [BANK]}, ("Bank of York", "ORG")),
    ]:
        (result,) = server.results(TEXT, constraints=[known], **options)
        assert labels_of(result) == [("Paris", "LOC"), expected]
        assert result["entities"][1]["probability"] == 1.0
    (result,) = server.results(TEXT, constraints=[{"complete": [{"start": 3, "end": 44}]}], **options)
    assert labels_of(result) == []
    forbidden = [{"start": 11, "end": 16}]
    (result,) = server.results(TEXT, constraints=[{"forbidden": forbidden}], **options)
    assert "Paris" not in dict(labels_of(result))


def test_alternatives_and_graph_are_those_that_agree(server):
    (result,) = server.results(TEXT, constraints=[{"required": [BANK]}], alternatives=5, graph=True)
    sentence = result["sentences"][1]
    assert all(BANK.items() <= one["entities"][0].items() for one in sentence["alternatives"])
    assert sum(one["probability"] for one in sentence["alternatives"]) == pytest.approx(1.0, abs=1e-4)
    (bank,) = [one for one in sentence["graph"]["candidates"] if one["label"] == "ORG" and one["start"] == 32]
    assert bank["best"]
    assert bank["probability"] == pytest.approx(1.0)
    (plain,) = server.results(TEXT, graph=True)
    assert len(plain["sentences"][0]["graph"]["candidates"]) == len(result["sentences"][0]["graph"]["candidates"])


def test_texts_with_and_without_share_a_batch(server, predictor):
    known = [None, {"required": [BANK], "banned": [["LOC", "ORG"]], "thresholds": {"LOC": 0.5}}, None]
    results = server.results(TEXT, TEXT, TEXT, constraints=known)
    assert labels_of(results[0]) == labels_of(results[2]) == labels_of(server.results(TEXT)[0])
    own = Constraints([tuple(BANK.values())], banned=[("LOC", "ORG")], thresholds={"LOC": 0.5})
    assert labels_of(results[1]) == [e[3:1:-1] for e in predictor.predict(TEXT, constraints=own)]


@pytest.mark.parametrize("head", ["crf", "semicrf", "nested"])
def test_every_kind_of_model(head):
    with running(trained(head)) as served:
        (result,) = served.results(TEXT, constraints=[{"required": [BANK], "forbidden": [{"start": 11, "end": 16}]}])
        assert ("Bank of York", "ORG") in labels_of(result)
        assert "Paris" not in dict(labels_of(result))


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ([], "constraints must be one per text, 2, got 0"),
        (
            [None, {"required": [{"start": 0, "end": 1, "label": "LOC"}]}],
            "constraints[1]: the constraint (0, 1) in",
        ),
        (
            [None, {"required": [YORK | {"label": "GPE"}]}],
            "constraints[1]: unknown label 'GPE' in constraints",
        ),
        (
            [{"forbidden": [{"start": 3, "end": 3}]}, None],
            "constraints[0]: a span must be (start, end) ",
        ),
        ([{"required": [YORK, BANK]}, None], "constraints[0]: required entities must not overlap"),
        ([{"complete": [{"start": 0, "end": 99}]}, None], "constraints[0]: a constraint must lie within the 44 charac"),
        ([{"banned": [["LOC"]]}, None], "constraints[0].banned[0]: List should have at least 2 items"),
        ([{"thresholds": {"LOC": 2}}, None], "constraints[0].thresholds.LOC: Input should be less than or equal to 1"),
        ([{"wanted": []}, None], "constraints[0].wanted: Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_is_told_and_is_no_failure(server, known, reason):
    failed = "spansieve_failed_texts_total 0.0"
    assert failed in server.client.get("/metrics").text
    status = (422, "invalid") if "constraints[0]." in reason else (409, "conflict")
    assert reason in problem(server.predict(TEXT, TEXT, constraints=known), *status)
    assert failed in server.client.get("/metrics").text


def test_more_than_a_request_may_have_are_refused_before_they_are_read(server):
    spans = [{"start": i, "end": i + 4} for i in range(0, 100_000, 5)]
    limit = server.client.get("/model").json()["limits"]["constraints"]
    for known in ([{"forbidden": spans}], [{"complete": spans[:1500]}, {"required": spans[:1500]}], [1] * 3_000):
        reason = problem(server.predict(TEXT, constraints=known), 413, "too_many_constraints")
        assert f"at most {limit:,} in all texts of a request" in reason
    text = "we went to Paris yesterday\n\n" * limit
    few = [{"start": i, "end": i + 2} for i in range(0, len(text), 28)]
    (result,) = server.results(text, constraints=[{"forbidden": few}])
    assert len(result["entities"]) == len(few) == limit


def within(seconds: float, call):
    begin = time.process_time()
    result = call()
    assert time.process_time() - begin < seconds
    return result


@pytest.mark.parametrize("head", ["crf", "semicrf", "fsemicrf", "nested"])
def test_as_many_as_are_taken_take_a_moment(head):
    """In one sentence, where what is quadratic in them shows: the required ones of a nested model took 12 s."""
    model = trained(head)
    text, apart = "word " * Limits.sentence_tokens, range(0, 10 * Limits.constraints, 10)
    for known in (Constraints([(0, 4, "LOC")]), Constraints(forbidden=[(0, 4)])):
        model.predict("word " * 50, constraints=known)  # which compiles what is measured
    required = [(start, start + 4, "LOC") for start in apart]
    assert len(within(8, lambda: model.predict(text, constraints=Constraints(required)))) >= len(required)
    forbidden = Constraints(forbidden=[(start, start + 4) for start in apart])
    if head == "crf":  # tags for each of them, and each tag beside each
        with pytest.raises(ConstraintError, match=r"at most 141 starts in a sentence of 5000 tokens, .*, got 6000"):
            model.predict(text, constraints=forbidden)
        forbidden = Constraints(forbidden=[(start, start + 4) for start in apart[:47]])
    within(8, lambda: model.predict(text, constraints=forbidden))


def test_what_concerns_labels_alone_is_kept_once_for_all_sentences(predictor):
    text = "we went to Paris yesterday\n\n" * 5
    sentences = [piece.tokens for piece in predictor.pieces([text], True)]
    first, *others = placed(Constraints(forbidden=[(0, 2)], banned=[("LOC", "PER")]), text, sentences)
    assert len(first.forbidden) == 1
    assert first.banned == others[0].banned == {("LOC", "PER")}
    assert len(set(map(id, others))) == 1


def test_a_sentence_with_many_forbidden_segments_is_alone_in_its_batch():
    few, many = (Rules(Known(forbidden=[(i, i + 1) for i in range(count)])) for count in (16, 17))
    assert group_by_banned_pairs([few, many, few, many, Rules()]) == [[0, 2, 4], [1], [3]]
