"""Files that are on the disk, whole, when a call returns, and that show when they were changed since."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

SEAL = "sha256"


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write weights as safetensors. Tensors that share memory are stored once each."""
    from safetensors.torch import save_file  # with torch, which nothing else here needs

    path.touch()
    mode = path.stat().st_mode  # safetensors would leave a file that only its owner can read
    with system_errors(path):
        save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, path)
    path.chmod(mode)
    sync(path)


def write_durably(path: Path, content: str | bytes, writer: str = "") -> None:
    """Write a file so that what it held before stays until the new content is complete. Processes that may write the
    same file at once each have a name, `writer`."""
    new = path.with_name(f".{path.name}{writer}.new")
    try:
        with new.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk; where a system has no such thing, there is nothing to do."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Raise the system's errors as OSError, as everywhere else: libraries in Rust and other processes have them as
    text only."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        match = re.search(r"\(os error (\d+)\)|Os \{ code: (\d+)|OSError: \[Errno (\d+)\]", str(error))
        if match is None:
            raise
        number = int(match[1] or match[2] or match[3])
        raise OSError(number, os.strerror(number), str(path)) from error


# ---- Folders as bytes ------------------------------------------------------------------------------------------------


def read_files(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder, by its path in there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# ---- Whether something was changed -----------------------------------------------------------------------------------


def checksum(path: Path) -> str:
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def checksums(folder: Path) -> dict[str, str]:
    """The checksum of every file below a folder, by its path in there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): checksum(path) for path in files}


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Add a checksum of the values to them.

    >>> about = sealed({"step": 3})
    >>> is_sealed(about), is_sealed(about | {"step": 4})
    (True, False)
    """
    return {**values, SEAL: _digest(values)}


def is_sealed(values: Mapping[str, Any]) -> bool:
    return values.get(SEAL) == _digest({name: value for name, value in values.items() if name != SEAL})


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
