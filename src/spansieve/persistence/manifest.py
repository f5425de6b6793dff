"""Folders with a manifest: written whole or not at all, and checked before anything in them is used.

A manifest has the folder's format and version, the checksums of its files, and one of itself. A folder may come from
anywhere: it can be damaged, or made to do harm. What is wrong with it is raised as ModelError.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from textwrap import shorten
from typing import Any, NamedTuple

from spansieve.persistence.atomic import checksum, checksums, is_sealed, sealed, sync, sync_folder, write_durably

MAX_LEVELS = 100  # of a JSON file
MAX_BYTES = 16_000_000  # of one


class ModelError(ValueError):
    """A folder holds no model of ours, or a damaged one."""


class Manifest(NamedTuple):
    """A kind of folder: what its manifest is called and says of itself, and which command writes it."""

    format: str
    version: int
    file: str
    command: str

    def write(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write the last file: a folder that has it is complete."""
        files = checksums(folder)
        for name in files:
            sync(folder / name)
        values = sealed({"format": self.format, "version": self.version, **about, "files": files})
        write_durably(folder / self.file, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def is_in(self, folder: str | Path) -> bool:
        """Whether a folder has a manifest of this kind."""
        try:
            return read_object(Path(folder) / self.file).get("format") == self.format
        except ModelError:
            return False

    def read(self, folder: Path) -> dict[str, Any]:
        """Read the manifest, which must be of this kind and version, and as it was written."""
        path = folder / self.file
        if not path.is_file():
            wanted = f"a folder with a {self.file}, as `{self.command}` writes it"
            raise ModelError(f"a model must be {wanted}, got {folder}")
        about = read_object(path)
        if about.get("format") != self.format:
            raise ModelError(f"{path} must say that its format is {self.format!r}: this folder holds no {self.format}")
        if about.get("version") != self.version:
            version = shorten(str(about.get("version")), 40)
            raise ModelError(f"{path} must be of version {self.version}, got {version}: use a newer spansieve")
        if not is_sealed(about):
            raise ModelError(f"{path} is damaged: it was changed after it was written")
        return about

    def check_files(self, folder: Path, about: Mapping[str, Any], required: Collection[str]) -> None:
        """Check every file that the folder was written with; others may stand there too."""
        files, path = about.get("files"), folder / self.file
        if not isinstance(files, dict) or not files.keys() >= set(required):
            raise ModelError(f"{path} must name the checksums of {', '.join(sorted(required))}")
        check_names(files, path)
        check_links(folder)
        for name, expected in files.items():
            with refusing(f"{folder / name} cannot be read"):
                if not (folder / name).is_file():
                    raise ModelError(f"{folder / name} is missing")
                if checksum(folder / name) != expected:
                    raise ModelError(f"{folder / name} is damaged: it is not the file that {path} was written with")

    # ---- Whole or not at all -----------------------------------------------------------------------------------------

    @staticmethod
    @contextmanager
    def new(folder: Path) -> Iterator[Path]:
        """Make a folder to fill, which then takes the place of `folder`: before that, and after an error, what was
        there stays."""
        new, old = _beside(folder)
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir(parents=True)
            yield new
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)

    def standing(self, folder: Path) -> Path:
        """Return where the folder is: at its path or, after a kill between the renames of `new`, beside it."""
        if folder.exists():
            return folder
        return next((path for path in _beside(folder) if (path / self.file).is_file()), folder)

    def recover(self, folder: Path) -> None:
        """Put the complete folder that a kill in the middle of `new` left beside its path there."""
        standing = self.standing(folder)
        if standing != folder:
            standing.rename(folder)
        for left in _beside(folder):
            shutil.rmtree(left, ignore_errors=True)


def _beside(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


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
    """Read a JSON object from a file."""
    with refusing(f"{path} cannot be read"):
        if not path.is_file():  # a pipe would be waited for
            raise ModelError(f"{path} is no file")
        if path.stat().st_size > MAX_BYTES:
            raise ModelError(f"{path} must have at most {MAX_BYTES:,} bytes, got {path.stat().st_size:,}")
        content = path.read_bytes()
    with refusing(f"{path} is damaged"):
        values = json.loads(content.decode())
        if not isinstance(values, dict):
            raise ModelError(f"{path} must hold a JSON object, got {type(values).__name__}")
        for _ in json_values(values):  # so that no later code falls into it
            pass
        return values


def check_names(files: Mapping[str, Any], path: Path) -> None:
    """Check that files are named from their folder downward."""
    for name in files:
        parts = PurePosixPath(name).parts
        is_inside = parts and not name.startswith("/") and ".." not in parts and "\\" not in name and ":" not in name
        if not is_inside or "\0" in name:
            raise ModelError(f"{path} must name files within its folder, got {shorten(repr(name), 80)}")


def check_links(folder: Path) -> None:
    """Check that no link in a folder leads out of it, but to where the Hub's cache has the files of a snapshot."""
    with refusing(f"{folder} cannot be read"):
        home = folder.resolve()
        blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else None
        for path in folder.rglob("*"):
            if path.is_symlink():
                target = path.resolve()
                if not target.is_relative_to(home) and target.parent != blobs:
                    raise ModelError(f"{path} must not be a link out of its folder, got one to {target}")


def json_values(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield every value within a JSON value, with the nearest name above it."""
    if depth > MAX_LEVELS:
        raise ModelError(f"a JSON file of a model must have at most {MAX_LEVELS} levels, got more")
    yield name, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from json_values(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from json_values(inner, name, depth + 1)


def name_of(model: str | Path) -> str:
    """The name of a model: `runs/demo/model` is the model of the run `demo`.

    >>> name_of("runs/demo/model"), name_of("models/people")
    ('demo', 'people')
    """
    place = Path(model).resolve()
    return place.parent.name if place.name == "model" and place.parent.name else place.name
