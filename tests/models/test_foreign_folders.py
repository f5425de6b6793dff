"""Model folders from anywhere: whatever is in them, `load_model` works or raises ModelError. Nothing of theirs runs,
nothing is written, and no more memory is taken than their files are large."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from spansieve.models.storage import ModelError, load_model, save_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.atomic import checksums, sealed
from tests.training import runs
from tests.training.encoders import tiny_encoder

FUZZ = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
BUILTIN_FILES = ["config.json", "model.safetensors"]
needs_links = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a POSIX system")
ENCODER_FILES = [f"encoder/{name}" for name in ("config.json", "tokenizer.json", "tokenizer_config.json")]


@pytest.fixture(scope="module")
def builtin(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("builtin") / "model")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    return saved(folder / "model", model__encoder__name=str(tiny_encoder(folder / "encoder")))


@pytest.fixture(scope="module")
def with_vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "words.txt").write_text("ada 1 2\nlondon 3 4\n", encoding="utf-8")
    return saved(folder / "model", model__builtin__vectors=str(folder / "words.txt"))


def saved(folder: Path, **settings) -> Path:
    torch.manual_seed(0)
    save_model(Tagger.for_data(runs.config(**settings).model, runs.TRAIN), folder)
    return folder


@pytest.fixture
def place(tmp_path):
    """Where copies are made; nothing else may change around them."""
    return tmp_path / "around" / "model"


def copied(source: Path, place: Path) -> Path:
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir(parents=True)
    return shutil.copytree(source, place)


def seal(folder: Path, **values) -> None:
    """Whoever makes a folder can make its checksums, too."""
    about = json.loads((folder / "config.json").read_text()) | values
    about.pop("sha256", None)
    if "files" not in values:
        about["files"] = {name: sum_ for name, sum_ in checksums(folder).items() if name in about["files"]}
    (folder / "config.json").write_text(json.dumps(sealed(about)))


def loads_or_refuses(folder: Path) -> Tagger | None:
    before = checksums(folder.parent)
    tagger = None
    with suppress(ModelError):
        tagger = load_model(folder)
    assert checksums(folder.parent) == before
    return tagger


# ---- Any bytes -------------------------------------------------------------------------------------------------------


@st.composite
def mutations(draw, names):
    """A file, and what becomes of its bytes."""
    name = draw(st.sampled_from(names))
    kind = draw(st.sampled_from(["flip", "cut", "insert", "replace"]))
    place = draw(st.floats(0, 1, exclude_max=True))
    data = draw(st.binary(min_size=1, max_size=8))

    def mutated(content: bytes) -> bytes:
        at = int(place * len(content))
        if kind == "flip":
            return content[:at] + bytes([content[at] ^ data[0]]) + content[at + 1 :]
        if kind == "cut":
            return content[:at]
        if kind == "insert":
            return content[:at] + data + content[at:]
        return data

    return name, mutated


def mutate(folder: Path, name: str, mutated) -> bool:
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(mutated(content))
    return path.read_bytes() != content


@FUZZ
@given(mutation=mutations(BUILTIN_FILES))
def test_a_changed_file_is_refused(builtin, place, mutation):
    folder = copied(builtin, place)
    if mutate(folder, *mutation):
        # Bytes that JSON does not look at, such as blanks, may change.
        assert loads_or_refuses(folder) is None or mutation[0] == "config.json"


@FUZZ
@given(mutation=mutations(["model.safetensors"]))
def test_weights_that_were_changed_and_sealed_again(builtin, place, mutation):
    folder = copied(builtin, place)
    shapes = {name: weight.shape for name, weight in load_model(folder).state_dict().items()}
    mutate(folder, *mutation)
    seal(folder)
    tagger = loads_or_refuses(folder)
    if tagger is not None:  # other numbers, in the same shapes
        assert {name: weight.shape for name, weight in tagger.state_dict().items()} == shapes


@FUZZ
@given(mutation=mutations(["encoder/vectors.safetensors"]))
def test_word_vectors_that_were_changed_and_sealed_again(with_vectors, place, mutation):
    folder = copied(with_vectors, place)
    mutate(folder, *mutation)
    seal(folder)
    tagger = loads_or_refuses(folder)
    if tagger is not None:
        assert tagger.encoder.features([["Ada", "none"]])["word_vectors"].shape[0] == 2


@FUZZ
@given(mutation=mutations(ENCODER_FILES))
def test_an_encoder_that_was_changed_and_sealed_again(pretrained, place, mutation):
    folder = copied(pretrained, place)
    mutate(folder, *mutation)
    seal(folder)
    loads_or_refuses(folder)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.999])
def test_truncated_weights_sealed_again(builtin, place, part):
    folder = copied(builtin, place)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: int(part * len(content))])
    seal(folder)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        load_model(folder)


# ---- Any values ------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 70),
        st.sampled_from([10**6, 2**31, 2**63, 10**30, -(10**30), 1e308, float("nan"), float("inf")]),
        st.text(max_size=5),
        st.sampled_from(["../../x", "/etc/passwd", "builtin", "crf", "kernels-community/flash-attn", "\ud800"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def places_in(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from places_in(inner, (*path, key))


def changed(values, path, value):
    if not path:
        return value
    return values | {path[0]: changed(values[path[0]], path[1:], value)}


@FUZZ
@given(data=st.data(), value=VALUES)
def test_any_value_in_the_description(builtin, place, data, value):
    folder = copied(builtin, place)
    about = json.loads((folder / "config.json").read_text())
    about.pop("sha256")
    path = data.draw(st.sampled_from(list(places_in(about))))
    new = changed(about, path, value)
    (folder / "config.json").write_text(json.dumps(sealed(new) if isinstance(new, dict) else new))
    loads_or_refuses(folder)


@FUZZ
@given(data=st.data(), value=VALUES, name=st.sampled_from(ENCODER_FILES[::2]))
def test_any_value_in_the_encoders_files(pretrained, place, data, value, name):
    folder = copied(pretrained, place)
    values = json.loads((folder / name).read_text())
    path = data.draw(st.sampled_from(list(places_in(values))))
    (folder / name).write_text(json.dumps(changed(values, path, value)))
    seal(folder)
    loads_or_refuses(folder)


# ---- Tricks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../../x", "../model/config.json", "/etc/passwd", "a/../../x", "..", "", "C:\\x", "a\\..\\..\\x", "a\0b"]
)
def test_a_file_elsewhere_is_not_looked_at(builtin, place, name):
    folder = copied(builtin, place)
    files = json.loads((folder / "config.json").read_text())["files"]
    seal(folder, files=files | {name: "0" * 64})
    with pytest.raises(ModelError, match="must name files within its folder"):
        load_model(folder)


def test_a_name_that_no_system_takes(builtin, place):
    folder = copied(builtin, place)
    files = json.loads((folder / "config.json").read_text())["files"]
    seal(folder, files=files | {"x" * 5000: "0" * 64})
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(folder)


@needs_links
def test_links(builtin, place):
    """A link is followed within its folder; to nothing else, and not around in circles."""
    folder = copied(builtin, place)
    weights = folder / "model.safetensors"
    kept = weights.rename(folder / "kept")
    weights.symlink_to(kept)
    load_model(folder)
    outside = shutil.move(kept, folder.parent / "kept")
    for target in ("/dev/zero", "/dev/full", folder, weights, "/etc/passwd", "/nowhere", outside):
        weights.unlink()
        weights.symlink_to(target)
        with pytest.raises(ModelError, match=r"is missing|must not be a link|cannot be read"):
            load_model(folder)
    weights.unlink()
    os.mkfifo(weights)  # to open it would wait for ever
    with pytest.raises(ModelError, match="is missing"):
        load_model(folder)


@needs_links
def test_links_of_the_hubs_cache(builtin, tmp_path):
    """It has the files of a snapshot as links to blobs; of other folders' blobs it has none."""
    folder = shutil.copytree(builtin, tmp_path / "models--org--name" / "snapshots" / "0123abcd")
    blobs = folder.parents[1] / "blobs"
    blobs.mkdir()
    for path in list(folder.iterdir()):
        shutil.move(path, blobs / f"of-{path.name}")
        path.symlink_to(Path("../../blobs") / f"of-{path.name}")
    load_model(folder)
    with pytest.raises(ModelError, match="must not be a link out of its folder"):
        load_model(shutil.copytree(folder, folder.parents[1] / "elsewhere" / folder.name, symlinks=True))


@needs_links
def test_a_file_that_is_not_named_may_not_be_a_link_either(pretrained, place):
    """transformers reads what it finds."""
    folder = copied(pretrained, place)
    (folder / "encoder" / "vocab.txt").symlink_to("/etc/passwd")
    with pytest.raises(ModelError, match=r"vocab\.txt must not be a link out of its folder"):
        load_model(folder)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("builtin", "rows"), 10**9),
        (("builtin", "layers"), 10**9),
        (("builtin", "size"), 10**12),
        (("builtin", "feature_size"), 10**30),
        (("hidden_size",), 10**9),
        (("max_width",), 10**9),
    ],
)
def test_huge_sizes_are_refused_before_there_is_memory_for_them(builtin, place, path, value):
    folder = copied(builtin, place)
    model = json.loads((folder / "config.json").read_text())["model"]
    seal(folder, model=changed(model, path, value))
    with pytest.raises(ModelError):
        load_model(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"vocab_size": 10**9},
        {"hidden_size": 10**9},
        {"num_hidden_layers": 10**9},
        {"num_labels": 10**9},
        {"max_position_embeddings": 10**12},
        {"attn_implementation": "kernels-community/flash-attn"},
        {"sub": {"_attn_implementation": "someone/code"}},
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        {"model_type": "unheard-of"},
        {"model_type": "t5"},
        {"deep": json.loads("[" * 150 + "]" * 150)},
    ],
)
def test_an_encoder_that_asks_for_too_much_is_refused(pretrained, place, values):
    folder = copied(pretrained, place)
    path = folder / "encoder" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    seal(folder)
    with pytest.raises(ModelError):
        load_model(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f'{{"a": {"9" * 10_000}}}', '"', "\ufeff{}"])
def test_json_that_breaks_readers(builtin, place, text):
    folder = copied(builtin, place)
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"is damaged|must hold"):
        load_model(folder)


def test_weights_of_other_shapes_and_names(builtin, place):
    folder = copied(builtin, place)
    weights = load_file(folder / "model.safetensors")
    name = "head.transition"
    for wrong, message in (
        (weights | {name: torch.zeros(2, 2)}, r"weight head\.transition in the shape \(3, 3\), got \(2, 2\)"),
        (weights | {"extra": torch.zeros(1)}, "weights that the model does not: extra"),
        ({key: value for key, value in weights.items() if key != name}, r"must have the weight head\.transition"),
        ({}, "must have the weight|but there are 0 weights"),
    ):
        save_file(wrong, folder / "model.safetensors")
        seal(folder)
        with pytest.raises(ModelError, match=message):
            load_model(folder)


def test_a_model_without_its_encoder(pretrained, place):
    folder = copied(pretrained, place)
    shutil.rmtree(folder / "encoder")
    seal(folder)
    with pytest.raises(ModelError, match=r"encoder/config\.json is missing"):
        load_model(folder)


def test_the_name_of_the_encoder_is_no_place(pretrained, place):
    """It is told, and nothing is looked for there."""
    folder = copied(pretrained, place)
    model = json.loads((folder / "config.json").read_text())["model"]
    seal(folder, model=changed(model, ("encoder", "name"), "../../../etc"))
    found = predict_segments(load_model(folder), [runs.DEV[0].tokens])
    assert found == predict_segments(load_model(pretrained), [runs.DEV[0].tokens])


# ---- Numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**31, 2**60, 2**61, 2**62, 2**63, 10**30])
@pytest.mark.parametrize("name", ["labels_per_span", "budget"])
def test_large_numbers_of_labels_and_candidates(builtin, place, name, number):
    """There are no more of either than there are."""
    folder = copied(builtin, place)
    model = json.loads((folder / "config.json").read_text())["model"]
    seal(folder, model=model | {name: number})
    tokens = [runs.DEV[0].tokens]
    assert predict_segments(load_model(folder), tokens, True)[0].segments is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers(builtin, place, value):
    folder = copied(builtin, place)
    weights = load_file(folder / "model.safetensors")
    weights["head.transition"][0, 0] = value
    save_file(weights, folder / "model.safetensors")
    seal(folder)
    with pytest.raises(ModelError, match=r"NaN or infinity in head\.transition"):
        load_model(folder)


@pytest.mark.parametrize("label", ["\x1b[2J", "a\nb", "\x00", "\x9b", "a\u202eb", 3, None, ["LOC"], True])
def test_labels_that_are_no_plain_strings(builtin, place, label):
    folder = copied(builtin, place)
    seal(folder, labels=["LOC", label])
    with pytest.raises(ModelError, match="a label must be a string without control characters"):
        load_model(folder)


def test_more_subwords_than_positions(pretrained, place):
    folder = copied(pretrained, place)
    model = json.loads((folder / "config.json").read_text())["model"]
    seal(folder, model=changed(model, ("encoder", "max_subwords"), 1_000))
    with pytest.raises(ModelError, match="max_subwords must be at most 32"):
        load_model(folder)


def test_a_tokenizer_with_ids_that_the_encoder_has_not(pretrained, place):
    folder = copied(pretrained, place)
    path = folder / "encoder" / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["works"] = 1_000
    path.write_text(json.dumps(values))
    seal(folder)
    with pytest.raises(ModelError, match="the tokenizer must have ids below 19"):
        load_model(folder)


def test_weights_so_large_that_there_are_no_scores(builtin, place):
    folder = copied(builtin, place)
    weights = load_file(folder / "model.safetensors")
    save_file({name: torch.full_like(weight, 3e38) for name, weight in weights.items()}, folder / "model.safetensors")
    seal(folder)
    with pytest.raises(ModelError, match="the model's weights give no scores to decode"):
        predict_segments(load_model(folder), [runs.DEV[0].tokens])
