"""A model on disk: one folder that holds everything, loads without a network, and runs no code.

config.json         what the model is, its labels, and the checksums of its files and of itself
model.safetensors   the weights
encoder/            tokenizer and configuration of a Hugging Face encoder
README.md           the model card, with scores
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from spansieve.config import BUILTIN, ModelConfig, from_dict, to_dict
from spansieve.labels import LabelSet
from spansieve.models.folder_validation import check_encoder, check_shapes, check_sizes, shapes_of
from spansieve.models.tagger import Tagger
from spansieve.persistence.atomic import save_weights, system_errors, write_durably
from spansieve.persistence.manifest import Manifest, ModelError, refusing

CONFIG, WEIGHTS, ENCODER, CARD = "config.json", "model.safetensors", "encoder", "README.md"
MODEL = Manifest("spansieve model", 1, CONFIG, "spansieve train")
EXPORTED = "manifest.json"  # what an exported model has instead: see prediction/onnx/folder.py


# ---- Saving ----------------------------------------------------------------------------------------------------------


def save_model(tagger: Tagger, folder: Path, card: str = "", weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """Write a model into `folder`, whole or not at all: what was there before stays until the new one is complete."""
    with MODEL.new(folder) as new:
        _fill(new, tagger, card, tagger.state_dict() if weights is None else weights)


def _fill(folder: Path, tagger: Tagger, card: str, weights: Mapping[str, torch.Tensor]) -> None:
    save_weights(weights, folder / WEIGHTS)
    encoder = folder / ENCODER
    encoder.mkdir()
    with system_errors(encoder):
        tagger.encoder.save(encoder)
    if not any(encoder.iterdir()):
        encoder.rmdir()
    MODEL.write(folder, {"labels": list(tagger.labels), "model": to_dict(portable_config(tagger.config))})
    write_durably(folder / CARD, card)  # which may be rewritten, and so has no checksum


def encoder_name(config: ModelConfig) -> str:
    """The encoder's name, fit for any machine: of a folder on this one only the last part."""
    name = config.encoder.name
    if name == BUILTIN or not Path(name).is_dir():
        return name
    last = Path(name).resolve().name
    return last if last not in ("", BUILTIN) else f"{last or 'local'}-encoder"


def portable_config(config: ModelConfig) -> ModelConfig:
    """Return the configuration without this machine's paths."""
    builtin = config.builtin
    if builtin.vectors is not None:
        builtin = replace(builtin, vectors=Path(builtin.vectors).name or "vectors")
    return replace(config, encoder=replace(config.encoder, name=encoder_name(config)), builtin=builtin)


# ---- Loading ---------------------------------------------------------------------------------------------------------


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> Tagger:
    """Load a model, ready to predict. Raises ModelError where the folder is damaged or holds something else."""
    usable = _usable(device)
    folder = MODEL.standing(Path(folder))
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
    if not (folder / CONFIG).is_file() and (folder / EXPORTED).is_file():
        got = f"the export {folder}, which `predict`, `evaluate` and `serve` take"
        raise ModelError(f"a model must be a folder with a {CONFIG}, as `spansieve train` writes it, got {got}")
    about = MODEL.read(folder)
    MODEL.check_files(folder, about, [WEIGHTS])
    return about


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
