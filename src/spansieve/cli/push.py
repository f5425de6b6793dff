"""`spansieve push`: a model onto the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def push(
    model: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    name: Annotated[
        str, typer.Argument(help="org/name on the Hub; it is made where there is none", show_default=False)
    ],
    private: Annotated[bool, typer.Option("--private", help="where it is made, for its owners alone")] = False,
    revision: Annotated[str | None, typer.Option(help="a branch; the main one if none is given")] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="of the commit")] = None,
) -> None:
    """Put a model on the Hugging Face Hub.

    Only the files of the model go there. It needs a token: hf auth login, or HF_TOKEN.

    Example: spansieve push runs/mine/model my-name/my-model --private
    """
    from spansieve.integrations.hub import push_to_hub

    address = push_to_hub(model, name, private=private, revision=revision, message=message)
    print(f"{address}\nnow: spansieve predict {name} TEXT, or spansieve.load({name!r})")
