"""`spansieve serve`: a model over HTTP, with a page to try it on."""

from __future__ import annotations

import ipaddress
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spansieve.cli.options import Device, Model, Probability

TOKEN_VARIABLE = "SPANSIEVE_TOKEN"


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="the address to listen at; 0.0.0.0 is all of this machine's")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any that is free")] = 8000,
    probability: Probability = "given-candidates",
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="of the model; all processors but one if not set")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"a file with the token that clients must send; or set {TOKEN_VARIABLE}", show_default=False),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="bytes of a request")] = 1_000_000,
    max_texts: Annotated[int, typer.Option(min=1, help="texts of a request")] = 128,
    max_characters: Annotated[int, typer.Option(min=1, help="characters of a text")] = 200_000,
    max_queue: Annotated[int, typer.Option(min=1, help="requests that may wait for the model")] = 128,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds within which a request is answered")] = 30.0,
) -> None:
    """Serve a model over HTTP, with a page at /.

    Example: spansieve serve runs/demo/model
    """
    token = _token(token_file)
    try:
        from spansieve.integrations.hub import is_hub_name, load
        from spansieve.models.storage import name_of
        from spansieve.serving import server
        from spansieve.serving.limits import Limits
    except ImportError as error:
        if error.name is not None and error.name.startswith("spansieve"):
            raise
        raise ImportError(f"serving needs {error.name}: pip install 'spansieve[serve]'") from error

    if not is_hub_name(model) and not Path(model).is_dir():
        raise FileNotFoundError(f"no folder {model}; a model is what `spansieve train` leaves in a run's model/")
    limits = Limits(
        body_bytes=max_body, texts=max_texts, text_characters=max_characters, queue=max_queue, seconds=timeout
    )
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    listener = server.listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}"
    if token is None and not _is_local(host):
        console.print(f"[yellow]anyone who reaches {host} can use this; set {TOKEN_VARIABLE} to ask for a token[/]")

    def on_ready() -> None:
        console.print(f"serving {escape(name_of(model))} at [bold]{address}[/]  (Ctrl-C ends it)")

    load_model = partial(load, model, device, probability=probability)
    server.serve(load_model, name_of(model), listener, limits, token, threads, on_ready)


def _token(file: Path | None) -> str | None:
    """Read the token, not from an argument: every user of the machine can read those."""
    token = os.environ.get(TOKEN_VARIABLE) if file is None else file.read_text(encoding="utf-8")
    if token is None:
        return None
    token = token.strip()
    if not token or not token.isprintable() or " " in token:
        raise ValueError(
            f"the token of {file or TOKEN_VARIABLE} must be one word, got {'none' if not token else 'more'}"
        )
    return token


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
