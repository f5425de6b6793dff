"""Ways to damage a file that was written whole."""

from __future__ import annotations

from pathlib import Path


def flip(path: Path) -> None:
    """Flip a bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Cut off the end."""
    path.write_bytes(path.read_bytes()[:-3])


DAMAGES = [flip, cut, Path.unlink]
