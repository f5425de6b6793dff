"""`spansieve serve`: a model over HTTP, with a page to try it on."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from spansieve.cli.inputs import load_predictor
from spansieve.cli.options import Device, Guarantee, LoadSettings, ModelOrExport, parsed
from spansieve.cli.outputs import Console

if TYPE_CHECKING:
    from spansieve.prediction.text_predictor import TextPredictor

TOKEN_VARIABLE = "SPANSIEVE_TOKEN"
LogLevel = Literal["debug", "info", "warning"]
TokenFile = Annotated[
    Path | None,
    typer.Option(help=f"a file with the token that clients must send; or set {TOKEN_VARIABLE}", show_default=False),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(help="pages that may call it, such as https://example.org, or * for all; none if not set"),
]
LimitValues = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="of body_bytes (1,000,000), texts (128 in a request), text_characters (200,000), queue (128 requests "
        "that wait), seconds (30 until the answer) and the others that /model shows",
    ),
]


def serve(
    model: ModelOrExport,
    host: Annotated[str, typer.Option(help="the address to listen at; 0.0.0.0 is all of this machine's")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any that is free")] = 8000,
    guarantee: Guarantee = None,
    settings: LoadSettings = None,
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="of the model; all processors but one if not set")] = None,
    token_file: TokenFile = None,
    cors_origin: Origins = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="of the log on standard error: each request, or only what goes wrong")
    ] = "info",
    limit: LimitValues = None,
) -> None:
    """Serve a model over HTTP, with a page at /.

    An export is served without torch. The log has a line for each request, with its id, and never a text.

    Example: spansieve serve runs/demo/model
    """
    token, origins = _token(token_file), _origins(cors_origin or ())
    try:
        from spansieve.persistence.manifest import name_of
        from spansieve.prediction.onnx.folder import is_export
        from spansieve.serving import server
        from spansieve.serving.limits import Limits
    except ImportError as error:
        if error.name is not None and error.name.startswith("spansieve"):
            raise
        raise ImportError(f"serving needs {error.name}: pip install 'spansieve[serve]'") from error

    is_torch_free = is_export(model)
    if not is_torch_free and not Path(model).is_dir():
        from spansieve.integrations.hub import is_hub_name

        if not is_hub_name(model):
            raise FileNotFoundError(f"no folder {model}; a model is what `spansieve train` leaves in a run's model/")
    limits = parsed(Limits, limit)
    console = Console(stderr=True)
    listener = server.listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}"
    if token is None and not _is_local(host):
        console.warn(f"anyone who reaches {host} can use this; set {TOKEN_VARIABLE} to ask for a token")

    def on_ready() -> None:
        _shorten_pauses()
        console.print(f"serving {escape(name_of(model))} at [bold]{address}[/]  (Ctrl-C ends it)")

    def load_model() -> TextPredictor:
        if not is_torch_free:
            server.set_torch_threads(threads)
        return load_predictor(model, device, settings, guarantee, threads or server.default_threads())

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("spansieve").setLevel(log_level.upper())
    server.Service(load_model, name_of(model), limits, token, on_ready, origins).run(listener)


def _shorten_pauses() -> None:
    """Make the interpreter's pauses short, once all that stays is loaded."""
    gc.collect()
    gc.freeze()  # what is there now stays: to look through it again would hold up every request, and the probes
    gc.set_threshold(5_000, 5, 200)  # short looks: one at 20,000 objects would hold up everything for 15 ms
    sys.setswitchinterval(1e-4)  # the connections wait so long, several times a request, for the model's thread


def _origins(given: Sequence[str]) -> list[str]:
    """Check the origins, which browsers compare letter by letter."""
    for origin in given:
        if origin != "*" and not re.fullmatch(r"https?://[^/\s*]+", origin):
            raise ValueError(f"--cors-origin must be * or look like https://example.org, got {origin!r}")
    return list(given)


def _token(file: Path | None) -> str | None:
    """Read the token, not from an argument: every user of the machine can read those."""
    token = os.environ.get(TOKEN_VARIABLE) if file is None else file.read_text("utf-8", "surrogateescape")
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
