"""The examples run as they are, with little to do."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from spansieve.models.storage import save_model
from tests.prediction.trained import trained
from tests.single_thread import one_thread as one_thread

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, capsys, one_thread):
    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def figures(out: str) -> list[float]:
    return [float(figure) for figure in re.findall(r"F1 ([\d.]+)", out)]


def test_every_example_is_tested():
    here = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'run("{path.name}"' not in here] == []


def test_segment_a_signal(run, tmp_path):
    picture = tmp_path / "signal.png"
    out = run("segment_a_signal.py", "--output", picture, "--steps", 100)
    semi_markov, filtered = figures(out)
    assert semi_markov > 70
    assert filtered > 40
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_active_learning(run):
    out = run("active_learning.py", "--rounds", 2, "--step", 30, "--pool", 200, "--epochs", 2)
    assert re.findall(r"round (\d): (\d+) sentences", out) == [("1", "30"), ("2", "60")]
    assert len(figures(out)) == 2


def test_train_and_predict(run, tmp_path):
    out = run("train_and_predict.py", "--output", tmp_path / "run", "--sentences", 200)
    assert figures(out)[0] > 20
    found = re.findall(r"^ *(\d+) +(\d+) \w+ +(.+) \([01]\.\d\d\)$", out, flags=re.MULTILINE)
    text = "Ada Lovelace met Charles Babbage in London."
    assert found
    assert all(text[int(start) : int(end)] == name for start, end, name in found)
    assert (tmp_path / "run" / "model").is_dir()


@pytest.mark.slow
def test_a_bilstm_with_each_layer(run):
    """With little to learn from. Without the filtering loss the last two are at 0. That it runs at all, docs/ shows."""
    out = run("bilstm_layers.py", "--sentences", 500, "--epochs", 5)
    assert re.findall(r"^(.+): dev", out, flags=re.MULTILINE) == ["linear chain", "semi-Markov", "filtered", "nested"]
    assert min(figures(out)) > 0.35


@pytest.mark.slow
def test_a_bilstm_with_each_layer_has_the_f1_that_is_stated(run):
    assert min(figures(run("bilstm_layers.py"))) > 0.8


def test_resolve_overlaps(run):
    out = run("resolve_overlaps.py")
    greedy, exact = map(float, re.findall(r": ([\d.]+) above", out))
    assert exact > greedy
    assert out.index("United Nations Development Programme") > out.index("exact")
    assert re.search(r"[\d,]+ of 1,000,000 spans kept", out)


def test_a_spacy_pipeline(run, tmp_path):
    save_model(trained().tagger, tmp_path / "model")
    text = "we went to Paris yesterday. Ada Lovelace lives in room 4021."
    out = run("spacy_pipeline.py", "--model", tmp_path / "model", "--text", text, "--output", tmp_path / "pipeline")
    (entities,), (again,) = (
        re.findall(rf"^{name}: (.+)$", out, flags=re.MULTILINE) for name in ("entities", "stored and loaded")
    )
    assert entities == again == "[('Paris', 'LOC'), ('Ada Lovelace', 'PER'), ('room 4021', 'ROOM')]"
    assert re.search(r"^Paris is a LOC with probability [01]\.\d\d$", out, flags=re.MULTILINE)


def test_decode_other_models(run):
    """A real token classifier and a real span categoriser, with probabilities that are some."""
    pytest.importorskip("spacy")
    out = run("decode_other_models.py", "--steps", 40)
    tokens, spans = out.split("span categoriser:")
    assert re.search(r"^  Grace Lovelace: PER with probability 0\.\d+$", tokens, flags=re.MULTILINE)
    ranks = [float(figure) for figure in re.findall(r"^  \d\. .* ([\d.]+)$", tokens, flags=re.MULTILINE)]
    assert len(ranks) == 3
    assert ranks == sorted(ranks, reverse=True)
    disjoint, both = spans.split("both, averaged:")
    listed = int(re.match(r" (\d+) spans", spans)[1])
    assert 0 < disjoint.count("with probability") <= listed
    assert "PER with probability" in both
