"""spansieve: exact, fast taggers for named entities and other text segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spansieve.segments import Entity, Segment

if TYPE_CHECKING:
    from spansieve.prediction.predictor import load as load

__version__ = "0.1.0.dev0"
__all__ = ["Entity", "Segment", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """`load` comes with torch, and only when it is asked for."""
    if name == "load":
        from spansieve.prediction.predictor import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
