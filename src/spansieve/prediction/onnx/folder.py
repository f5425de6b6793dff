"""An exported model on disk: one folder that holds everything, and in which nothing can run code.

manifest.json    what the model is, its labels, and the checksums of its files and of itself
encoder.onnx     from what is read to a vector per token (built-in encoder) or per subword (Hugging Face)
scorers.onnx     from vectors of tokens to scores
decoder.npz      the transition and what else decoding needs, as plain arrays
tokenizer.json   of a Hugging Face encoder
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spansieve.config import BUILTIN, ConfigError, ModelConfig, from_dict, to_dict
from spansieve.decoding.decoders import DecoderSettings
from spansieve.labels import LabelSet
from spansieve.nn.subwords import SubwordLayout
from spansieve.persistence.atomic import checksum, checksums, is_sealed, sealed, sync, sync_folder, write_durably

FORMAT = "spansieve onnx"
VERSION = 2
MANIFEST, ENCODER, SCORERS = "manifest.json", "encoder.onnx", "scorers.onnx"
DECODER, TOKENIZER = "decoder.npz", "tokenizer.json"
BESIDE = ".data"  # where the weights of a graph are that is too large for one file
NAMES = {ENCODER, ENCODER + BESIDE, SCORERS, DECODER, TOKENIZER}


class ExportError(ValueError):
    """A folder holds no exported model, or a damaged one; or a model cannot be exported."""


@dataclass(frozen=True)
class Manifest:
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
        return {ENCODER, SCORERS, DECODER} | (set() if self.layout is None else {TOKENIZER})


# ---- Writing ---------------------------------------------------------------------------------------------------------


@contextmanager
def new_export(folder: Path) -> Iterator[Path]:
    """Make a folder to fill, which is renamed when it is whole: before that, and after an error, nothing is there that
    was not. Another export may stand at that path, or nothing."""
    check_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    new, old = room / "new", room / "old"
    try:
        new.mkdir()
        yield new
        check_free(folder)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def check_free(folder: Path) -> None:
    """Check that an export may be written there: no files are overwritten but those of another export."""
    if folder.exists() and not (folder.is_dir() and (is_export(folder) or not any(folder.iterdir()))):
        raise ExportError(f"the export's folder must be new, empty or another export, got {folder}: name another")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the last file: a folder that has it is complete."""
    files = checksums(folder)
    for name in files:
        sync(folder / name)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "labels": list(manifest.labels),
        "model": to_dict(manifest.model),
        "decoder": to_dict(manifest.decoder),
        "layout": None if manifest.layout is None else asdict(manifest.layout),
        "splits_special": manifest.splits_special,
        "int8": manifest.int8,
        "files": files,
    }
    write_durably(folder / MANIFEST, json.dumps(sealed(about), indent=2, ensure_ascii=False) + "\n")


# ---- Reading ---------------------------------------------------------------------------------------------------------


def is_export(folder: str | Path) -> bool:
    """Whether a folder has the manifest of an exported model."""
    try:
        about = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and about.get("format") == FORMAT


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest. Raises ExportError unless every file is there, and is what was written."""
    about = _about(folder)
    try:
        manifest = Manifest(
            from_dict(ModelConfig, about["model"]),
            LabelSet(about["labels"]),
            from_dict(DecoderSettings, about["decoder"], "decoder."),
            _layout(about["layout"]),
            bool(about["splits_special"]),
            bool(about["int8"]),
        )
        if (manifest.layout is None) != (manifest.model.encoder.name == BUILTIN):
            raise ConfigError("layout must be there for a Hugging Face encoder, and only for one")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ExportError(f"{folder / MANIFEST} says what this version of spansieve does not know: {error}") from error
    _check_files(folder, about.get("files"), manifest.names)
    return manifest


def _about(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise ExportError(
            f"an exported model must be a folder with a {MANIFEST}, as `spansieve export` writes it, got {folder}"
        )
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ExportError(f"{path} is damaged: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ExportError(f"{path} must say that its format is {FORMAT!r}: this folder holds no exported model")
    if about.get("version") != VERSION:
        raise ExportError(f"{path} must be of version {VERSION}, got {about.get('version')}: use a newer spansieve")
    if not is_sealed(about):
        raise ExportError(f"{path} is damaged: it was changed after it was written")
    return about


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


def _check_files(folder: Path, files: Any, wanted: set[str]) -> None:
    """Check the files, whose names are those of the format: a manifest cannot lead anywhere else."""
    if not isinstance(files, dict) or not wanted <= files.keys():
        raise ExportError(f"{folder / MANIFEST} must name the checksums of {', '.join(sorted(wanted))}")
    for name, expected in files.items():
        if name not in NAMES:
            raise ExportError(f"{folder / MANIFEST} must name files of an export alone, got {name!r}")
        path = folder / name
        if not path.is_file():
            raise ExportError(f"{path} is missing")
        if checksum(path) != expected:
            raise ExportError(f"{path} is damaged: it is not the file that {MANIFEST} was written with")
