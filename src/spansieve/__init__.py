"""spansieve: exact, fast taggers for named entities and other text segments."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spansieve._lazy import lazy_members
from spansieve.segments import Entity, Segment

if TYPE_CHECKING:
    from spansieve.data.formats.tables import to_dataframe as to_dataframe
    from spansieve.decoding.constraints import Constraints as Constraints
    from spansieve.integrations.hub import load as load
    from spansieve.integrations.hub import push_to_hub as push_to_hub

__version__ = "0.1.0"
__all__ = ["Constraints", "Entity", "Segment", "__version__", "load", "push_to_hub", "to_dataframe"]
# What needs more than the standard library.
_MODULES = {
    "data.formats.tables": ("to_dataframe",),
    "decoding.constraints": ("Constraints",),
    "integrations.hub": ("load", "push_to_hub"),
}
__getattr__ = lazy_members(__name__, _MODULES)

# Silent unless a program sets up logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __dir__() -> list[str]:
    return __all__
