"""The option for which probability of an entity a command shows."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Kind(str, Enum):
    given_candidates = "given-candidates"
    with_filter = "with-filter"


Probability = Annotated[
    Kind,
    typer.Option(help="of models that filter: the marginal given what was kept, or that times the filter's own"),
]
