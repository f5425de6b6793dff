"""spansieve: exact, fast taggers for named entities and other text segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spansieve.segments import Entity, Segment

if TYPE_CHECKING:
    from spansieve.integrations.hub import load as load
    from spansieve.integrations.hub import push_to_hub as push_to_hub

__version__ = "0.1.0.dev0"
__all__ = ["Entity", "Segment", "__version__", "load", "push_to_hub"]


def __getattr__(name: str) -> Any:
    """What needs torch comes when it is asked for."""
    if name in ("load", "push_to_hub"):
        from spansieve.integrations import hub

        return getattr(hub, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
