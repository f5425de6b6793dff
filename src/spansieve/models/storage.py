"""A model on disk: one folder that holds everything, loads without a network, and runs no code.

config.json         what the model is, its labels, and the checksums of its files and of itself
model.safetensors   the weights
encoder/            tokenizer and configuration of a Hugging Face encoder
README.md           the model card, with scores
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors.torch import load_file

from spansieve.config import BUILTIN, ModelConfig, from_dict, to_dict
from spansieve.labels import LabelSet
from spansieve.models.folder_validation import (
    ModelError,
    check_encoder,
    check_names,
    check_shapes,
    check_sizes,
    read_object,
    refusing,
    shapes_of,
)
from spansieve.models.tagger import Tagger
from spansieve.persistence.atomic import (
    checksum,
    checksums,
    is_sealed,
    save_weights,
    sealed,
    sync,
    sync_folder,
    system_errors,
    write_durably,
)

FORMAT = "spansieve model"
VERSION = 1
CONFIG, WEIGHTS, ENCODER, CARD = "config.json", "model.safetensors", "encoder", "README.md"
EXPORTED = "manifest.json"  # what an exported model has instead: see prediction/onnx/folder.py


# ---- Saving ----------------------------------------------------------------------------------------------------------


def save_model(tagger: Tagger, folder: Path, card: str = "", weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """Write a model into `folder`, whole or not at all: what was there before stays until the new one is complete."""
    new, old = _new(folder), _old(folder)
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        _fill(new, tagger, card, tagger.state_dict() if weights is None else weights)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _fill(folder: Path, tagger: Tagger, card: str, weights: Mapping[str, torch.Tensor]) -> None:
    save_weights(weights, folder / WEIGHTS)
    encoder = folder / ENCODER
    encoder.mkdir()
    with system_errors(encoder):
        tagger.encoder.save(encoder)
    if not any(encoder.iterdir()):
        encoder.rmdir()
    files = checksums(folder)
    for name in files:
        sync(folder / name)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "labels": list(tagger.labels),
        "model": to_dict(_portable(tagger.config)),
        "files": files,
    }
    write_durably(folder / CARD, card)
    # The last one: a folder that has it is complete.
    write_durably(folder / CONFIG, json.dumps(sealed(about), indent=2, ensure_ascii=False) + "\n")


def with_card(folder: Path, card: str) -> None:
    write_durably(folder / CARD, card)


def encoder_name(config: ModelConfig) -> str:
    """The encoder's name, fit for any machine: of a folder on this one only the last part."""
    name = config.encoder.name
    if name == BUILTIN or not Path(name).is_dir():
        return name
    last = Path(name).resolve().name
    return last if last not in ("", BUILTIN) else f"{last or 'local'}-encoder"


def _portable(config: ModelConfig) -> ModelConfig:
    return replace(config, encoder=replace(config.encoder, name=encoder_name(config)))


# ---- After a kill ----------------------------------------------------------------------------------------------------


def recover_model(folder: Path) -> None:
    """Put the complete model that a kill in the middle of `save_model` left beside its place into it."""
    standing = _standing(folder)
    if standing != folder:
        standing.rename(folder)
    for left in (_new(folder), _old(folder)):
        shutil.rmtree(left, ignore_errors=True)


def _standing(folder: Path) -> Path:
    """The folder that the model is in: its own or, after a kill between the renames of `save_model`, that beside it."""
    if not folder.exists():
        for beside in (_new(folder), _old(folder)):
            if (beside / CONFIG).is_file():
                return beside
    return folder


def _new(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.new")


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


# ---- Loading ---------------------------------------------------------------------------------------------------------


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> Tagger:
    """Load a model, ready to predict. Raises ModelError where the folder is damaged or holds something else."""
    usable = _usable(device)
    folder = _standing(Path(folder))
    about = checked_description(folder)
    with refusing(f"{folder} holds a model that this version of spansieve cannot build"):
        config, labels = from_dict(ModelConfig, about["model"]), LabelSet(about["labels"])
        shapes = shapes_of(folder / WEIGHTS)
        check_sizes(about["model"], shapes, folder / CONFIG)
        if config.encoder.name != BUILTIN:
            check_encoder(folder / ENCODER, shapes)
        # First without memory for its weights: what it needs is known to be in the file before it is allocated.
        with torch.device("meta"):
            check_shapes(Tagger(config, labels, folder / ENCODER).state_dict(), shapes, folder / WEIGHTS)
        tagger = Tagger(config, labels, folder / ENCODER)
        tagger.load_state_dict(load_file(folder / WEIGHTS))
    return tagger.to(usable).eval()


def checked_description(folder: Path) -> dict[str, Any]:
    """The description that a model's folder holds, after a check that all its files are there and unchanged."""
    about = _about(folder)
    _check_files(folder, about)
    return about


def _about(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        got = (
            f"the export {folder}, which `predict`, `evaluate` and `serve` take"
            if (folder / EXPORTED).is_file()
            else folder
        )
        raise ModelError(f"a model must be a folder with a {CONFIG}, as `spansieve train` writes it, got {got}")
    about = read_object(path)
    if about.get("format") != FORMAT:
        raise ModelError(f"{path} must say that its format is {FORMAT!r}: this folder holds no spansieve model")
    if about.get("version") != VERSION:
        version = shorten(str(about.get("version")), 40)
        raise ModelError(f"{path} must be of version {VERSION}, got {version}: use a newer spansieve")
    if not is_sealed(about):
        raise ModelError(f"{path} is damaged: it was changed after it was written")
    return about


def _check_files(folder: Path, about: Mapping[str, Any]) -> None:
    """Check every file that the model was written with; others may stand there too."""
    files = about.get("files")
    if not isinstance(files, dict) or WEIGHTS not in files:
        raise ModelError(f"{folder / CONFIG} must name the checksum of {WEIGHTS}")
    check_names(files, folder / CONFIG)
    for name, wanted in files.items():
        path = folder / name
        with refusing(f"{path} cannot be read"):
            if not path.is_file():
                raise ModelError(f"{path} is missing")
            if checksum(path) != wanted:
                raise ModelError(f"{path} is damaged: it is not the file that {CONFIG} was written with")


def _usable(device: str | torch.device) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be cpu or one that can be used here, got {str(device)!r}: {reason}") from error


# ---- Names -----------------------------------------------------------------------------------------------------------


def version_of(model: torch.nn.Module) -> str:
    """Eight digits that change with any weight, and are the same wherever the model lies."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weight.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:8]
