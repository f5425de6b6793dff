"""`spansieve export`: a model that runs without torch."""

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
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{size} in {escape(str(out))}; to use it:")
    console.print(f"from spansieve.prediction.onnx import load\nload({str(out)!r}).predict(text)", markup=False)
