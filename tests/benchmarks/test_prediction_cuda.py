"""The benchmark of prediction on a GPU runs, on a CPU too, where there is nothing to capture; and both ways agree."""

from __future__ import annotations

import pytest
import torch

from benchmarks.prediction_cuda import AT_ONCE, GRAPHS, KERNELS, prediction_cuda_page, run_prediction_cuda
from spansieve.data.formats import write_examples
from spansieve.models.storage import save_model
from tests.benchmarks.terminal import terminal as terminal
from tests.prediction.trained import EXAMPLES, trained_pretrained

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(trained_pretrained(folder).tagger, folder / "model")
    return folder / "model"


def test_both_ways_are_measured_and_agree(model, tmp_path):
    measured = run_prediction_cuda(model, EXAMPLES * 6, rounds=1, device=DEVICE, calls=16, words=100)
    assert [(row["sentences at once"], row["how"]) for row in measured.latency] == [
        (size, how) for size in AT_ONCE for how in (KERNELS, GRAPHS)
    ]
    assert all(row["with other entities"] in ("", 0) for row in measured.latency)
    assert all(float(row["median, ms"]) > 0 for row in (*measured.latency, *measured.parts))
    assert all(int(row["words/s"].replace(",", "")) > 0 for row in measured.throughput)
    memory = {row["what"]: row[""] for row in measured.memory}
    assert memory["MB of device memory that the graphs may take"] == "256"
    assert (memory["shapes captured in the end"] > 0) == (DEVICE == "cuda")
    page = prediction_cuda_page(measured, "few", note="Busy.", device=DEVICE).write(tmp_path, "x").read_text()
    for part in ("A few sentences", "Where the time of one sentence goes", "A list of texts", "Memory", "Busy."):
        assert part in page


def test_the_command_needs_a_gpu_for_it(terminal, model, tmp_path):
    if DEVICE == "cuda":
        pytest.skip("there is one")
    write_examples(EXAMPLES, tmp_path / "few.conll")
    assert "cuda" in terminal.refused("prediction", model, tmp_path / "few.conll", "--device", "cuda")
