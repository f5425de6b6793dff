"""`spansieve evaluate` and `spansieve compare` as a person types them."""

from __future__ import annotations

import json
import shlex
from collections import Counter

import pytest

from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.evaluation.scores import Scores
from spansieve.integrations.hub import load
from tests.training import runs


def test_scores_on_the_terminal_and_as_json(terminal, model, corpus):
    answer = terminal("evaluate", model, corpus / "dev.conll", "--json", corpus / "scores.json")
    assert answer.code == 0, answer.err
    assert "9 sentences" in " ".join(answer.out.split())
    for part in ("95 % interval", "by width of the segment", "by length of the sentence", "calibration error"):
        assert part in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    told = json.loads((corpus / "scores.json").read_text())
    found = load(model).predict_tokens([example.tokens for example in runs.DEV])
    right = sum(len(set(one.segments) & set(example.segments)) for one, example in zip(found, runs.DEV))
    assert Scores.from_dict(told["scores"]).micro.true_positives == right
    assert told["unknown_labels"] == []
    assert told["calibration"]


def test_how_far_probabilities_can_be_trusted(terminal, model, corpus):
    picture = corpus / "reliability.png"
    answer = terminal("evaluate", model, corpus / "dev.conll", "--calibration", picture, "--precision", "0.5")
    assert answer.code == 0, answer.err
    told = " ".join(answer.out.split())
    assert "for a precision of 50.00 % on this data, keep what has a probability of at least" in told
    assert "so many are right" in told
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert max(map(len, answer.out.replace(f"drawn to {picture}", "").splitlines())) <= 80
    refused = terminal("evaluate", model, corpus / "dev.conll", "--precision", "95")
    assert refused.code == 2
    assert "precision must lie in (0, 1], got 95" in refused.err


def test_a_precision_that_is_out_of_reach(terminal, model, corpus):
    """All that is right with certainty has a wrong one beside it that is as certain."""
    twice = [Example.of("Ada lives in Paris .", [(0, 1, "PER")]), Example.of("Ada lives in Paris .", [(3, 4, "LOC")])]
    write_examples(twice, corpus / "half.conll")
    answer = terminal("evaluate", model, corpus / "half.conll", "--precision", "0.9", "--json", corpus / "scores.json")
    told = " ".join(answer.out.split())
    assert "a precision of 90.00 % is out of reach on this data; the highest is 50.00 %: keep what has a" in told
    assert "precision 50.00 %, recall 100.00 %, 4 entities" in told
    assert told.count("the highest") == 3  # and in the row of each label
    found = json.loads((corpus / "scores.json").read_text())
    assert (found["precision"], found["threshold"]["precision"]) == (0.9, 0.5)
    assert {label: one["precision"] for label, one in found["label_thresholds"].items()} == {"LOC": 0.5, "PER": 0.5}


def test_nothing_predicted_has_no_threshold(terminal, model, corpus):
    write_examples([Example.of(". .", [])], corpus / "none.conll")
    answer = terminal("evaluate", model, corpus / "none.conll", "--precision", "0.9", "--errors", corpus / "none.html")
    assert answer.code == 0, answer.err
    assert "nothing is predicted here, so there is no threshold" in answer.out


@pytest.mark.parametrize("precision", ["0.6", "0.8", "1"])
def test_thresholds_per_label_are_what_predict_takes(terminal, other_model, corpus, precision):
    """The options that are printed, typed behind `predict`, leave the precision and the recall that were promised."""
    answer = terminal(
        "evaluate", other_model, corpus / "dev.conll", "--precision", precision, "--json", corpus / "s.json"
    )
    assert answer.code == 0, answer.err
    promised = json.loads((corpus / "s.json").read_text())["label_thresholds"]
    (line,) = [line for line in answer.out.splitlines() if line.startswith("for `spansieve predict`: ")]
    options = shlex.split(line.partition(": ")[2])
    assert len(options) == 2 * len(promised) > 0
    (corpus / "texts.txt").write_text("".join(" ".join(example.tokens) + "\n" for example in runs.DEV))
    answer = terminal("predict", other_model, "--file", corpus / "texts.txt", *options)
    assert answer.code == 0, answer.err
    right, predicted, gold = Counter(), Counter(), Counter()
    for example, line in zip(runs.DEV, answer.out.splitlines(), strict=True):
        of_gold = {(example.words(segment), segment.label) for segment in example.segments}
        gold.update(segment.label for segment in example.segments)
        for entity in json.loads(line)["entities"]:
            predicted[entity["label"]] += 1
            right[entity["label"]] += (entity["text"], entity["label"]) in of_gold
    for label, one in promised.items():
        assert one["count"] == predicted[label]
        assert one["precision"] == pytest.approx(right[label] / predicted[label])
        assert one["recall"] == pytest.approx(right[label] / gold[label])


def test_errors_on_screen_in_lines_and_as_a_page(terminal, model, corpus):
    hostile = Example.of("<script>alert(1)</script>", [(0, 1, "X<b>")])
    other = Example.of("Ada lives in Paris .", [(0, 1, "LOC"), (3, 4, "LOC")])
    write_examples([*runs.DEV, hostile, other], corpus / "odd.jsonl")
    files = ["--errors", corpus / "errors.jsonl", "--errors", corpus / "errors.html"]
    answer = terminal("evaluate", model, corpus / "odd.jsonl", *files, "--json", corpus / "scores.json")
    assert answer.code == 0, answer.err
    for part in ("errors by label", "wrong boundary", "gold labels predicted as others", "errors written to"):
        assert part in answer.out
    counts = json.loads((corpus / "scores.json").read_text())["errors"]
    assert ("LOC", "PER") in [(one["gold"], one["predicted"]) for one in counts["confusion"]]
    lines = [json.loads(line) for line in (corpus / "errors.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(line["kind"] for line in lines) == +Counter(counts["by_kind"])
    first, *_, last = [line for line in lines if line["sentence"] >= len(runs.DEV)]
    assert first["gold"] == {"start": 0, "end": 1, "label": "X<b>", "text": "<script>alert(1)</script>"}
    assert first["tokens"] == list(hostile.tokens)
    assert (last["kind"], last["sentence"], last["gold"]["text"]) == ("wrong label", len(runs.DEV) + 1, "Ada")
    assert last["predicted"] == {"start": 0, "end": 1, "label": "PER", "text": "Ada"}
    assert 0 < last["probability"] <= 1
    page = (corpus / "errors.html").read_text(encoding="utf-8")
    assert page.count("<article>") == len({line["sentence"] for line in lines})
    assert "&lt;script&gt;alert(1)" in page
    assert "X&lt;b&gt;" in page
    assert "<script" not in page
    assert "<b>" not in page


def test_errors_need_a_file_of_a_known_kind(terminal, model, corpus):
    for name in ("errors.txt", "errors", "nowhere/errors.html"):
        answer = terminal("evaluate", model, corpus / "dev.conll", "--errors", corpus / name)
        assert answer.code == 2
        assert "--errors must be a .jsonl or .html file in a folder that exists" in " ".join(
            answer.err.split()
        ).replace("│ ", "")


def test_the_filters_own_probability(terminal, model, corpus):
    errors = []
    for kind in ("given-candidates", "with-filter"):
        answer = terminal(
            "evaluate", model, corpus / "dev.conll", "--set", f"probability={kind}", "--json", corpus / "scores.json"
        )
        assert answer.code == 0, answer.err
        errors.append(json.loads((corpus / "scores.json").read_text())["calibration"]["expected_error"])
    assert errors[0] != errors[1]


def test_labels_that_the_model_does_not_know(terminal, model, corpus):
    (corpus / "new.conll").write_text("ACME B-[ORG]\nand O\nAda B-PER\n\n")
    answer = terminal("evaluate", model, corpus / "new.conll")
    assert answer.code == 0, answer.err
    assert "labels that the model does not know, and that count as missed: [ORG]" in answer.out
    assert "│ [ORG] " in answer.out


def test_where_gold_is_lost(terminal, model, other_model, corpus):
    wide = Example.of("New York Paris Rome", [(0, 4, "LOC")])
    absent = Example.of("ACME and Ada", [(0, 1, "ORG"), (1, 2, "LOC"), (2, 3, "PER")])
    write_examples([wide, absent], corpus / "lost.conll")
    answer = terminal("evaluate", model, corpus / "lost.conll", "--json", corpus / "scores.json")
    assert answer.code == 0, answer.err
    told = json.loads((corpus / "scores.json").read_text())["gold_outcomes"]
    assert told == {"gold": 4, "unknown": 1, "width": 1, "filter": 1, "path": 0, "found": 1}
    assert (
        "of 4 gold entities 1 are found; lost are 1 to its labels (25.00 %), 1 to max_width (25.00 %), "
        "1 to the filter (25.00 %), 0 to the path (0.00 %)" in " ".join(answer.out.split())
    )
    told = " ".join(answer.out.split())
    assert "to lose less to max_width: train with --set model.max_width=4" in told
    settings = load(model).tagger.config
    assert (settings.margin, settings.labels_per_span, settings.skip) == (0, 1, False)
    softer = "--set model.margin=2 --set model.labels_per_span=2 --set model.skip=true (now 0, 1 and False)"
    assert f"to lose less to the filter: train with more data, or with {softer}" in told
    assert "to lose less" not in terminal("evaluate", model, corpus / "train.conll").out  # where nothing is lost
    answer = terminal("evaluate", other_model, corpus / "lost.conll", "--json", corpus / "scores.json")
    assert "gold entities" not in answer.out  # a chain has no filter
    assert json.loads((corpus / "scores.json").read_text())["gold_outcomes"] is None


def test_levels_where_something_is_nested(terminal, model, corpus):
    answer = terminal("evaluate", model, corpus / "dev.conll")
    assert "by level" not in answer.out
    write_examples([Example.of("Ada of Paris", [(0, 1, "PER"), (0, 3, "PER")])], corpus / "nested.jsonl")
    answer = terminal("evaluate", model, corpus / "nested.jsonl", "--json", corpus / "scores.json")
    assert "by level" in answer.out
    levels = json.loads((corpus / "scores.json").read_text())["levels"]
    assert {name: Scores.from_dict(one).micro.gold for name, one in levels.items()} == {
        "all": 2,
        "outer": 1,
        "inner": 1,
    }


def test_two_models(terminal, model, other_model, corpus):
    options = ["--json", corpus / "both.json", "--show", "1"]
    answer = terminal("compare", other_model, model, corpus / "dev.conll", *options)
    assert answer.code == 0, answer.err
    assert f"A {other_model}\nB {model}\n" in answer.out
    told = json.loads((corpus / "both.json").read_text())
    differing = len(told["differences"])
    assert differing > 1
    assert f"{differing} of 9 sentences differ" in answer.out
    assert f"… and {differing - 1} more: --show, or --json for all" in answer.out
    assert "(randomisation)" in answer.out


def test_a_model_beside_itself(terminal, model, corpus):
    answer = terminal("compare", model, model, corpus / "dev.conll")
    assert "0 of 9 sentences differ" in answer.out
    assert "p = 1.0000 (randomisation)" in answer.out


def test_nonsense_is_one_line(terminal, model, corpus):
    (corpus / "empty.conll").touch()
    for command in (["evaluate", model], ["compare", model, model]):
        assert "no file or folder" in terminal.refused(*command, corpus / "nowhere")
        assert "empty.conll must hold at least one sentence" in terminal.refused(*command, corpus / "empty.conll")
        assert "must hold brat, ACE" in terminal.refused(*command, model)
        assert "got 'abacus'" in terminal.refused(*command, corpus / "dev.conll", "--device", "abacus")
    assert "a model must be a folder" in terminal.refused("evaluate", corpus, corpus / "dev.conll")
    assert "a model must be a folder" in terminal.refused("compare", model, corpus, corpus / "dev.conll")
