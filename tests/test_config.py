"""Settings: from TOML and back, nothing swallowed, and the shipped presets say what the paper says."""

from __future__ import annotations

import json

import pytest

from spansieve.config import (
    Config,
    ConfigError,
    EncoderConfig,
    ModelConfig,
    TrainingConfig,
    from_dict,
    parsed_setting,
    preset,
    presets,
    read_config,
    to_dict,
    with_settings,
)

EVERYTHING = """
[model]
head = "crf"
features = "sum"
hidden_size = 7
max_width = 9
skip = true
beta = 0.5
scheme = "BIO"
dropout = 0
[model.encoder]
name = "some/encoder"
pooling = "last"
casing = true
max_subwords = 100
[model.builtin]
context = "conv"
layers = 3
[training]
epochs = 3
learning_rate = 1
clip = 2.5
ema_decay = 0.9
precision = "bf16"
"""


def toml(tmp_path, text: str):
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_in_json_out_and_in_again(tmp_path):
    config = read_config(toml(tmp_path, EVERYTHING))
    assert config.model.head == "crf"
    assert config.model.encoder == EncoderConfig("some/encoder", "last", casing=True, max_subwords=100)
    assert config.model.builtin.layers == 3
    assert config.training.learning_rate == 1.0
    assert isinstance(config.training.learning_rate, float)  # a whole number is one, too
    assert config.training.seed == TrainingConfig().seed
    again = from_dict(Config, json.loads(json.dumps(to_dict(config))))
    assert again == config


def test_an_empty_file_is_the_default(tmp_path):
    assert read_config(toml(tmp_path, "")) == Config()
    assert from_dict(Config, to_dict(Config())) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\nheads = 'crf'", "unknown setting 'model.heads'; known here are head, features"),
        ("[train]\nepochs = 3", "unknown setting 'train'; known here are model, training"),
        ("model = 3", "model must be a table of settings, got 3"),
        ("[model]\nhead = 3", "model.head must be one of str, got 3"),
        ("[model]\nskip = 1", "model.skip must be one of bool, got 1"),
        ("[model]\nbeta = true", "model.beta must be one of float, got True"),
        ("[model]\nmax_width = 2.5", "model.max_width must be one of int, none, got 2.5"),
        ("[model]\nmax_width = 0", "max_width must be at least 1, got 0"),
        ("[model]\nwidth_quantile = 0", r"width_quantile must lie in \(0, 1\], got 0.0"),
        ("[model]\nwidth_quantile = 99.9", r"width_quantile must lie in \(0, 1\], got 99.9"),
        ("[model]\nhidden_size = 0", "hidden_size must be at least 1, got 0"),
        ("[model]\nbudget = -1", "budget must be at least 0, got -1"),
        ("[model]\nlabels_per_span = 0", "labels_per_span must be at least 1, got 0"),
        ("[model]\nfiltering_weight = 0", "filtering_weight must be above 0, got 0"),
        ('[model]\nglobal_loss = "unfiltered"', "global_loss='unfiltered' needs skip=true"),
        ("[model]\nbeta = 0.0", r"beta must lie in \(0, 1\], got 0.0"),
        ("[model]\ndropout = 1.0", r"dropout must lie in \[0, 1\), got 1.0"),
        ("[model.encoder]\nname = ''", "encoder.name must be 'builtin', a Hugging Face name or a folder"),
        ("[model.encoder]\noverlap = 1.0", r"overlap must lie in \[0, 1\), got 1.0"),
        ("[model.encoder]\nmax_subwords = 0", "max_subwords must be at least 1, got 0"),
        ("[model.builtin]\nrows = 1", "rows must be at least 2, got 1"),
        ("[model.builtin]\nlayers = 0", "layers must be at least 1, got 0"),
        ("[model.builtin]\nword_dropout = 2", r"word_dropout must lie in \[0, 1\], got 2.0"),
        ("[training]\nepochs = 0", "epochs must be at least 1, got 0"),
        ("[training]\nepochs = true", "training.epochs must be one of int, got True"),
        ("[training]\nlearning_rate = nan", "learning_rate must be at least 0, got nan"),
        ("[training]\nlearning_rate = 'fast'", "training.learning_rate must be one of float, got 'fast'"),
        ("[training]\nwarmup = 2", r"warmup must lie in \[0, 1\], got 2.0"),
        ("[training]\nclip = 0.0", "clip must be above 0, got 0.0"),
        ("[training]\nema_decay = 1.0", r"ema_decay must lie in \(0, 1\), got 1.0"),
        ("[training]\npatience = 0", "patience must be at least 1, got 0"),
        ("epochs = ", "must be a TOML file"),
    ],
)
def test_what_a_setting_cannot_be_is_told_with_its_file(tmp_path, text, message):
    path = toml(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as error:
        read_config(path)
    assert str(path) in str(error.value)


def test_a_file_must_be_text(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="must be a TOML file"):
        read_config(path)


# ---- Presets ---------------------------------------------------------------------------------------------------------

ENCODERS = {
    "paper-conll2003": "bert-large-cased",
    "paper-ontonotes5": "bert-large-cased",
    "paper-arabic-ace": "aubmindlab/bert-base-arabertv2",
}


@pytest.mark.parametrize("name", ENCODERS)
def test_the_papers_recipe(name):
    model, training = preset(name).model, preset(name).training
    assert model.encoder.name == ENCODERS[name]
    assert (model.head, model.features) == ("fsemicrf", "sum")
    # The paper's filter: the one label that beats null, by itself, and as many spans as there are.
    assert (model.margin, model.labels_per_span, model.budget) == (0.0, 1, None)
    # Its graph and its loss: maximal paths through what the filter keeps, and equal parts of both losses.
    assert (model.skip, model.score_null, model.global_loss, model.filtering_weight) == (False, False, "filtered", 1.0)
    assert (training.optimizer, training.weight_decay) == ("adam", 0.0)
    assert (training.encoder_learning_rate, training.learning_rate) == (2e-5, 5e-4)
    assert (training.schedule, training.warmup) == ("constant", 0.0)
    assert (training.batch_size, training.accumulation, training.epochs) == (8, 1, 15)
    assert training.patience is None  # the best on dev of all epochs is what is kept
    assert training.ema_decay is None  # as it was learned
    assert training.uppercase_rate == 0.0  # from the sentences as they are


def test_every_preset_loads():
    assert {*ENCODERS, "demo"} <= set(presets())
    for name in presets():
        assert preset(name).training.epochs >= 1
    assert preset("demo").model.encoder.name == "builtin"
    with pytest.raises(ConfigError, match=r"unknown preset 'paper'; known are .*paper-arabic-ace"):
        preset("paper")


# ---- Settings by name ------------------------------------------------------------------------------------------------


def test_settings_by_their_dotted_names():
    changed = with_settings(
        Config(),
        {"model.head": "crf", "model.encoder.casing": True, "training.learning_rate": 1, "model.max_width": None},
    )
    assert changed.model.head == "crf"
    assert changed.model.encoder.casing
    assert changed.training.learning_rate == 1.0
    assert changed.model.features == ModelConfig().features
    assert with_settings(changed, {}) == changed


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model.hed", "crf", "unknown setting 'model.hed'; known here are head"),
        ("modell.head", "crf", "unknown setting 'modell.head'; known here are model, training"),
        ("model.head.name", "crf", "unknown setting 'model.head.name'; head has no settings of its own"),
        ("model.features", "hmm", "model.features must be one of"),
        ("training.epochs", 0, "epochs must be at least 1"),
        ("training.epochs", None, "training.epochs must be one of int, got None"),
        ("model", {}, "model is a table: its settings are set one by one"),
    ],
)
def test_settings_that_cannot_be(name, value, message):
    with pytest.raises(ConfigError, match=message):
        with_settings(Config(), {name: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.learning_rate=0.001", ("training.learning_rate", 0.001)),
        ("training.epochs = 3", ("training.epochs", 3)),
        ("model.skip=true", ("model.skip", True)),
        ("model.head=crf", ("model.head", "crf")),
        ("model.encoder.name='a b'", ("model.encoder.name", "a b")),
        ("model.encoder.name=./a/b=c", ("model.encoder.name", "./a/b=c")),
        ("model.max_width=none", ("model.max_width", None)),
        ("training.clip=null", ("training.clip", None)),
    ],
)
def test_settings_as_they_are_typed(text, expected):
    assert parsed_setting(text) == expected


@pytest.mark.parametrize("text", ["training.learning_rate", "=3", ""])
def test_what_is_no_setting(text):
    with pytest.raises(ConfigError, match=r"a setting must look like training.learning_rate=0.001"):
        parsed_setting(text)


def test_the_order_of_settings_does_not_matter():
    both = {"model.global_loss": "unfiltered", "model.skip": True}
    reverse = dict(reversed(both.items()))
    assert with_settings(Config(), both) == with_settings(Config(), reverse)
    with pytest.raises(ConfigError, match="needs skip=true"):
        with_settings(Config(), {"model.global_loss": "unfiltered"})
