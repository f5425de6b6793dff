"""What a model is called, and which one of that name it is: no torch here."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def name_of(model: str | Path) -> str:
    """The name of a model: `runs/demo/model` is the model of the run `demo`.

    >>> name_of("runs/demo/model"), name_of("models/people")
    ('demo', 'people')
    """
    place = Path(model).resolve()
    return place.parent.name if place.name == "model" and place.parent.name else place.name


def version_of(model: nn.Module) -> str:
    """Eight digits that change with any weight, and are the same wherever the model lies."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weight.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:8]
