"""`spansieve export` and `spansieve push`: a model that runs without torch, and one on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from rich.markup import escape

from spansieve.cli.outputs import Console


def export(
    model: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    out: Annotated[Path, typer.Argument(help="the new folder; another export there is replaced", show_default=False)],
    int8: Annotated[bool, typer.Option("--int8", help="weights in 8 bits: a quarter of the size")] = False,
) -> None:
    """Write a model as ONNX, to run without torch.

    Example: spansieve export runs/demo/model runs/demo/onnx
    """
    from spansieve.models.storage import load_model
    from spansieve.prediction.onnx.export import export_model
    from spansieve.prediction.onnx.folder import check_free

    check_free(out)  # before a minute's work
    export_model(load_model(model), out, int8)
    size = decimal(sum(path.stat().st_size for path in out.iterdir()))
    console = Console()
    console.print(f"{size} in {escape(str(out))}; to use it:")
    console.print(f"from spansieve.prediction.onnx import load\nload({str(out)!r}).predict(text)", markup=False)


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
