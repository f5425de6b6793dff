"""What a user typed, for a page that says how it was made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def typed_options(command: Callable[..., None], **given: Any) -> str:
    """Those that the command would not have had by itself, each after a space.

    >>> def measure(seconds: float = 2.0, peers: bool = True, batch: list[int] | None = None): ...
    >>> typed_options(measure, seconds=2.0, peers=False, batch=[8, 32])
    ' --no-peers --batch 8 --batch 32'
    """
    defaults = inspect.signature(command).parameters
    return "".join(_typed(name, value) for name, value in given.items() if value != defaults[name].default)


def _typed(name: str, value: Any) -> str:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f" --{option}" if value else f" --no-{option}"
    return "".join(f" --{option} {one}" for one in (value if isinstance(value, list) else [value]))
