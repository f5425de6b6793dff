"""Packages that import a member when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_members(package: str, members: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose members are defined in these modules of it."""
    modules = {name: module for module, names in members.items() for name in names}

    def import_member(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        member = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, member)  # from where it is found from now on
        return member

    return import_member
