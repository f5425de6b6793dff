"""An export on disk: whole or not at all, nobody's files overwritten, and nothing believed that does not fit."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

from spansieve.persistence.atomic import checksums, sealed
from spansieve.prediction.onnx import ModelError, export, is_export, load
from spansieve.prediction.onnx.export import export_model
from spansieve.prediction.onnx.folder import MANIFEST, check_free, new_export
from spansieve.prediction.onnx.graph_validation import PERMITTED
from tests.damage import DAMAGES
from tests.hostile.folders import GRAPHS, arrays
from tests.prediction.onnx.taggers import drawn_tagger


def test_what_is_in_the_folder(words, subwords):
    names = {"manifest.json", "encoder.onnx", "scorers.onnx", "decoder.npz"}
    assert {path.name for path in words[1].iterdir()} == names
    assert {path.name for path in subwords[1].iterdir()} == names | {"tokenizer.json"}
    here = str(Path(__file__).parents[3]).encode()
    for path in (*words[1].iterdir(), *subwords[1].iterdir()):
        assert here not in path.read_bytes()  # no export tells where it was made
    assert is_export(words[1])
    assert not is_export(words[1].parent)


# ---- Writing ---------------------------------------------------------------------------------------------------------


def test_nobodys_files_are_overwritten(tmp_path, words):
    taken = tmp_path / "taken"
    taken.mkdir()
    check_free(taken)  # empty
    (taken / "thesis.txt").write_text("all of it")
    for place in (taken, taken / "thesis.txt"):
        with pytest.raises(ModelError, match="must be new, empty or another export"):
            export_model(drawn_tagger("crf"), place)
    assert (taken / "thesis.txt").read_text() == "all of it"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    check_free(words[1])


def test_another_export_is_replaced_when_the_new_one_is_whole(tmp_path):
    place = tmp_path / "export"
    for text in ("first", "second"):
        with new_export(place) as new:
            (new / MANIFEST).write_text(json.dumps({"format": "spansieve onnx", "text": text}))
            if text == "second":
                assert json.loads((place / MANIFEST).read_text())["text"] == "first"
        assert json.loads((place / MANIFEST).read_text())["text"] == text
    with pytest.raises(FileNotFoundError), new_export(place) as new:
        (new / "no folder" / MANIFEST).touch()
    assert json.loads((place / MANIFEST).read_text())["text"] == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "_write_encoder", fail)
    tagger = drawn_tagger("crf").train()
    with pytest.raises(OSError, match="No space left"):
        export_model(tagger, tmp_path / "export")
    assert not list(tmp_path.iterdir())
    assert tagger.training


# ---- Reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["manifest.json", "encoder.onnx", "scorers.onnx", "decoder.npz", "tokenizer.json"])
def test_a_damaged_export_is_refused(subwords, name, damage, tmp_path):
    folder = shutil.copytree(subwords[1], tmp_path / "export")
    damage(folder / name)
    with pytest.raises(ModelError, match=r"damaged|missing|must be a folder with a manifest"):
        load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("[" * 5_000, "is damaged"),
        ("[]", "must hold a JSON object, got list"),
        ('{"format": "spansieve model"}', "holds no spansieve onnx"),
        ('{"format": "spansieve onnx", "version": 3}', "must be of version 2, got 3: use a newer spansieve"),
        ('{"format": "spansieve onnx", "version": 2}', "was changed after it was written"),
        (json.dumps(sealed({"format": "spansieve onnx", "version": 2})), "does not know"),
    ],
)
def test_a_foreign_manifest_is_refused(text, message, tmp_path):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ModelError, match=message):
        load(tmp_path)


def test_a_foreign_folder_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelError, match=r"a model must be a folder with a manifest\.json"):
            load(place)


def changed(source: Path, target: Path, **values) -> Path:
    """A copy whose manifest is well sealed, and says something else; with the checksums of what is there."""
    folder = target if target.exists() else shutil.copytree(source, target)
    about = json.loads((folder / MANIFEST).read_text())
    about.pop("sha256")
    files = {name: digest for name, digest in checksums(folder).items() if name in about["files"]}
    (folder / MANIFEST).write_text(json.dumps(sealed(about | {"files": files} | values)))
    return folder


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "encoder.onnx/../../secret", "sub/encoder.onnx", "..", ""]
)
def test_a_manifest_leads_nowhere_else(words, name, tmp_path):
    (tmp_path / "secret").write_text("a secret")
    folder = changed(words[1], tmp_path / "export")
    files = json.loads((folder / MANIFEST).read_text())["files"]
    changed(words[1], folder, files=files | {name: "0" * 64})
    with pytest.raises(ModelError, match="must name files of an export alone"):
        load(folder)


LAYOUT = {"before": [2], "after": [3], "padding": 0, "unknown": 1, "capacity": 8, "overlap": 0.2, "casing": True}


@pytest.mark.parametrize(
    "values",
    [
        {"model": {"head": "abacus"}},
        {"model": {"head": "fsemicrf"}},  # max_width is missing
        {"model": []},
        {"labels": ["LOC", "LOC"]},
        {"labels": 3},
        {"layout": None},
        {"layout": {"before": [1]}},
        {"layout": LAYOUT | {"before": "ab"}},
        {"layout": LAYOUT | {"capacity": 0}},
        {"layout": LAYOUT | {"overlap": 1.2}},
        {"layout": LAYOUT | {"casing": 3}},
        {"layout": LAYOUT | {"unheard_of": 3}},
        {"files": []},
        {"files": {}},
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(subwords, values, tmp_path):
    with pytest.raises(ModelError, match=r"does not know|must name the checksums"):
        load(changed(subwords[1], tmp_path / "export", **values))


def test_a_setting_that_is_not_known_is_named_with_the_folder(words, tmp_path):
    """As exports of 0.1.0 have some."""
    model = json.loads((words[1] / MANIFEST).read_text())["model"]
    folder = changed(words[1], tmp_path / "export", model=model | {"lexicon_weight": 0.0})
    with pytest.raises(ModelError, match="unknown setting 'lexicon_weight'") as refused:
        load(folder)
    assert str(folder) in str(refused.value)


def test_more_labels_than_there_are_scores_for_are_refused(words, tmp_path):
    with pytest.raises(ModelError, match="transition must be numbers of shape"):
        load(changed(words[1], tmp_path / "export", labels=["A", "B", "C", "D"]))


@pytest.mark.parametrize("name", ["encoder.onnx", "scorers.onnx", "decoder.npz", "tokenizer.json"])
def test_files_that_are_something_else_are_refused(subwords, name, tmp_path):
    for content in (b"", b"\x00" * 100, pickle.dumps({"a": 1})):
        folder = shutil.copytree(subwords[1], tmp_path / f"export{len(content)}")
        (folder / name).write_bytes(content)
        with pytest.raises(ModelError, match=r"graph|is no tokenizer|must hold plain arrays"):
            load(changed(subwords[1], folder))


class Bomb:
    def __init__(self, fuse: Path) -> None:
        self.fuse = fuse

    def __reduce__(self):
        return Path.touch, (self.fuse,)


def test_nothing_in_the_folder_is_run(words, tmp_path):
    folder, fuse = shutil.copytree(words[1], tmp_path / "export"), tmp_path / "it-ran"
    np.savez(folder / "decoder.npz", transition=np.array([Bomb(fuse)], object))
    with pytest.raises(ModelError, match="must be numbers of shape"):
        load(changed(words[1], folder))
    assert not fuse.exists()


# ---- What a folder may not do ----------------------------------------------------------------------------------------


def spoiled(source: Path, target: Path, name: str, spoil) -> Path:
    """A copy with a graph that something was done to, well sealed."""
    folder = shutil.copytree(source, target)
    model = onnx.load(folder / name)
    spoil(model)
    (folder / name).write_bytes(model.SerializeToString())
    return changed(source, folder)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("loop", "no graph and no sparse tensor within an operator"),
        ("own_operator", "'someone:Run', which is not permitted"),
        ("function", "must have no functions"),
        ("elsewhere", "must have its weights in itself"),
        ("beside", "must have its weights in itself"),
        ("huge", "cannot be run by onnxruntime"),
        ("product", "cannot be run by onnxruntime"),
        ("doubling", "cannot be run by onnxruntime"),
        ("other_shape", "must give"),
        ("fewer_outputs", "must|cannot be run"),
        ("other_input", "which this version does not make"),
    ],
)
@pytest.mark.parametrize("name", ["encoder.onnx", "scorers.onnx"])
def test_graphs_that_are_not_what_the_exporter_writes(words, name, kind, message, tmp_path):
    with pytest.raises(ModelError, match=message):
        load(spoiled(words[1], tmp_path / "export", name, GRAPHS[kind]))


def test_scores_that_are_no_numbers(words, tmp_path):
    with pytest.raises(ModelError, match="got NaN"):
        load(spoiled(words[1], tmp_path / "export", "scorers.onnx", GRAPHS["no_numbers"]))


def test_operators_that_exporters_write_are_permitted():
    """Those of the encoders at hand are checked where they are exported; Loop, If and Scan are none of them."""
    assert not {"Loop", "If", "Scan", "SequenceMap", "Optional", "StringConcat", "RandomNormal", "Resize"} & PERMITTED


@pytest.mark.parametrize("number", [2**31, 2**60, 2**61, 2**62, 2**64])
def test_a_large_number_of_labels_per_span_in_the_manifest(words, number, tmp_path):
    """As there are no more labels than there are, it is none too many."""
    decoder = json.loads((words[1] / MANIFEST).read_text())["decoder"]
    folder = changed(words[1], tmp_path / "export", decoder=decoder | {"labels_per_span": number, "budget": number})
    assert load(folder).predict_tokens([["a", "b"]])
    with pytest.raises(ModelError, match="max_width must be at most"):
        load(changed(words[1], tmp_path / "wide", decoder=decoder | {"max_width": number}))


def test_arrays_that_say_they_are_large_are_not_read(words, tmp_path):
    for chance in range(20):
        folder = shutil.copytree(words[1], tmp_path / str(chance))
        done = arrays(folder, random.Random(chance))
        tracemalloc.start()
        with pytest.raises(ModelError) if "extra" not in done else suppress(ModelError):
            load(folder)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 50_000_000, done


def test_links_out_of_an_export(words, tmp_path):
    folder = shutil.copytree(words[1], tmp_path / "export")
    kept = shutil.move(folder / "encoder.onnx", tmp_path / "kept")
    (folder / "encoder.onnx").symlink_to(kept)
    with pytest.raises(ModelError, match="must not be a link out of its folder"):
        load(folder)
