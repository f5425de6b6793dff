"""The heads by name: the one table of them. No torch here, so that a command can list them at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from spansieve.config import ConfigError

if TYPE_CHECKING:
    from spansieve.models.head import Head

HEADS: dict[str, str | type[Head]] = {  # a class, or the module and the name of one, which is then imported on demand
    "fsemicrf": "spansieve.models.fsemicrf:FSemiCRF",
    "crf": "spansieve.models.crf:CRF",
    "semicrf": "spansieve.models.semi_crf:SemiCRF",
    "semicrf-unit-null": "spansieve.models.semi_crf:SemiCRFUnitNull",
    "filter-only": "spansieve.models.filter_only:FilterOnly",
    "global-selection": "spansieve.models.global_selection:GlobalSelection",
    "nested": "spansieve.models.nested:Nested",
    "nested-filter-only": "spansieve.models.nested:NestedFilterOnly",
}


def head_class(name: str) -> type[Head]:
    """Look a head up by its name, as `model.head` has it."""
    if name not in HEADS:
        raise ConfigError(f"model.head must be one of {', '.join(HEADS)}, got {name!r}")
    head = HEADS[name]
    if isinstance(head, str):
        module, _, attribute = head.partition(":")
        head = getattr(import_module(module), attribute)
    return head
