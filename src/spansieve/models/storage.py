"""A model on disk: one folder that holds everything, loads without a network, and runs no code.

config.json         what the model is, its labels, and the checksum of its weights
model.safetensors   the weights
encoder/            tokenizer and configuration of a Hugging Face encoder
README.md           the model card, with scores
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from spansieve.config import ConfigError, ModelConfig, from_dict, to_dict
from spansieve.labels import LabelSet
from spansieve.models.tagger import Tagger

FORMAT = "spansieve model"
VERSION = 1
CONFIG, WEIGHTS, ENCODER, CARD = "config.json", "model.safetensors", "encoder", "README.md"


class ModelError(ValueError):
    """A folder holds no model of ours, or a damaged one."""


def save_model(tagger: Tagger, folder: Path, card: str = "", weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """Into `folder`, whole or not at all: what was there before stays until the new one is complete."""
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        save_weights(dict(tagger.state_dict() if weights is None else weights), new / WEIGHTS)
        (new / ENCODER).mkdir()
        tagger.encoder.save(new / ENCODER)
        if not any((new / ENCODER).iterdir()):
            (new / ENCODER).rmdir()
        about = {
            "format": FORMAT,
            "version": VERSION,
            "labels": list(tagger.labels),
            "model": to_dict(tagger.config),
            "weights_sha256": checksum(new / WEIGHTS),
        }
        write_durably(new / CONFIG, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        write_durably(new / CARD, card)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover_model(folder: Path) -> None:
    """After a kill between the two renames of `save_model`: put the complete model that is there in its place."""
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    if not folder.exists() and old.exists():
        (new if (new / CARD).exists() and (new / CONFIG).exists() else old).rename(folder)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> Tagger:
    folder = Path(folder)
    about = _about(folder)
    try:
        config = from_dict(ModelConfig, about["model"])
        labels = LabelSet(about["labels"])
    except (KeyError, TypeError, ConfigError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG} is damaged or of a newer version: {error}") from error
    weights = folder / WEIGHTS
    if not weights.is_file() or checksum(weights) != about.get("weights_sha256"):
        raise ModelError(f"{weights} must be the file that {CONFIG} was written with; it is missing or damaged")
    tagger = Tagger(config, labels, folder / ENCODER)
    try:
        tagger.load_state_dict(load_file(weights))
    except (SafetensorError, RuntimeError) as error:
        raise ModelError(f"{weights} does not fit {CONFIG}: {error}") from error
    return tagger.to(device).eval()


def _about(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(f"a model must be a folder with a {CONFIG}, as `spansieve train` writes it, got {folder}")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is damaged: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ModelError(f"{path} must say that its format is {FORMAT!r}: this folder holds no spansieve model")
    if about.get("version") != VERSION:
        raise ModelError(f"{path} must be of version {VERSION}, got {about.get('version')}: use a newer spansieve")
    return about


def with_card(folder: Path, card: str) -> None:
    write_durably(folder / CARD, card)


def save_weights(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """As safetensors, on the disk when this returns. Tensors that share memory are stored once each."""
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
