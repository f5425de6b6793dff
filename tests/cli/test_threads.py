"""How many threads a command computes with, and how they wait for one another."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
import torch

from spansieve import cli
from spansieve.cli import train
from spansieve.config import preset, with_settings
from spansieve.prediction.onnx.session import openmp_threads, usable_cores
from tests.single_thread import one_thread as one_thread

PROGRAM = """
import sys
from spansieve.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
import os, torch
print(torch.get_num_threads(), *(os.environ.get(name) for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")))
"""


def threads_of(model, *options: str, **variables: str) -> str:
    """The threads of torch after a prediction in a process of its own, and what its children inherit."""
    own = {*cli.THREAD_VARIABLES, *cli.WAIT_VARIABLES}
    kept = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-c", PROGRAM, "predict", str(model), "Ada lives in Rome.", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=kept | variables)
    return done.stdout.splitlines()[-1]


def test_threads_are_bounded_and_wait_passively(model):
    assert threads_of(model, "--threads", "1", OMP_NUM_THREADS="2") == "1 1 PASSIVE"


@pytest.mark.parametrize("variable", cli.WAIT_VARIABLES)
def test_how_threads_wait_is_left_to_the_user(monkeypatch, variable):
    for name in cli.WAIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    before = dict(os.environ)
    cli.wait_passively()
    assert dict(os.environ) == before


def test_every_command_that_computes_takes_threads(terminal, one_thread):
    for name in cli.COMMANDS:
        assert ("--threads" in terminal(name, "--help").out) is (name not in cli.PLAIN_COMMANDS), name
    plain = [inspect.signature(cli.command_named(name)).parameters for name in cli.PLAIN_COMMANDS]
    assert not any({"device", "cpu"} & parameters.keys() for parameters in plain)


def test_threads_of_a_process_that_has_torch_already(terminal, model, one_thread):
    assert terminal("predict", model, "Ada", "--threads", "2").code == 0
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert terminal("predict", model, "Ada", "--threads", "0").code == 2


def test_the_built_in_encoder_is_trained_with_one_thread_unless_the_user_says_how_many(monkeypatch):
    bounds = []
    monkeypatch.setattr(train, "bound_threads", bounds.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    train.use_threads_that_pay(preset("builtin"))
    monkeypatch.delenv("OMP_NUM_THREADS")
    train.use_threads_that_pay(with_settings(preset("pretrained"), {"model.encoder.name": "bert-base-cased"}))
    assert bounds == []
    train.use_threads_that_pay(preset("builtin"))
    assert bounds == [1]


def test_training_goes_by_it(terminal, corpus, tmp_path, monkeypatch, one_thread):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(2)
    data = [corpus / "train.conll", corpus / "dev.conll", "--epochs", "1", "--set=run.cpu=true"]
    assert terminal("train", *data, "--output", tmp_path / "one").code == 0
    assert torch.get_num_threads() == 1
    assert terminal("train", *data, "--output", tmp_path / "two", "--threads", "2").code == 0
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


@pytest.mark.parametrize(("value", "threads"), [("3", 3), (" 3,2 ", 3), ("0", 1), ("", None), ("many", None)])
def test_an_export_takes_the_threads_that_torch_would(monkeypatch, value, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert openmp_threads() == (threads or usable_cores())
