"""The heads by name: the one table of them. No torch here, so that a command can list them at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, get_args

from spansieve.config import ConfigError

if TYPE_CHECKING:
    from spansieve.models.head import Head

HEADS: dict[str, str | type[Head]] = {  # a class, or the module and the name of one, which is then imported on demand
    "fsemicrf": "spansieve.models.fsemicrf:FSemiCRF",
    "crf": "spansieve.models.crf:CRF",
    "semicrf": "spansieve.models.semi_crf:SemiCRF",
    "semicrf-unit-null": "spansieve.models.semi_crf:SemiCRFUnitNull",
    "filter-only": "spansieve.models.filtered:FilterOnly",
    "global-selection": "spansieve.models.filtered:GlobalSelection",
    "nested": "spansieve.models.fsemicrf:Nested",
    "nested-filter-only": "spansieve.models.filtered:NestedFilterOnly",
}


def head_class(name: str) -> type[Head]:
    """Look a head up by its name, as `model.head` has it."""
    if name not in HEADS:
        raise ConfigError(
            f"model.head must be one of {', '.join(HEADS)}, got {name!r}; a head of your own is made known by "
            "spansieve.models.heads.register_head, before the model is trained or loaded"
        )
    head = HEADS[name]
    if isinstance(head, str):
        module, _, attribute = head.partition(":")
        head = getattr(import_module(module), attribute)
    return head


def register_head(name: str, head: type[Head]) -> None:
    """Make a head of your own known under a name, in this process: training, prediction, saving and loading take it as
    they take the others."""
    from spansieve.decoding.decoders import Kind
    from spansieve.models.head import Head as Base

    if not (isinstance(head, type) and issubclass(head, Base)):
        raise TypeError(f"head must be a subclass of spansieve.models.head.Head, got {head!r}")
    if getattr(head, "kind", None) not in get_args(Kind):
        raise TypeError(f"{head.__name__}.kind must be one of {', '.join(get_args(Kind))}, the decoder of its scores")
    missing = [n for n in ("gold", "losses", "scores", "distribution_of") if getattr(head, n) is getattr(Base, n)]
    if missing:
        raise TypeError(f"{head.__name__} must define {', '.join(missing)}: see docs/extend.md")
    if HEADS.get(name, head) is not head:
        raise ValueError(f"name must be new, got {name!r}, which is {HEADS[name]}")
    HEADS[name] = head
