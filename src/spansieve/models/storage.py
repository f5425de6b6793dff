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
from textwrap import shorten
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from spansieve.config import BUILTIN, ModelConfig, from_dict, to_dict
from spansieve.models.tagger import Tagger
from spansieve.persistence.atomic import save_weights, system_errors, write_durably
from spansieve.persistence.manifest import Manifest, ModelError, json_values, read_object, refusing
from spansieve.segments import LabelSet

CONFIG, WEIGHTS, ENCODER, CARD = "config.json", "model.safetensors", "encoder", "README.md"
MODEL = Manifest("spansieve model", 1, CONFIG, "spansieve train")
EXPORTED = "manifest.json"  # what an exported model has instead: see prediction/onnx/folder.py


MOST_COUNTED = 1_000_000  # what a number of an encoder's configuration may be where no weight is that large


# ---- Saving ----------------------------------------------------------------------------------------------------------


def save_model(tagger: Tagger, folder: Path, card: str = "", weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """Write a model into `folder`, whole or not at all: what was there before stays until the new one is complete."""
    with MODEL.new(folder) as new:
        save_weights(tagger.state_dict() if weights is None else weights, new / WEIGHTS)
        encoder = new / ENCODER
        encoder.mkdir()
        with system_errors(encoder):
            tagger.encoder.save(encoder)
        if not any(encoder.iterdir()):
            encoder.rmdir()
        MODEL.write(new, {"labels": list(tagger.labels), "model": to_dict(portable_config(tagger.config))})
        write_durably(new / CARD, card)  # which may be rewritten, and so has no checksum


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
        with torch.device("meta"), WithoutInitialisation():
            check_shapes(Tagger(config, labels, folder / ENCODER).state_dict(), shapes, folder / WEIGHTS)
        with WithoutInitialisation():
            tagger = Tagger(config, labels, folder / ENCODER)
        weights = load_file(folder / WEIGHTS)
        check_numbers(weights, folder / WEIGHTS)
        tagger.load_state_dict(weights)
    return tagger.to(usable).eval()


class WithoutInitialisation(TorchFunctionMode):
    """Modules made within have weights without values, for those that are loaded. On the meta device torch would import
    its compiler to draw them, which takes as long as all the rest of loading a small model."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


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


# ---- A folder from anywhere ------------------------------------------------------------------------------------------

# It can be damaged, or made to do harm: to name files elsewhere, to ask for more memory than there is, to have code
# fetched and run. So its files are checked before anything is built of them.


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights in a file, without reading them."""
    with refusing(f"{path} is damaged"), safe_open(str(path), "pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def check_sizes(settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Refuse settings that would have so much built that to compare it with the weights is too late already."""
    builtin = settings.get("builtin")
    layers = builtin.get("layers") if isinstance(builtin, dict) else None
    if _is_above(layers, len(shapes)):
        raise ModelError(f"{path} says layers = {layers}, but there are {len(shapes)} weights")


def check_encoder(folder: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the configuration of a Hugging Face encoder, and that it can be read without a network."""
    path = folder / "config.json"
    for needed in (path, folder / "tokenizer.json"):
        if not needed.is_file():
            raise ModelError(f"{needed} is missing")
    largest = max([MOST_COUNTED, *(size for shape in shapes.values() for size in shape)])
    for name, value in json_values(read_object(path)):
        if _is_above(value, len(shapes) if "layer" in name else largest):
            raise ModelError(f"{path} says {name} = {value}, and no weight is that large")
        # transformers takes such a name for that of code to fetch.
        if name.endswith("implementation") and isinstance(value, str) and "/" in value:
            raise ModelError(f"{path} must not ask for code to be fetched, got {name} = {value!r}")
        if name == "quantization_config":
            raise ModelError(f"{path} must be of an encoder that is not quantised, got {name}")


def check_numbers(weights: Mapping[str, Tensor], path: Path) -> None:
    """Check that all weights are numbers: no scores can be computed of others."""
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            raise ModelError(f"{path} must have numbers for weights, got NaN or infinity in {name}")


def check_shapes(wanted: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Check that the weights are those of the model that the configuration describes."""
    for name, tensor in wanted.items():
        if name not in shapes:
            raise ModelError(f"{path} must have the weight {name}")
        if shapes[name] != tuple(tensor.shape):
            sizes = f"{tuple(tensor.shape)}, got {shapes[name]}"
            raise ModelError(f"{path} must have the weight {name} in the shape {sizes}")
    unknown = shapes.keys() - wanted.keys()
    if unknown:
        raise ModelError(f"{path} has weights that the model does not: {shorten(', '.join(sorted(unknown)), 120)}")


def _is_above(value: Any, most: int) -> bool:
    return isinstance(value, int) and value > most
