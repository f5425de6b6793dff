"""The client in JavaScript of docs/shipping.md, in a page of another origin."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.pages import BLOCKS
from tests.serving.running import running

pytestmark = pytest.mark.browser
TEXT = "👍🏽 Ada Lovelace 🇫🇷 Paris"
CALL = """
const [address, text, done] = arguments;
import("/client.mjs")
  .then(({ predict }) => predict(address, [text]))
  .then(([entities]) => done(entities.map(({ start, end }) => Array.from(text).slice(start, end).join(""))))
  .catch((error) => done(String(error)));
"""


@pytest.fixture
def origin(tmp_path):
    """A page of elsewhere, which has the client."""
    (block,) = (block for block in BLOCKS if block.title == "client.mjs")
    (tmp_path / "client.mjs").write_text(block.code, encoding="utf-8")
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>", encoding="utf-8")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_of_a_named_origin_may_call_and_no_other(chromium, origin, server, predictor):
    chromium.get(origin)
    assert "Failed to fetch" in chromium.execute_async_script(CALL, server.address, TEXT)
    with running(predictor, cors_origins=[origin]) as served:
        assert chromium.execute_async_script(CALL, served.address, TEXT) == ["Ada Lovelace", "Paris"]
    chromium.get("about:blank")
