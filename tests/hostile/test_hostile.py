"""Whatever a stranger sends, in a folder, a file or a request: it works, or is refused by the one error that is
documented, within a limit on memory and on time. Each attempt is a process of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spansieve.models.heads import HEADS
from tests.hostile.folders import (
    ENCODER_DAMAGES,
    EXPORT_DAMAGES,
    MODEL_DAMAGES,
    TOKENIZER_DAMAGES,
    by_accident,
    damaged,
    other_files,
)

FEW = {"builtin": 36, "words": 24, "run": 3}
MANY = {"builtin": 300, "encoder": 160, "words": 240, "subwords": 90, "run": 60}
RUN_DAMAGES = [by_accident, by_accident, other_files]
FOLDERS = {
    "builtin": ("model", MODEL_DAMAGES),
    "encoder": ("model", ENCODER_DAMAGES),
    "words": ("export", EXPORT_DAMAGES),
    "subwords": ("export", TOKENIZER_DAMAGES),
    "run": ("resume", RUN_DAMAGES),
}
CASES = [
    *(pytest.param(name, 0, count, id=name) for name, count in FEW.items()),
    *(pytest.param(name, 1, count, id=f"{name}-all", marks=pytest.mark.slow) for name, count in MANY.items()),
]


@pytest.mark.parametrize(("name", "seed", "count"), CASES)
def test_damaged_folders(children, request, tmp_path, name, seed, count):
    base: Path = request.getfixturevalue(name)
    action, damages = FOLDERS[name]
    undamaged = str(shutil.copytree(base, tmp_path / "undamaged"))
    if action == "resume":  # training has threads, which no fork survives
        assert children.attempt(action, undamaged).kind == "done"
    else:
        children.warm_up(action, undamaged)
    wrong, kinds = {}, set()
    for done, folder in damaged(base, tmp_path, damages, seed, count):
        outcome = children.attempt(action, str(folder))
        kinds.add(outcome.kind)
        if not outcome.is_right:
            wrong[done] = f"{outcome.reason} ({outcome.seconds:.1f} s)"
    assert not wrong
    assert kinds >= ({"refused"} if action != "resume" else {"done"})


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_requests(children, seed):
    outcome = children.attempt("requests", seed, 60)
    assert outcome.kind == "done", outcome.reason


FAST_WIDE = [("fsemicrf", "mean"), ("semicrf", "mean"), ("nested", "max")]
WIDE = [(head, features) for head in HEADS for features in ("mean", "max", "endpoints-content")]


@pytest.mark.parametrize(
    ("head", "features"), [case if case in FAST_WIDE else pytest.param(*case, marks=pytest.mark.slow) for case in WIDE]
)
def test_a_large_max_width(children, tmp_path, head, features):
    """No span is wider than the sentence: memory is that of the sentence."""
    outcome = children.attempt("wide_model", str(tmp_path), head, features, 10_000)
    assert outcome.kind == "done", outcome.reason
    assert outcome.is_right


@pytest.mark.parametrize("name", ["builtin", "words"])
def test_without_file_descriptors(children, request, name):
    kind = FOLDERS[name][0]
    outcome = children.attempt("without_descriptors", str(request.getfixturevalue(name)), kind)
    assert outcome.kind == "refused", outcome.reason
    assert "Too many open files" in outcome.reason


@pytest.mark.parametrize(("seed", "count"), [(0, 60), pytest.param(1, 600, marks=pytest.mark.slow)])
def test_data_files(children, tmp_path, seed, count):
    bad_files = pytest.importorskip("tests.hostile.bad_files")
    wrong = {}
    for name, format, content in bad_files.damaged_files(seed, count):
        path = tmp_path / Path(name).name
        path.write_bytes(content)
        outcome = children.attempt("data_file", str(path), format)
        if not outcome.is_right:
            wrong[f"{format}: {name}"] = outcome.reason
        path.unlink()
    assert not wrong
