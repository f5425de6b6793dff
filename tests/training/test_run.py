"""What a run leaves behind: figures, curves, and a model with a card."""

from __future__ import annotations

import json

import pytest

from spansieve.data.example import Example
from spansieve.integrations.hub import load
from spansieve.training.run import train
from tests.training import runs
from tests.training.encoders import tiny_encoder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    return train(runs.config(), runs.TRAIN, runs.DEV, folder, test_examples=runs.TRAIN[:4], use_cpu=True)


def test_all_figures_are_in_one_file(whole):
    told = json.loads((whole.model.parent / "results.json").read_text())
    assert told == json.loads(json.dumps(whole.to_dict()))
    assert told["config"]["training"]["epochs"] == 3
    assert told["counts"] == {
        "sentences": 18,
        "entities": 36,
        "labels": ["LOC", "PER"],
        "max_width": 2,
        "widest": 2,
        "lost_to_overlaps": 0,
        "lost_to_width": 0,
        "unknown_in_dev": [],
        "unknown_tokens": 0,
        "vectors": "",
        "started_from": [],
        "teacher": "",
    }
    assert [entry["epoch"] for entry in told["history"]] == [1, 2, 3]
    best = told["history"][told["best_epoch"] - 1]
    assert told["dev"]["micro"]["f1"] == pytest.approx(best["dev"]["f1"])
    assert told["test"]["sentences"] == 4
    assert told["model"] == "model"
    assert set(told["versions"]) == {"spansieve", "torch"}


def test_the_model_gives_the_scores_that_were_told(whole):
    predictor = load(whole.model)
    found = predictor.predict_tokens([example.tokens for example in runs.DEV])
    right = sum(len(set(one.segments) & set(example.segments)) for one, example in zip(found, runs.DEV))
    assert right == whole.dev["micro"]["true_positives"]


def test_the_card_tells_what_the_model_is(whole):
    card = (whole.model / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: spansieve\n")
    assert "# Entities by fsemicrf on the builtin encoder" in card
    assert "Finds LOC, PER in text, in segments of at most 2 tokens." in card
    assert "Trained on 18 sentences with 36 entities in" in card
    micro = whole.dev["micro"]
    assert f"| **all** | {100 * micro['precision']:.2f} | {100 * micro['recall']:.2f} |" in card
    assert card.count("| **all** |") == 2
    assert "| test | precision |" in card


def test_a_label_with_a_bar_does_not_break_the_card(tmp_path):
    odd = [Example.of("Ada", [(0, 1, "A|B")])]
    result = train(runs.config(training__epochs=1, model__head="crf"), odd, odd, tmp_path, use_cpu=True)
    card = (result.model / "README.md").read_text()
    assert "| A\\|B |" in card
    assert "in segments of at most" not in card  # a CRF has no such limit


def test_no_place_on_this_machine_is_in_the_model(tmp_path):
    encoder = tiny_encoder(tmp_path / "private" / "my-encoder")
    result = runs.run(tmp_path / "run", model__encoder__name=str(encoder), training__epochs=1)
    for path in result.model.rglob("*"):
        if path.is_file():
            assert str(tmp_path).encode() not in path.read_bytes(), path
    assert '"name": "my-encoder"' in (result.model / "config.json").read_text()
    assert "on the my-encoder encoder" in (result.model / "README.md").read_text()


def test_a_run_leaves_its_curves(tmp_path, curves):
    runs.run(tmp_path, training__epochs=1)
    assert (tmp_path / "curves.png").exists()


def test_who_looks_sees_the_model_before_every_step(tmp_path):
    seen = []
    config = runs.config(training__epochs=2)
    train(
        config,
        runs.TRAIN,
        runs.DEV,
        tmp_path,
        use_cpu=True,
        before_step=lambda step, tagger: seen.append((step, tagger)),
    )
    assert [step for step, _ in seen] == list(range(12))
    assert len({id(tagger) for _, tagger in seen}) == 1
