"""`spansieve evaluate` and `spansieve compare` as a person types them."""

from __future__ import annotations

import json

from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.evaluation.scores import Scores
from spansieve.prediction.predictor import load
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


def test_the_filters_own_probability(terminal, model, corpus):
    errors = []
    for kind in ("given-candidates", "with-filter"):
        answer = terminal(
            "evaluate", model, corpus / "dev.conll", "--probability", kind, "--json", corpus / "scores.json"
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
