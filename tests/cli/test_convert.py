"""`spansieve convert` as a person types it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from spansieve.cli.data import convert
from spansieve.data.example import Example
from spansieve.data.formats import read_examples

NESTED = {"tokens": ["Bank", "of", "China"], "entities": [[0, 3, "ORG"], [2, 3, "LOC"]]}


@pytest.fixture
def app():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(convert)
    return app


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(NESTED) + "\n")
    return path


def invoke(app, *arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


def test_what_is_lost_is_told(app, source, tmp_path):
    result = invoke(app, source, tmp_path / "new" / "out.conll", "--scheme", "BILOU")
    assert result.exit_code == 0, result.output
    assert "1 sentences with 2 entities, jsonl to conll" in result.output
    assert "1 × overlapping entities dropped, since tags are flat (sentence 1)" in result.output
    assert (tmp_path / "new" / "out.conll").read_text() == "Bank\tB-ORG\nof\tI-ORG\nChina\tL-ORG\n\n"


def test_formats_can_be_given(app, source, tmp_path):
    result = invoke(app, source, tmp_path / "out", "--from", "jsonl", "--to", "brat")
    assert "jsonl to brat" in result.output
    assert read_examples(tmp_path / "out")[0].segments == ((0, 3, "ORG"), (2, 3, "LOC"))


def test_flat_on_request(app, source, tmp_path):
    result = invoke(app, source, tmp_path / "out.jsonl", "--flat")
    assert "1 × overlapping entities dropped by --flat" in result.output
    assert read_examples(tmp_path / "out.jsonl") == [Example.of("Bank of China", [(0, 3, "ORG")])]


def test_options_reach_the_reader(app, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "Ada came. Bob left."}) + "\n")
    invoke(app, tmp_path / "in.jsonl", tmp_path / "out.conll", "-o", "split_sentences=false")
    assert len(read_examples(tmp_path / "out.conll")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in.jsonl", "in.jsonl"], "OUT must not exist yet, got .*; give --force"),
        (["none.jsonl", "out.conll"], "no file or folder"),
        (["in.jsonl", "out.unheard"], "the name of a file to write must end in"),
        (["in.jsonl", "out.x", "--to", "ace"], "format ace can only be read"),
        (["in.jsonl", "out.jsonl", "--scheme", "BIO"], "format jsonl takes no options, got 'scheme'"),
    ],
)
def test_what_cannot_be_done_is_told(app, source, tmp_path, arguments, message):
    result = invoke(app, *(tmp_path / a if "." in a else a for a in arguments))
    assert result.exit_code != 0
    with pytest.raises((ValueError, OSError), match=message):
        raise result.exception


def test_force_overwrites(app, source):
    assert invoke(app, source, source, "--force").exit_code == 0
    assert len(read_examples(source)[0].segments) == 2
