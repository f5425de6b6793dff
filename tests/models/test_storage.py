"""A model on disk: whole, without a network, without code."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spansieve.config import BUILTIN
from spansieve.models.storage import MODEL, encoder_name, load_model, save_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.persistence.atomic import checksums, sealed
from spansieve.persistence.manifest import ModelError
from tests.damage import DAMAGES
from tests.training import runs
from tests.training.encoders import tiny_encoder

SENTENCES = [example.tokens for example in runs.DEV]


@pytest.fixture(scope="module")
def builtin(tmp_path_factory):
    torch.manual_seed(0)
    tagger = Tagger.for_data(runs.config().model, runs.TRAIN)
    folder = tmp_path_factory.mktemp("builtin") / "model"
    save_model(tagger, folder, "a card")
    return tagger, folder


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    encoder = tiny_encoder(folder / "encoder")
    torch.manual_seed(0)
    settings = {"model__encoder__name": str(encoder), "model__encoder__casing": True, "model__encoder__max_subwords": 6}
    tagger = Tagger.for_data(runs.config(**settings).model, runs.TRAIN)
    save_model(tagger, folder / "model")
    shutil.rmtree(encoder)  # the model's folder holds everything
    return tagger, folder / "model"


@pytest.fixture
def offline(monkeypatch):
    """Whoever opens a connection fails."""

    def refuse(*_, **__):
        raise AssertionError("the network was asked for something")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def same(one: Tagger, other: Tagger) -> bool:
    found = [predict_segments(tagger, SENTENCES, with_probabilities=True) for tagger in (one, other)]
    return found[0] == found[1]


@pytest.mark.parametrize("kind", ["builtin", "pretrained"])
def test_a_model_comes_back_as_it_was(kind, request, offline):
    tagger, folder = request.getfixturevalue(kind)
    loaded = load_model(folder)
    assert not loaded.training
    assert tuple(loaded.labels) == ("LOC", "PER")
    assert any(one.segments for one in predict_segments(tagger, SENTENCES))
    assert same(tagger, loaded)


def test_what_is_in_the_folder(builtin, pretrained):
    assert sorted(path.name for path in builtin[1].iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (builtin[1] / "README.md").read_text() == "a card"
    names = {path.relative_to(pretrained[1]).as_posix() for path in pretrained[1].rglob("*")}
    assert {"model.safetensors", "encoder/tokenizer.json", "encoder/config.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl", ".py"))]


def test_a_loaded_model_can_be_saved_again(pretrained, tmp_path):
    loaded = load_model(pretrained[1])
    save_model(loaded, tmp_path / "again")
    assert same(loaded, load_model(tmp_path / "again"))
    names = ("model.safetensors", "encoder/config.json", "encoder/tokenizer.json")
    again, before = checksums(tmp_path / "again"), checksums(pretrained[1])
    assert {name: again[name] for name in names} == {name: before[name] for name in names}


def test_other_weights_than_the_models_own(builtin, tmp_path):
    tagger, _ = builtin
    zeros = {name: torch.zeros_like(weight) for name, weight in tagger.state_dict().items()}
    save_model(tagger, tmp_path / "model", weights=zeros)
    assert not any(weight.any() for weight in load_model(tmp_path / "model").state_dict().values())


# ---- What is not loaded ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "encoder/tokenizer.json", "encoder/config.json"])
def test_a_damaged_model_is_refused(pretrained, name, damage, tmp_path):
    folder = shutil.copytree(pretrained[1], tmp_path / "model")
    damage(folder / name)
    with pytest.raises(ModelError, match=r"damaged|missing|must be a folder with a config\.json"):
        load_model(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("\x00\x01", "is damaged"),
        ("[]", "must hold a JSON object, got list"),
        ("null", "must hold a JSON object, got NoneType"),
        ('{"model_type": "bert"}', "this folder holds no spansieve model"),
        ('{"format": "spansieve model"}', "must be of version 1, got None"),
        ('{"format": "spansieve model", "version": 2}', "must be of version 1, got 2: use a newer spansieve"),
        ('{"format": "spansieve model", "version": 1}', "was changed after it was written"),
        (json.dumps(sealed({"format": "spansieve model", "version": 1})), "must name the checksum"),
    ],
)
def test_a_foreign_description_is_refused(text, message, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path)


def test_a_foreign_folder_is_refused(tmp_path):
    with pytest.raises(ModelError, match="this folder holds no spansieve model"):
        load_model(tiny_encoder(tmp_path / "bert"))
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "bert" / "config.json", Path(".")):
        with pytest.raises(ModelError, match=r"a model must be a folder with a config\.json"):
            load_model(place)


def changed(source: Path, target: Path, **values) -> Path:
    """A copy whose description is well sealed, and says something else."""
    folder = shutil.copytree(source, target)
    about = json.loads((folder / "config.json").read_text())
    about.pop("sha256")
    files = {name: sum_ for name, sum_ in checksums(folder).items() if name in about["files"]}
    (folder / "config.json").write_text(json.dumps(sealed(about | {"files": files} | values)))
    return folder


def test_a_setting_that_is_not_known_is_named_with_the_folder(builtin, tmp_path):
    """As models of 0.1.0 have some."""
    model = json.loads((builtin[1] / "config.json").read_text())["model"]
    folder = changed(builtin[1], tmp_path / "model", model=model | {"lexicon_weight": 0.0})
    with pytest.raises(ModelError, match="unknown setting 'lexicon_weight'") as refused:
        load_model(folder)
    assert str(folder) in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"model": {"head": "abacus"}},
        {"model": {"unheard_of": 1}},
        {"model": []},
        {"model": {}},  # max_width is missing
        {"labels": ["LOC", "LOC"]},
        {"labels": 3},
        {"labels": ["LOC", "PER", "ORG"]},  # more than there are weights for
    ],
)
def test_a_description_that_does_not_fit_is_refused(builtin, values, tmp_path):
    with pytest.raises(ModelError, match=r"cannot build|in the shape"):
        load_model(changed(builtin[1], tmp_path / "model", **values))


def test_a_device_that_is_not_there_is_told(builtin):
    for device in ("abacus", "cuda:99"):
        with pytest.raises(ValueError, match=f"device must be cpu or one that can be used here, got '{device}'"):
            load_model(builtin[1], device)


# ---- What is not run -------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return Path.touch, (self.fuse,)

    def __init__(self, fuse: Path) -> None:
        self.fuse = fuse


def test_code_in_the_folder_is_not_run(pretrained, tmp_path, offline):
    folder, fuse = shutil.copytree(pretrained[1], tmp_path / "mined"), tmp_path / "it-ran"
    code = f"import pathlib\npathlib.Path({str(fuse)!r}).touch()\nclass Evil: pass\n"
    for place in (folder, folder / "encoder"):
        (place / "evil.py").write_text(code)
        for name in ("pytorch_model.bin", "model.pt", "training_args.bin", "tokenizer.pkl"):
            (place / name).write_bytes(pickle.dumps(Bomb(fuse)))
    names = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / "encoder" / name
        about = json.loads(path.read_text())
        path.write_text(json.dumps(about | {"auto_map": names, "trust_remote_code": True}))
    model = json.loads((folder / "config.json").read_text())["model"]
    loaded = load_model(changed(folder, tmp_path / "model", model=model))
    assert same(pretrained[0], loaded)
    assert not fuse.exists()


# ---- After a kill ----------------------------------------------------------------------------------------------------


def test_a_model_beside_its_place_is_found_and_put_back(builtin, tmp_path):
    for left in (".model.old", ".model.new"):
        home = tmp_path / left.strip(".")
        shutil.copytree(builtin[1], home / left)
        load_model(home / "model")  # as it stands
        MODEL.recover(home / "model")
        load_model(home / "model")
        assert [path.name for path in home.iterdir()] == ["model"]


def test_a_half_written_model_is_not_put_in_the_place_of_a_whole_one(builtin, tmp_path):
    shutil.copytree(builtin[1], tmp_path / ".model.old")
    (tmp_path / ".model.new").mkdir()
    (tmp_path / ".model.new" / "model.safetensors").write_bytes(b"half")
    MODEL.recover(tmp_path / "model")
    load_model(tmp_path / "model")


def test_names_of_encoders(tmp_path):
    def named(name: str) -> str:
        return encoder_name(runs.config(model__encoder__name=name).model)

    (tmp_path / BUILTIN).mkdir()
    assert named(BUILTIN) == BUILTIN
    assert named("bert-base-cased") == "bert-base-cased"
    assert named("someone/their-encoder") == "someone/their-encoder"
    assert named(str(tmp_path)) == tmp_path.name
    assert named(str(tmp_path / BUILTIN)) == "builtin-encoder"  # not to be taken for ours


def test_loading_draws_no_weights_and_needs_no_compiler(builtin):
    """To draw weights on the meta device torch imports its compiler, which takes longer than all else."""
    program = (
        "import sys, torch, spansieve\n"
        "state = torch.get_rng_state()\n"
        "spansieve.load(sys.argv[1]).predict('Ada lives in Rome.')\n"
        "assert torch.equal(state, torch.get_rng_state())\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(builtin[1])], check=True, timeout=120)
