"""Models by their name on the Hub. Only what would go over the network is replaced, by folders that stand for it."""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import filter_repo_objects

import spansieve
from spansieve.integrations import hub as hub_module
from spansieve.integrations.hub import is_hub_name
from spansieve.models.storage import ModelError
from spansieve.persistence.atomic import checksums, sealed
from tests.cli.conftest import terminal as terminal

TEXT = "we went to Paris yesterday"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The other end of the wire: repositories as folders, and a cache as `huggingface_hub` has it."""

    def __init__(self, home: Path) -> None:
        self.remote, self.cache = home / "remote", home / "cache"
        self.fetched: list[str] = []
        self.revisions: list[str | None] = []

    def hf_hub_download(self, name, file, *, revision=None, local_files_only=False):
        return str(Path(self.snapshot_download(name, revision=revision, allow_patterns=[file])) / file)

    def snapshot_download(self, name, *, revision=None, allow_patterns=None, local_files_only=False):
        assert not local_files_only
        self.revisions.append(revision)
        source = self.remote / name
        if not source.is_dir():
            raise LocalEntryNotFoundError(f"no repository {name}")
        place = self.cache / f"models--{name.replace('/', '--')}" / "snapshots" / COMMIT
        files = [path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()]
        for file in filter_repo_objects(files, allow_patterns=allow_patterns):
            self.fetched.append(file)
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / file, place / file)
        return str(place)

    def create_repo(self, name, *, private, exist_ok):
        assert exist_ok
        self.is_private = private
        (self.remote / name).mkdir(parents=True, exist_ok=True)

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, revision, commit_message):
        files = [path.relative_to(folder_path).as_posix() for path in Path(folder_path).rglob("*") if path.is_file()]
        for file in filter_repo_objects(files, allow_patterns=allow_patterns):
            target = self.remote / repo_id / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder_path) / file, target)
        return SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return connected(tmp_path, monkeypatch)


def connected(home: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub in this folder, in place of the one in the network."""
    made = Hub(home)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", made.hf_hub_download)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **_: made)
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: SimpleNamespace(head=lambda *_, **__: None))
    monkeypatch.setenv("HF_TOKEN", "hf_of_someone")
    return made


def test_there_and_back(hub, folder, predictor):
    address = spansieve.push_to_hub(folder, "someone/places", private=True)
    assert address == "https://hub/someone/places/commit/1"
    assert hub.is_private
    assert checksums(hub.remote / "someone/places") == checksums(folder)
    loaded = spansieve.load("someone/places")
    assert loaded.predict(TEXT) == predictor.predict(TEXT) != []


def test_only_the_files_of_a_model_travel(hub, folder, tmp_path):
    mine = shutil.copytree(folder, tmp_path / "mine")
    (mine / "notes.txt").write_text("to myself")
    (mine / "weights.bin").write_bytes(b"a pickle")
    spansieve.push_to_hub(mine, "someone/places")
    expected = {"README.md", "config.json", "model.safetensors"}
    assert set(checksums(hub.remote / "someone/places")) == expected
    (hub.remote / "someone/places" / "setup.py").write_text("raise SystemExit")
    (hub.remote / "someone/places" / "pytorch_model.bin").write_bytes(b"large")
    spansieve.load("someone/places")
    assert set(hub.fetched) == expected


def test_a_revision(hub, folder):
    spansieve.push_to_hub(folder, "someone/places")
    spansieve.load("someone/places", revision="v1")
    assert hub.revisions == ["v1", COMMIT]  # all files of one commit, though the branch may move
    with pytest.raises(ValueError, match="revision must be left out for a folder, got 'v1'"):
        spansieve.load(folder, revision="v1")


def test_a_folder_asks_the_network_for_nothing(folder, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked for something")

    for name in ("hf_hub_download", "snapshot_download", "HfApi"):
        monkeypatch.setattr(huggingface_hub, name, refuse)
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.chdir(folder.parent.parent)
    relative = f"{folder.parent.name}/{folder.name}"  # looks like org/name, and is a folder here
    for source in (folder, str(folder), relative, f"./{relative}"):
        assert spansieve.load(source).predict(TEXT)
    for nothing in (f"{folder.parent.name}/nothing", "./someone/places", "places", "/someone/places", Path("a/b")):
        with pytest.raises(ModelError, match="a model must be a folder"):
            spansieve.load(nothing)


@pytest.mark.parametrize("name", ["a/b", "org/name", "org-1/name_2.x"])
def test_what_is_a_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_hub_name(name)
    assert not is_hub_name(Path(name))
    Path(name.split("/")[0]).mkdir()
    assert not is_hub_name(name)


@pytest.mark.parametrize("name", ["a", "a/b/c", "../b", "./b", "/a/b", "a/..", "a//b", "a/b ", "", "~/b", "C:/b"])
def test_what_is_none(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not is_hub_name(name)


def test_what_is_not_there(hub):
    with pytest.raises(ModelError, match="someone/nothing is no folder here, and could not be had from the Hub"):
        spansieve.load("someone/nothing")
    assert issubclass(RepositoryNotFoundError, OSError)  # what the Hub itself would say is caught alike


def test_foreign_and_hostile_repositories(hub, folder):
    place = shutil.copytree(folder, hub.remote / "someone/places")
    about = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ModelError, match="someone/places holds no spansieve model"):
        spansieve.load("someone/places")
    about.pop("sha256")
    about["files"]["../../../outside"] = "0"
    (place / "config.json").write_text(json.dumps(sealed(about)))
    with pytest.raises(ModelError, match="must name files within its folder"):
        spansieve.load("someone/places")
    assert "model.safetensors" not in hub.fetched


def test_patterns_in_names_fetch_nothing_more(hub, folder):
    place = shutil.copytree(folder, hub.remote / "someone/places")
    (place / "everything.bin").write_bytes(b"large")
    about = json.loads((place / "config.json").read_text())
    about.pop("sha256")
    about["files"]["*"] = "0"
    (place / "config.json").write_text(json.dumps(sealed(about)))
    with pytest.raises(ModelError, match="is missing"):
        spansieve.load("someone/places")
    assert "everything.bin" not in hub.fetched


def test_what_is_not_put_there(hub, folder, tmp_path):
    with pytest.raises(ModelError, match="a model must be a folder"):
        spansieve.push_to_hub(tmp_path, "someone/places")
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"half")
    with pytest.raises(ModelError, match="is damaged"):
        spansieve.push_to_hub(damaged, "someone/places")
    with pytest.raises(ValueError, match="name must be org/name, as the Hub has it, got 'places'"):
        spansieve.push_to_hub(folder, "places")
    assert not hub.remote.exists()


# ---- As a command, and without a network -----------------------------------------------------------------------------


def test_the_command(hub, folder, terminal):
    answer = terminal("push", folder, "someone/places", "--private", "--message", "first")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("https://hub/someone/places/commit/1\n")
    assert hub.is_private
    assert checksums(hub.remote / "someone/places") == checksums(folder)
    assert "name must be org/name" in terminal.refused("push", folder, "places")
    assert "a model must be a folder" in terminal.refused("push", hub.remote, "someone/places")


def test_what_the_hub_refuses_is_one_line(hub, folder, terminal, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("403 Forbidden:\nyou may not write there")

    monkeypatch.setattr(hub, "create_repo", refuse)
    refused = terminal.refused("push", folder, "someone/places")
    assert "could not be put on the Hub as someone/places: 403 Forbidden: you may not write there" in refused


def test_without_a_token(folder, terminal, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    assert "needs a token that may write there: run `hf auth login`" in terminal.refused("push", folder, "a/b")


@pytest.mark.parametrize("listens", [False, True], ids=["refused", "silent"])
def test_offline_is_an_error_within_seconds(listens, folder, terminal, monkeypatch, tmp_path):
    """A port that nobody listens on, and one behind which nobody answers: by the Hub's own library, unchanged."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_someone")
    monkeypatch.setattr(hub_module, "SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        begin = time.monotonic()
        assert "could not be put on the Hub, which cannot be reached" in terminal.refused("push", folder, "a/b")
        assert "could not be had from the Hub" in terminal.refused("predict", "a/nothing", "Ada")
        assert time.monotonic() - begin < 15


def test_what_was_fetched_is_there_without_a_network(folder, predictor, monkeypatch, tmp_path):
    """By the Hub's own cache, as its library lays it out."""
    place = tmp_path / "models--someone--places"
    shutil.copytree(folder, place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    begin = time.monotonic()
    assert spansieve.load("someone/places").predict(TEXT) == predictor.predict(TEXT)
    assert time.monotonic() - begin < 15
