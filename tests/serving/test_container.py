"""The Dockerfile: a service of an export, without torch, that is not root and knows whether it is well."""

from __future__ import annotations

import shutil
import subprocess

import httpx
import pytest

from spansieve.prediction.onnx.export import export_model
from tests.serving.container import ROOT, Container, instructions

TEXT = "Ada Lovelace lives in New York ."


@pytest.fixture(scope="module")
def container(predictor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    export_model(predictor.tagger, folder / "model")
    shutil.copy(ROOT / "Dockerfile", folder)
    made = Container(folder)
    made.build()
    return made


def test_it_is_not_root_and_has_no_torch(container):
    assert container.user.isdigit()
    assert int(container.user) > 0
    assert not {"torch", "transformers", "accelerate", "matplotlib"} & container.installed
    assert {"onnxruntime", "fastapi", "spansieve"} <= container.installed
    assert container.of("EXPOSE") == ["8000"]


def test_its_command_serves_an_export_and_its_health_check_sees_that(container, predictor):
    with container.running() as (address, log):
        assert container.is_healthy(address)
        with httpx.Client(base_url=address) as client:
            (result,) = client.post("/predict", json={"texts": [TEXT]}).json()["results"]
            expected = [(e.start, e.end, e.label) for e in predictor.predict(TEXT)]
            assert [(e["start"], e["end"], e["label"]) for e in result["entities"]] == expected
            assert expected
            (wanted,) = client.post("/predict", json={"texts": [TEXT], "alternatives": 2, "graph": True}).json()[
                "results"
            ]
            (sentence,) = wanted["sentences"]
            assert sentence["alternatives"] is sentence["graph"] is sentence["entropy"] is None
            assert "need the model itself" in sentence["note"]
            assert wanted["entities"] == result["entities"]
            about = client.get("/model").json()
            assert about["has_graph"] is about["has_alternatives"] is False
    assert not container.is_healthy(address)
    assert log[-1].endswith("spansieve.serving.server ended")
    assert not any("Lovelace" in line for line in log)


def test_what_is_not_installed_cannot_be_imported(container):
    """That the tests above can fail."""
    done = subprocess.run(container.command(["python", "-c", "import rich, torch"]), capture_output=True, text=True)
    assert "the image has no torch" in done.stderr


def test_instructions_are_read_with_their_continued_lines():
    assert instructions("# so\nRUN a \\\n    && b\nUSER 1\n") == [("RUN", "a && b"), ("USER", "1")]
