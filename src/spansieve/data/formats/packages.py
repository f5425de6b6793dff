"""Packages that only some formats need, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingPackageError(ImportError, ValueError):
    """A format needs a package that is not installed; the message has the command to install it."""


def package(name: str, install: str) -> Any:
    """The module of that name; `install` is what to pass to pip where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        top = name.partition(".")[0]
        if error.name != top:
            raise
        raise MissingPackageError(
            f"this format needs the package {top}, got none installed; pip install {install}"
        ) from error
