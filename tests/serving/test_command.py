"""`spansieve serve` as it is started and ended: a process of its own, a signal, an exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import pytest

from spansieve.models.storage import ModelError, save_model
from spansieve.serving.queue import Batcher
from spansieve.serving.server import Service, listen
from tests.cli.terminal import Terminal
from tests.serving.running import until


@pytest.fixture(scope="module")
def folder(predictor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "model"
    save_model(predictor.tagger, folder)
    return folder


@pytest.fixture
def terminal(monkeypatch, capsys):
    return Terminal(monkeypatch, capsys)


@contextmanager
def started(folder, *options, **environment):
    command = [sys.executable, "-m", "spansieve", "serve", str(folder), "--port", "0", "--threads", "1", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def address(process) -> str:
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"serving stored\d+ at (http://127\.0\.0\.1:\d+)", line):
            return found.group(1)
    raise AssertionError(lines)


def test_it_serves_and_ends_when_told_with_all_it_accepted_answered(folder):
    with started(folder, "--log-level", "warning", SPANSIEVE_TOKEN="geheim") as process:
        url = address(process)  # it is told when the model is ready
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert httpx.post(f"{url}/predict", json={"texts": []}).status_code == 401
        headers = {"Authorization": "Bearer geheim"}
        answers: list[httpx.Response] = []

        def ask(text: str) -> None:
            answers.append(httpx.post(f"{url}/predict", json={"texts": [text]}, headers=headers, timeout=60))

        def are_waiting() -> bool:
            return "spansieve_queue_length 2.0" in httpx.get(f"{url}/metrics", headers=headers).text

        for repeats in (3_000, 6_000, 12_000):  # until they are seen while one is answered and the others wait
            text = "Ada Lovelace lives in New York . " * repeats
            clients = [threading.Thread(target=ask, args=[text]) for _ in range(3)]
            answers.clear()
            for client in clients:
                client.start()
            until(lambda: are_waiting() or len(answers) == 3)
            if len(answers) < 3:
                break
        assert len(answers) < 3
        process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(60)
        assert [answer.status_code for answer in answers] == [200] * 3
        assert all(len(answer.json()["results"][0]["entities"]) == 2 * repeats for answer in answers)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_a_model_that_cannot_be_loaded_ends_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with started(tmp_path) as process:
        assert process.wait(60) == 1
        *log, told = process.stderr.read().splitlines()
    assert told.startswith("error: ")
    assert f"INFO spansieve.serving.server loading {tmp_path.name}" in log[0]
    assert not any("Traceback" in line for line in log)


def test_the_log_has_lifecycle_and_requests_with_their_ids_and_no_text(folder):
    text = "Ada Lovelace lives in New York ."
    with started(folder) as process:
        url = address(process)
        named = httpx.post(f"{url}/predict", json={"texts": [text]}, headers={"X-Request-ID": "order-7"})
        unnamed = httpx.post(
            f"{url}/predict?text=Lovelace", json={"texts": text}, headers={"X-Request-ID": "Ada Lovelace"}
        )
        assert httpx.get(f"{url}/Ada/Lovelace").status_code == 404
        assert httpx.get(f"{url}/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        log = process.stderr.read().splitlines()
    assert named.headers["x-request-id"] == "order-7"
    made = unnamed.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", made)
    patterns = [
        r"middleware POST /predict 200 [\d.]+ ms id=order-7",
        rf"middleware POST /predict 422 [\d.]+ ms id={made}",
        r"middleware GET other 404 [\d.]+ ms id=\w+",
        "server shutting down; what was accepted is finished",
        "server ended",
    ]
    for line, pattern in zip(log, patterns, strict=True):
        assert re.fullmatch(rf"[\d-]+ [\d:,]+ INFO spansieve\.serving\.{pattern}", line)
    assert not any("Lovelace" in line or "New York" in line for line in log)


def test_a_model_that_fails_before_the_service_has_started(monkeypatch, capfd):
    def start_and_wait(batcher: Batcher) -> None:
        batcher._thread.start()
        batcher._thread.join()

    def fail():
        raise ModelError("no model")

    monkeypatch.setattr(Batcher, "start", start_and_wait)
    service = Service(fail, "none")
    with pytest.raises(ModelError, match="no model"):
        service.run(listen("127.0.0.1", 0))
    assert capfd.readouterr().err == ""


def test_what_it_refuses_to_start_with(terminal, folder, tmp_path, monkeypatch):
    assert "no folder" in terminal.refused("serve", tmp_path / "none")
    (tmp_path / "token").write_text("  \n")
    assert "must be one word, got none" in terminal.refused("serve", folder, "--token-file", tmp_path / "token")
    for origin in ("example.org", "https://example.org/", "https://example.org/page", "https://*.org"):
        assert "--cors-origin must be * or look like" in terminal.refused("serve", folder, "--cors-origin", origin)
    monkeypatch.setenv("SPANSIEVE_TOKEN", "two words")
    assert "SPANSIEVE_TOKEN must be one word, got more" in terminal.refused("serve", folder)


def test_a_port_that_is_taken_is_told(terminal, folder, server):
    port = server.address.rpartition(":")[2]
    assert "in use" in terminal.refused("serve", folder, "--port", port)
