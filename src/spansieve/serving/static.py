"""The page at `/`: a few files of the package, read once. Nothing of it comes from elsewhere."""

from __future__ import annotations

import hashlib
from importlib import resources

from fastapi import FastAPI, Request, Response

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, tuple[bytes, str]]:
    """The content and the media type of each file, by its name."""
    folder = resources.files("spansieve.serving") / "page"
    found = {}
    for entry in folder.iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if suffix in MEDIA_TYPES:
            found[entry.name] = entry.read_bytes(), MEDIA_TYPES[suffix]
    return found


def add_page(app: FastAPI) -> None:
    for name, (content, media_type) in page_files().items():
        path = "/" if name == "index.html" else f"/page/{name}"
        app.add_route(path, _file(content, media_type), methods=["GET"], include_in_schema=False)


def _file(content: bytes, media_type: str):
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # ask each time: another version may be running

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    return answer
