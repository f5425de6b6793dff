"""`spansieve train` as a person types it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import pytest

from spansieve.cli.terminal import duration
from spansieve.data.batching import split_examples
from spansieve.data.formats import read_examples, write_examples
from spansieve.evaluation.plots import draw_curves
from spansieve.training import run, trainer
from spansieve.training.run_folder import fingerprint
from tests.training import runs
from tests.training.encoders import tiny_encoder

CPU = "--set=run.cpu=true"
SMALL = [part for name, value in runs.SMALL.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def no_curves(monkeypatch):
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)


@pytest.fixture
def train(terminal, corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    return ["train", "train.conll", "dev.conll", "--output", "run", CPU]


def settings_of(folder):
    return json.loads((folder / "run" / "run.json").read_text())["config"]


def test_labelled_text_in_a_scored_model_out(terminal, corpus, train):
    answer = terminal(*train, *SMALL, "--set", "run.test=dev.conll")
    assert answer.code == 0, answer.err
    assert "18 sentences, 36 entities (LOC, PER), max_width 2" in answer.out
    assert re.search(r"epoch +loss +precision +recall +F1 +\|V\| +\|E\| +kept", answer.out)
    assert len(re.findall(r"^ +[123] +\d+\.\d{3}( +\d+\.\d+){6}(  best)?$", answer.out, re.MULTILINE)) == 3
    assert answer.out.count("all (micro)") == 2
    assert "the model is in run/model, all figures in run/results.json" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert (corpus / "run" / "model" / "model.safetensors").exists()


def test_training_and_scoring_need_no_matplotlib(terminal, corpus, train, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(run, "draw_curves", draw_curves)
    answer = terminal(*train, *SMALL)
    assert answer.code == 0, answer.err
    assert "no curves were drawn, which needs matplotlib: pip install 'spansieve[plots]'\n" in answer.out
    assert (corpus / "run" / "results.json").exists()
    assert not (corpus / "run" / "curves.png").exists()
    assert terminal("evaluate", "run/model", "dev.conll").code == 0
    refused = terminal("evaluate", "run/model", "dev.conll", "--calibration", "reliability.png")
    told = "error: to draw a plot matplotlib must be installed: pip install 'spansieve[plots]'\n"
    assert refused == (1, "", told)  # at once


def test_without_dev_data_a_fraction_is_taken_by_documents_with_the_seed(terminal, corpus, train):
    examples = [replace(example, document=f"d{n // 3}") for n, example in enumerate(runs.TRAIN)]
    write_examples(examples, corpus / "data.jsonl")
    line = ["train", "data.jsonl", "--dev-fraction", "0.3", "--output", "run", CPU, *SMALL]
    answer = terminal(*line, "--set", "training.seed=5", "--set", "training.epochs=1")
    assert answer.code == 0, answer.err
    shown = "train: 12 sentences of 4 documents with 24 entities; dev: 6 sentences of 2 documents with 12 entities"
    assert f"{shown}; drawn with seed 5\n" in answer.out
    parts = split_examples(read_examples(corpus / "data.jsonl"), [0.7, 0.3], 5)
    data = json.loads((corpus / "run" / "run.json").read_text())["data"]
    assert data == {"training": fingerprint(parts[0]), "dev": fingerprint(parts[1])}
    again = terminal(*line, "--set", "training.seed=5", "--set", "training.epochs=1", "--resume")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either DEV or --dev-fraction must be given, such as --dev-fraction 0.1, got neither"),
        (["dev.conll", "--dev-fraction", "0.1"], "either DEV or --dev-fraction must be given, .* got both"),
        (["--dev-fraction", "1"], "--dev-fraction must be above 0 and below 1, got 1.0"),
    ],
)
def test_dev_data_or_a_fraction(terminal, corpus, train, arguments, message):
    assert re.search(message, terminal.refused("train", "train.conll", *arguments, "--output", "run", CPU))
    assert not (corpus / "run").exists()


def test_flags_go_before_a_file_and_settings_before_flags(terminal, corpus, train):
    (corpus / "settings.toml").write_text(
        "[model]\nhidden_size = 16\nbuiltin = {rows = 64, feature_size = 4, size = 8}\n"
        "[training]\nepochs = 9\nlearning_rate = 0.25\n"
    )
    flags = ["--config", "settings.toml", "--head", "crf", "--epochs", "2", "--set", "training.batch_size=5"]
    answer = terminal(
        *train, *flags, "--set", "training.epochs=1", "--set", "training.seed=3", "--set", "training.clip=none"
    )
    assert answer.code == 0, answer.err
    found = settings_of(corpus)
    training = found["training"]
    assert (found["model"]["head"], found["model"]["builtin"]["rows"]) == ("crf", 64)
    assert (training["epochs"], training["batch_size"], training["seed"]) == (1, 5, 3)
    assert (training["learning_rate"], training["clip"]) == (0.25, None)


def test_a_hugging_face_encoder_in_a_folder(terminal, corpus, train):
    tiny_encoder(corpus / "encoder")
    answer = terminal(*train, *SMALL, "--encoder", "encoder", "--epochs", "1", "--set", "training.epochs=1")
    assert answer.code == 0, answer.err
    assert settings_of(corpus)["model"]["encoder"]["name"] == "encoder"


def test_resume(terminal, corpus, train):
    assert terminal(*train, *SMALL).code == 0
    assert "already holds a run: go on with --resume" in terminal.refused(*train, *SMALL)
    again = terminal(*train, *SMALL, "--resume")
    assert again.code == 0
    assert "going on from step 18 of 18" in again.out
    other = terminal.refused(*train, *SMALL, "--resume", "--set", "training.learning_rate=0.5")
    assert "training.learning_rate was 0.05 and is 0.5" in other


def test_ctrl_c_says_how_to_go_on(terminal, train, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer.Trainer, "_train_step", interrupt)
    answer = terminal(*train, *SMALL)
    assert answer.code == 130
    assert "--resume" in answer.out
    assert answer.err == "interrupted\n"


def test_what_only_the_dev_data_has_is_told(terminal, corpus, train):
    (corpus / "dev.conll").write_text("Ada B-PER\n\nACME B-[ORG]\n\n")
    answer = terminal(*train, *SMALL, "--epochs", "1")
    assert answer.code == 0
    assert "labels that only the dev data has, and that count as missed: [ORG]" in answer.out


def test_what_the_model_cannot_represent_is_told(terminal, corpus, train):
    (corpus / "train.conll").write_text("Ada B-PER\nBob I-PER\nChen I-PER\n\nRome B-LOC\n\n")
    answer = terminal(*train, *SMALL, "--set", "model.max_width=2", "--set", "training.epochs=1")
    assert answer.code == 0, answer
    told = "entities wider than max_width 2, left out of training: 1 of 2; --set model.max_width=3 keeps all"
    assert told in answer.out


def test_a_crf_takes_segments_of_any_width(terminal, corpus, train):
    (corpus / "train.conll").write_text("Ada B-PER\nBob I-PER\nChen I-PER\n\nRome B-LOC\n\n")
    answer = terminal(*train, *SMALL, "--head", "crf", "--set", "model.max_width=2", "--set", "training.epochs=1")
    assert answer.code == 0, answer
    assert "2 sentences, 2 entities (LOC, PER)\n" in answer.out
    assert "left out" not in answer.out
    assert "in segments of at most" not in (corpus / "run" / "model" / "README.md").read_text()


# ---- Nonsense --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "nonsense"], "unknown preset 'nonsense'; known are"),
        (["--config", "nowhere.toml"], "nowhere.toml: No such file or directory"),
        (["--config", "train.conll"], "train.conll must be a TOML file"),
        (["--head", "abacus"], "model.head must be one of fsemicrf, crf"),
        (["--encoder", "./nowhere"], "encoder './nowhere' must be 'builtin', a Hugging Face name or a folder"),
        (["--set", "training.speed=3"], "unknown setting 'training.speed'; known here are epochs"),
        (["--set", "training.epochs=many"], "training.epochs must be one of int, got 'many'"),
        (["--set", "nonsense"], "a setting must look like training.learning_rate=0.001, got 'nonsense'"),
        (["--epochs", "0"], "epochs must be at least 1, got 0"),
        (["--set", "run.tracker=abacus"], "run.tracker must be one of tensorboard, wandb, none, got 'abacus'"),
        (["--set", "run.speed=3"], "unknown setting 'run.speed'; known here are cpu, tracker, test"),
        (["--format", "abacus"], "format must be one of conll"),
    ],
)
def test_nonsense_settings_are_one_line(terminal, corpus, train, arguments, message):
    assert message in terminal.refused(*train, *arguments)
    assert not (corpus / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no file or folder train.conll"),
        (b"", "train.conll must hold at least one sentence, got none"),
        (b"\n\n\n", "train.conll must hold at least one sentence, got none"),
        (bytes(range(256)) * 9, "train.conll line 2: must be UTF-8, got byte 0x80"),
        (b"Ada O\n\n", "training data must have at least one entity, got 1 sentences with none"),
        (b"{}\n", "train.conll"),
        (b'{"tokens": 3}\n', "train.conll line 1"),
    ],
)
def test_nonsense_data_is_one_line(terminal, corpus, train, content, message):
    (corpus / "train.conll").unlink()
    if content is not None:
        (corpus / "train.conll").write_bytes(content)
    assert message in terminal.refused(*train, *SMALL)
    assert not (corpus / "run").exists()


def test_a_folder_of_nothing_and_a_dev_set_without_entities(terminal, corpus, train):
    (corpus / "empty").mkdir()
    assert "empty must hold brat, ACE" in terminal.refused("train", "empty", "dev.conll", "--output", "run")
    (corpus / "dev.conll").write_text("Ada O\n\n")
    assert "dev data must have at least one entity" in terminal.refused(*train, *SMALL)


def test_an_output_that_is_a_file(terminal, corpus, train):
    (corpus / "run").write_text("mine")
    assert "run: File exists" in terminal.refused(*train, *SMALL)


def test_durations():
    assert [duration(seconds) for seconds in (0.4, 59.9, 61, 7325)] == ["0:00", "0:59", "1:01", "2:02:05"]
