"""The files of a model's folder, checked before anything is built of them: they may come from anywhere.

A folder can be damaged, or made to do harm: to name files elsewhere, to ask for more memory than there is, to have code
fetched and run. What is found here is raised as ModelError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from textwrap import shorten
from typing import Any

from safetensors import safe_open
from torch import Tensor

MOST_COUNTED = 1_000_000  # what a number of an encoder's configuration may be where no weight is that large
WIDEST = 10_000  # tokens in a segment: far beyond any text, and little enough to be held
NESTED = 100  # levels of a JSON file


class ModelError(ValueError):
    """A folder holds no model of ours, or a damaged one."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Raise whatever goes wrong inside as a fault of the folder. Libraries below have many kinds of errors for it;
    those in Rust even panic, which is no Exception."""
    try:
        yield
    except (ModelError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = shorten(str(error), 200, placeholder=" …") or type(error).__name__
        raise ModelError(f"{what}: {reason}") from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    with refusing(f"{path} is damaged"):
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ModelError(f"{path} must hold a JSON object, got {type(values).__name__}")
        for _ in _walk(values):  # so that no later code falls into it
            pass
        return values


def check_names(files: Mapping[str, Any], path: Path) -> None:
    """Check that files of a model are named from its folder downward."""
    for name in files:
        parts = PurePosixPath(name).parts
        is_inside = parts and not name.startswith("/") and ".." not in parts and "\\" not in name and ":" not in name
        if not is_inside or "\0" in name:
            raise ModelError(f"{path} must name files within its folder, got {shorten(repr(name), 80)}")


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
    if _is_above(settings.get("max_width"), WIDEST):
        raise ModelError(f"{path} must have a max_width of at most {WIDEST:,}, got {settings['max_width']}")


def check_encoder(folder: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the configuration of a Hugging Face encoder, and that it can be read without a network."""
    path = folder / "config.json"
    for needed in (path, folder / "tokenizer.json"):
        if not needed.is_file():
            raise ModelError(f"{needed} is missing")
    largest = max([MOST_COUNTED, *(size for shape in shapes.values() for size in shape)])
    for name, value in _walk(read_object(path)):
        if _is_above(value, len(shapes) if "layer" in name else largest):
            raise ModelError(f"{path} says {name} = {value}, and no weight is that large")
        # transformers takes such a name for that of code to fetch.
        if name.endswith("implementation") and isinstance(value, str) and "/" in value:
            raise ModelError(f"{path} must not ask for code to be fetched, got {name} = {value!r}")
        if name == "quantization_config":
            raise ModelError(f"{path} must be of an encoder that is not quantised, got {name}")


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


def _walk(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every value within a JSON value, with the nearest name above it."""
    if depth > NESTED:
        raise ModelError(f"a JSON file of a model must have at most {NESTED} levels, got more")
    yield name, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _walk(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, name, depth + 1)
