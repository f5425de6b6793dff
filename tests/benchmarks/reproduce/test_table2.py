"""Table 2 on a corpus of a few sentences: every model is timed, and speed-ups follow from the times."""

from __future__ import annotations

import csv
from math import inf

import pytest
import torch

from benchmarks.reproduce import table2
from benchmarks.reproduce.scored_batch import batches_of
from benchmarks.reproduce.table2 import HEADS, Cost, OnDevice, _device_row, _our_row, _their_row, costs
from benchmarks.timings import Timing
from spansieve.config import EncoderConfig, ModelConfig
from spansieve.models.captured_prediction import MIN_USES
from spansieve.models.tagger import Tagger
from spansieve.nn.cuda import graph_capture
from tests.benchmarks.reproduce.conftest import SETTINGS
from tests.nn.tiny import bert_folder
from tests.prediction.test_error_analysis import SENTENCES, tagger
from tests.training import runs

EXAMPLES = [runs.Example.of(text) for text in SENTENCES]


def test_the_command_uses_the_runs_of_table1(terminal, towns, tmp_path):
    common = ["--data", towns, "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--device", "cpu", *SETTINGS]
    terminal("table1", *common, "--seeds", "1", "--heads", ",".join(HEADS))
    answer = terminal("table2", *common, "--batch", "4", "--seconds", "0.001", "--paper", "conll2003")
    assert answer.code == 0, answer.err
    assert "3 runs, 3 of them finished before" in answer.out
    page = (tmp_path / "out" / "table2_towns_builtin_cpu.md").read_text()
    assert "The first 9 test sentences" in page
    assert "plain Python" in page
    assert "| 18.5x |" in page  # the paper's
    with (tmp_path / "out" / "table2_towns_builtin_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["CRF", "Semi-CRF", "FSemiCRF"]
    assert all(float(row[name]) > 0 for row in rows for name in ("scoring, ms", "decoding, ms"))
    assert (tmp_path / "out" / "table2_towns_builtin_cpu.png").exists()


def test_every_head_is_timed_at_every_batch_size():
    found = costs({head: tagger(head) for head in ("crf", "fsemicrf")}, EXAMPLES, [1, 3], 0.001, "cpu")
    assert [(cost.head, cost.batch) for cost in found] == [("crf", 1), ("fsemicrf", 1), ("crf", 3), ("fsemicrf", 3)]
    assert all(cost.scoring > 0 and cost.decoding > 0 for cost in found)
    assert {cost.baseline for cost in found if cost.head == "fsemicrf"} == {"plain Python"}
    alone = costs({"fsemicrf": tagger("fsemicrf")}, EXAMPLES, [2], 0.001, "cpu", with_baselines=False)
    assert alone[0].baseline is None


def test_speed_ups_are_over_the_semi_crf():
    slow, ours = Cost("semicrf", 8, 4.0, 3.0, "torch-struct", 60.0), Cost("fsemicrf", 8, 4.0, 0.5, "plain Python", 2.0)
    row = _our_row(ours, [slow, ours], "ontonotes5")
    assert (row["decoding speed-up"], row["overall speed-up"]) == ("6x", "1.56x")
    assert (row["decoding, paper"], row["speed-up, paper"]) == (0.2, "138x")
    theirs = _their_row(ours, [slow, ours])
    assert theirs["speed-up over Semi-CRF"] == "30x"
    assert theirs["speed-up over Semi-CRF, ours"] == "6x"
    assert theirs["ours is faster by"] == "4x"


def test_a_gpu_is_held_to_one_launch_and_one_copy():
    use = OnDevice(1.0, 0.0, least=0.02, decoding_idle=0.875, overall_idle=0.5, replay_idle=0.25, on_host=0)
    row = _device_row(Cost("fsemicrf", 1, 4.0, 0.05, both=4.04, replayed=0.505, device=use))
    assert (row["launches"], row["copies"], row["distance"]) == ("1", "0", "2.5x")
    assert (row["idle in decoding"], row["idle end to end"], row["end to end, ms"]) == ("88%", "50%", "4.04")
    assert (row["as a graph, ms"], row["idle as a graph"]) == ("0.505", "25%")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_a_gpu_does_is_counted():
    found = costs({"fsemicrf": tagger("fsemicrf").to("cuda")}, EXAMPLES, [3], 0.001, "cuda")
    assert (found[0].device.launches, found[0].device.copies) == (1, 0)
    assert 0 < found[0].device.decoding_idle < 1


def test_a_replay_is_the_prediction(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_capture, "MAX_LAG", inf)  # others may use the device
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = ModelConfig(head="fsemicrf", hidden_size=16, encoder=EncoderConfig(name=bert_folder(tmp_path)))
    batches = batches_of(Tagger.for_data(config, runs.TRAIN).eval().to(device), runs.TRAIN[:7], 2)
    for scored in batches:
        for _ in range(MIN_USES + 1):
            replayed = scored.replay()
        for ours, expected in zip(replayed, scored.predict(), strict=True):
            assert ours.segments == expected.segments
            assert ours.probabilities == pytest.approx(expected.probabilities, abs=1e-3)
    captured = batches[0].backend.captured
    assert (captured is not None and captured.shapes != []) == (device == "cuda")


def test_a_gpu_is_profiled_after_all_times_are_measured(monkeypatch):
    """Launches may be slower once a profiler was used."""
    done = []

    def timed(contenders, seconds, device):
        done.append("timed")
        return [Timing(contender, 1.0, 1) for contender in contenders]

    def profiled(*arguments):
        done.append("profiled")
        return OnDevice(1.0, 0.0, 1.0, 0.5, 0.5, 0.5, 0)

    monkeypatch.setattr(table2, "timed_side_by_side", timed)
    monkeypatch.setattr(table2, "_on_device", profiled)
    monkeypatch.setattr(table2, "launch_and_copy", lambda: None)
    found = costs({"fsemicrf": tagger("fsemicrf")}, EXAMPLES, [1, 3], 0.001, "cuda", with_baselines=False)
    assert done == ["timed", "timed", "profiled", "profiled"]
    assert [(cost.batch, cost.device.launches) for cost in found] == [(1, 1.0), (3, 1.0)]


def test_without_a_semi_crf_there_is_no_speed_up():
    assert _our_row(Cost("crf", 1, 1.0, 1.0), [], None)["decoding speed-up"] == ""


@pytest.mark.parametrize("head", HEADS)
def test_the_paper_has_every_head(head):
    from benchmarks.reproduce.paper import CORPORA, TABLE2

    assert all(TABLE2[corpus][head] for corpus in CORPORA)
