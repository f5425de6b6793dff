"""How a model is built and trained: frozen dataclasses, TOML in, JSON out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

if sys.version_info >= (3, 11):
    import tomllib
else:  # the standard library has had it since 3.11
    import tomli as tomllib

Features = Literal["sum", "mean", "max", "endpoints", "endpoints-content"]
GlobalLoss = Literal["filtered", "unfiltered"]
Pooling = Literal["first", "mean", "last"]
Context = Literal["lstm", "conv"]
Schedule = Literal["linear", "cosine", "constant"]
Optimizer = Literal["adam", "adamw"]
Precision = Literal["no", "bf16"]
BUILTIN = "builtin"  # the name of the encoder that needs no download
MAX_WIDTH = 10_000  # tokens in a segment: far beyond any text, and little enough to be held


class ConfigError(ValueError):
    """A setting is unknown or has a value that it cannot have."""


@dataclass(frozen=True)
class EncoderConfig:
    """The encoder, words in and vectors out: the built-in one, or a Hugging Face one by name or folder."""

    name: str = BUILTIN
    pooling: Pooling = "first"  # which subwords stand for a token
    casing: bool = False  # for uncased encoders: an embedding of how each token is written
    frozen: bool = False
    gradient_checkpointing: bool = False
    max_subwords: int | None = None  # in one window, special ones included; None: what the encoder can take
    overlap: float = 0.25  # of a window with the next, where a sentence is longer than one

    def __post_init__(self) -> None:
        _check(bool(self.name), f"encoder.name must be {BUILTIN!r}, a Hugging Face name or a folder, got {self.name!r}")
        _check_least(self, 1, "max_subwords")
        _check(0 <= self.overlap < 1, f"overlap must lie in [0, 1), got {self.overlap}")


@dataclass(frozen=True)
class BuiltinConfig:
    """The size of the built-in encoder; a Hugging Face encoder has its own."""

    rows: int = 20_000  # of each table that features are hashed into
    feature_size: int = 64  # of one feature's embedding
    size: int = 128  # of a token's vector
    context: Context = "lstm"
    layers: int = 1
    word_dropout: float = 0.2  # how often a token's identity is hidden in training, so that its form must do
    dropout: float = 0.5
    vectors: str | None = None  # a file or folder of pretrained word vectors; a saved model has its own copy
    max_vectors: int | None = None  # of them, the most frequent words'; None: all
    train_vectors: bool = False  # a correction of each is learned

    def __post_init__(self) -> None:
        _check(self.vectors != "", "vectors must be a file or a folder, got ''")
        _check_least(self, 1, "max_vectors")
        _check_least(self, 2, "rows")  # one of them is for what is hidden
        _check_least(self, 1, "feature_size", "size", "layers")
        _check(0 <= self.word_dropout <= 1, f"word_dropout must lie in [0, 1], got {self.word_dropout}")
        _check(0 <= self.dropout < 1, f"dropout must lie in [0, 1), got {self.dropout}")


@dataclass(frozen=True)
class ModelConfig:
    """One of the paper's models on an encoder."""

    head: str = "fsemicrf"  # the table of them is models/heads.py
    features: Features = "endpoints"
    hidden_size: int = 128  # of a span's features
    max_width: int | None = None  # of a segment, in tokens; None: as width_quantile and the training data have it
    width_quantile: float = 0.999  # then max_width is the least that keeps this part of the gold segments
    skip: bool = False  # the filtered model may leave candidates out
    margin: float = 0.0  # the filter keeps labels that score less than null, but by no more than this
    labels_per_span: int = 1  # the best so many of those labels are kept, where the global scores can choose
    budget: int | None = None  # of candidates in a sentence: the best so many of them; None: no limit
    beta: float = 0.5  # the weight of null spans in the filtering loss
    filtering_weight: float = 1.0  # of the filtering loss beside the global one
    global_loss: GlobalLoss = "filtered"  # over the paths through what the filter keeps, or through all spans
    score_null: bool = False  # FSemiCRF scores what no segment takes, too: each such token as null
    scheme: Literal["BIO", "BIOES"] = "BIOES"  # the tags of the CRF
    dropout: float = 0.2
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    builtin: BuiltinConfig = field(default_factory=BuiltinConfig)

    def __post_init__(self) -> None:
        is_for_builtin = self.builtin.vectors is None or self.encoder.name == BUILTIN
        _check(is_for_builtin, f"builtin.vectors needs encoder.name={BUILTIN!r}, got {self.encoder.name!r}")
        _check(0 < self.beta <= 1, f"beta must lie in (0, 1], got {self.beta}")
        _check_least(self, 0, "margin", "budget")
        _check(0 <= self.dropout < 1, f"dropout must lie in [0, 1), got {self.dropout}")
        _check_least(self, 1, "hidden_size", "max_width", "labels_per_span")
        _check((self.max_width or 1) <= MAX_WIDTH, f"max_width must be at most {MAX_WIDTH:,}, got {self.max_width}")
        _check(isfinite(self.margin), f"margin must be a number, got {self.margin}")
        _check(0 < self.width_quantile <= 1, f"width_quantile must lie in (0, 1], got {self.width_quantile}")
        _check(self.filtering_weight > 0, f"filtering_weight must be above 0, got {self.filtering_weight}")
        _check(
            self.skip or self.global_loss == "filtered",
            "global_loss='unfiltered' needs skip=true: without it, every path through all spans covers the sentence",
        )


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of training: learning rate, batch size, EMA and so on."""

    epochs: int = 15
    batch_size: int = 16  # sentences, on each process
    accumulation: int = 1  # batches per step
    encoder_learning_rate: float = 5e-5  # of pretrained weights; the built-in encoder has none
    learning_rate: float = 1e-3  # of everything else
    optimizer: Optimizer = "adamw"
    weight_decay: float = 0.01
    schedule: Schedule = "linear"
    warmup: float = 0.1  # the part of all steps in which the rates rise
    clip: float | None = 1.0  # the largest norm of the gradient
    patience: int | None = None  # epochs without a better dev score before training stops
    ema_decay: float | None = None  # of an exponential moving average of the weights, which is then scored and kept
    uppercase_rate: float = 0.0  # the part of the sentences that are learned in capitals, as headlines are
    precision: Precision = "no"
    cuda_graphs: bool | None = None  # whole steps as CUDA graphs, on one GPU; None: where they can be
    graph_memory: int | None = None  # MB of the device that the graphs may take; None: half of what is free
    seed: int = 0
    checkpoint_seconds: float = 120.0  # at most so much is lost when a run is killed; every epoch ends with one, too

    def __post_init__(self) -> None:
        _check_least(self, 1, "epochs", "batch_size", "accumulation", "patience", "graph_memory")
        _check_least(self, 0, "encoder_learning_rate", "learning_rate", "weight_decay", "checkpoint_seconds")
        _check(
            not self.cuda_graphs or self.accumulation == 1,
            f"cuda_graphs needs accumulation=1, got {self.accumulation}: a graph is a whole step of one batch",
        )
        _check(0 <= self.warmup <= 1, f"warmup must lie in [0, 1], got {self.warmup}")
        _check(0 <= self.uppercase_rate <= 1, f"uppercase_rate must lie in [0, 1], got {self.uppercase_rate}")
        _check(self.clip is None or self.clip > 0, f"clip must be above 0, got {self.clip}")
        _check(self.ema_decay is None or 0 < self.ema_decay < 1, f"ema_decay must lie in (0, 1), got {self.ema_decay}")


@dataclass(frozen=True)
class Config:
    """A whole run."""

    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


Settings = TypeVar("Settings")


def to_dict(config: Any) -> dict[str, Any]:
    return asdict(config)


def from_dict(kind: type[Settings], values: Mapping[str, Any], where: str = "") -> Settings:
    """Make a dataclass from nested mappings. Unknown names and values of another type are refused, not swallowed."""
    hints, known = get_type_hints(kind), [f.name for f in fields(kind)]  # type: ignore[arg-type]
    found = {}
    for name, value in values.items():
        path = f"{where}{name}"
        if name not in known:
            raise ConfigError(f"unknown setting {path!r}; known here are {', '.join(known)}")
        if is_dataclass(hints[name]):
            _check(isinstance(value, Mapping), f"{path} must be a table of settings, got {value!r}")
            found[name] = from_dict(hints[name], value, f"{path}.")
        else:
            found[name] = _checked(value, hints[name], path)
    return kind(**found)


def read_config(path: str | Path) -> Config:
    """Read a TOML file with the tables [model], [model.encoder], [model.builtin] and [training]."""
    try:
        return from_dict(Config, tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} must be a TOML file: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def presets() -> dict[str, Path]:
    """The shipped configurations by name."""
    folder = Path(str(resources.files("spansieve"))) / "presets"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def preset(name: str) -> Config:
    known = presets()
    if name not in known:
        raise ConfigError(f"unknown preset {name!r}; known are {', '.join(known)}")
    return read_config(known[name])


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """Change settings by their dotted names.

    >>> with_settings(Config(), {"model.encoder.pooling": "mean"}).model.encoder.pooling
    'mean'
    """
    values = to_dict(config)
    for path, value in settings.items():
        table, (*tables, name) = values, path.split(".")
        for inner in tables:
            _check_known(inner, table, path)
            table = table[inner]
            _check(isinstance(table, dict), f"unknown setting {path!r}; {inner} has no settings of its own")
        _check_known(name, table, path)
        _check(not isinstance(table[name], dict), f"{path} is a table: its settings are set one by one, got {value!r}")
        table[name] = value
    return from_dict(type(config), values)  # all at once: one may be allowed only by another


def parsed_setting(text: str) -> tuple[str, Any]:
    """Parse `training.learning_rate=0.001` into name and value; values are as in TOML, a bare word is a string."""
    name, sign, value = text.partition("=")
    _check(bool(sign and name.strip()), f"a setting must look like training.learning_rate=0.001, got {text!r}")
    if value.strip() in ("none", "null"):
        return name.strip(), None
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _check_known(name: str, table: Mapping[str, Any], path: str) -> None:
    _check(name in table, f"unknown setting {path!r}; known here are {', '.join(table)}")


def _checked(value: Any, hint: Any, path: str) -> Any:
    choices = _flat(hint)
    kinds = tuple(choice for choice in choices if isinstance(choice, type))
    is_bool = isinstance(value, bool)  # which is an int, too
    if float in kinds and isinstance(value, int) and not is_bool:
        _check(value.bit_length() < 1_000, f"{path} must be a number that is not as large, got one of many digits")
        return float(value)
    is_of_kind = isinstance(value, kinds) and (bool in kinds or not is_bool)
    if not is_of_kind and not (isinstance(value, str) and value in choices):
        wanted = ", ".join("none" if c is type(None) else getattr(c, "__name__", str(c)) for c in choices)
        raise ConfigError(f"{path} must be one of {wanted}, got {value!r}")
    return value


def _flat(hint: Any) -> list[Any]:
    """The types and literal values that a type hint allows."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    inner = get_args(hint)
    return [choice for part in inner for choice in _flat(part)] if inner else [hint]


def _check_least(config: Any, least: int, *names: str) -> None:
    """Check that the settings that are set are at least so much; NaN is not."""
    for name in names:
        value = getattr(config, name)
        _check(value is None or value >= least, f"{name} must be at least {least}, got {value}")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
