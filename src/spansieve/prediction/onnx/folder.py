"""An exported model on disk: one folder that holds everything, and in which nothing can run code.

manifest.json    what the model is, its labels, and the checksums of its files and of itself
encoder.onnx     from what is read to a vector per token (built-in encoder) or per subword (Hugging Face)
scorers.onnx     from vectors of tokens to scores
decoder.npz      the transition and what else decoding needs, as plain arrays
tokenizer.json   of a Hugging Face encoder, or of vectors of subwords
vectors.safetensors  the pretrained word vectors of the built-in encoder, where it has such
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spansieve.config import BUILTIN, ConfigError, ModelConfig, from_dict
from spansieve.decoding.decoders import DecoderSettings
from spansieve.nn.subwords import SubwordLayout
from spansieve.nn.word_vectors import VECTORS
from spansieve.persistence.manifest import Manifest, ModelError
from spansieve.segments import LabelSet

MANIFEST, ENCODER, SCORERS = "manifest.json", "encoder.onnx", "scorers.onnx"
DECODER, TOKENIZER = "decoder.npz", "tokenizer.json"
EXPORT = Manifest("spansieve onnx", 2, MANIFEST, "spansieve export")
BESIDE = ".data"  # where the weights of a graph are that is too large for one file
NAMES = {ENCODER, ENCODER + BESIDE, SCORERS, DECODER, TOKENIZER, VECTORS}


@dataclass(frozen=True)
class Description:
    """The description of an exported model, beside its files."""

    model: ModelConfig
    labels: LabelSet
    decoder: DecoderSettings
    layout: SubwordLayout | None  # None: the built-in encoder
    splits_special: bool = False  # whether "[SEP]" in a text is cut as any other word
    int8: bool = False

    @property
    def names(self) -> set[str]:
        """The files that there must be."""
        own = {TOKENIZER} if self.layout is not None else {VECTORS} if self.model.builtin.vectors is not None else set()
        return {ENCODER, SCORERS, DECODER} | own


# ---- Writing ---------------------------------------------------------------------------------------------------------


@contextmanager
def new_export(folder: Path) -> Iterator[Path]:
    """Make a folder to fill, whole or not at all. Another export may stand at that path, or nothing."""
    check_free(folder)
    with EXPORT.new(folder) as new:
        yield new
        check_free(folder)


def check_free(folder: Path) -> None:
    """Check that an export may be written there: no files are overwritten but those of another export."""
    if folder.exists() and not (folder.is_dir() and (is_export(folder) or not any(folder.iterdir()))):
        raise ModelError(f"the export's folder must be new, empty or another export, got {folder}: name another")


def write_description(folder: Path, description: Description) -> None:
    """Write the last file: a folder that has it is complete."""
    EXPORT.write(folder, asdict(description) | {"labels": list(description.labels)})


# ---- Reading ---------------------------------------------------------------------------------------------------------


def is_export(folder: str | Path) -> bool:
    """Whether a folder has the manifest of an exported model."""
    return EXPORT.is_in(folder)


def read_description(folder: Path) -> Description:
    """Read the description. Raises ModelError unless every file is there, and is what was written."""
    about = EXPORT.read(folder)
    try:
        description = Description(
            from_dict(ModelConfig, about["model"]),
            LabelSet(about["labels"]),
            from_dict(DecoderSettings, about["decoder"], "decoder."),
            _layout(about["layout"]),
            bool(about["splits_special"]),
            bool(about["int8"]),
        )
        if (description.layout is None) != (description.model.encoder.name == BUILTIN):
            raise ConfigError("layout must be there for a Hugging Face encoder, and only for one")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelError(f"{folder / MANIFEST} says what this version of spansieve does not know: {error}") from error
    files = about.get("files")
    for name in files if isinstance(files, dict) else ():
        if name not in NAMES:
            raise ModelError(f"{folder / MANIFEST} must name files of an export alone, got {name!r}")
    EXPORT.check_files(folder, about, description.names)
    return description


def _layout(values: Mapping[str, Any] | None) -> SubwordLayout | None:
    if values is None:
        return None
    around: dict[str, Any] = {name: tuple(values[name]) for name in ("before", "after")}
    if not {int}.issuperset(map(type, sum(around.values(), ()))):
        raise ConfigError(f"layout.before and layout.after must be lists of numbers, got {around}")
    layout = replace(from_dict(SubwordLayout, {**values, "before": 0, "after": 0}, "layout."), **around)
    if layout.capacity < 1 or not 0 <= layout.overlap < 1:
        raise ConfigError(f"layout must have a capacity and an overlap in [0, 1), got {layout}")
    return layout
