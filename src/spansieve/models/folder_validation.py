"""The files of a model's folder, checked before anything is built of them: they may come from anywhere.

A folder can be damaged, or made to do harm: to name files elsewhere, to ask for more memory than there is, to have code
fetched and run. What is found here is raised as ModelError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from safetensors import safe_open
from torch import Tensor

from spansieve.persistence.manifest import ModelError, json_values, read_object, refusing

MOST_COUNTED = 1_000_000  # what a number of an encoder's configuration may be where no weight is that large


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
