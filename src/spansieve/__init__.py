"""spansieve: exact, fast taggers for named entities and other text segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spansieve.segments import Entity, Segment

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints as Constraints
    from spansieve.integrations.hub import load as load
    from spansieve.integrations.hub import push_to_hub as push_to_hub

__version__ = "0.1.0"
__all__ = ["Constraints", "Entity", "Segment", "__version__", "load", "push_to_hub"]


def __getattr__(name: str) -> Any:
    """Load what needs more than the standard library when it is first used."""
    if name in ("load", "push_to_hub"):
        from spansieve.integrations import hub

        return getattr(hub, name)
    if name == "Constraints":
        from spansieve.decoding.constraints import Constraints

        return Constraints
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
