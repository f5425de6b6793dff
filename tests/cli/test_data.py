"""`spansieve data` as a person types it."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from spansieve.cli.data import data, read_options

TRAIN = "Ada B-PER\nLovelace I-PER\ncame O\n\nYes O\n\n"
TEST = "Yes O\n\nNew B-LOC\nYork I-LOC\nCity I-LOC\n\n"


@pytest.fixture
def app():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(data)
    return app


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "test.conll").write_text(TEST)
    return tmp_path


def invoke(app, *arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


def test_labels_with_brackets_are_shown_as_they_are(app, corpus):
    (corpus / "[red]odd.conll").write_text("Ada B-[bold]X\n\n")
    result = invoke(app, corpus / "train.conll", corpus / "[red]odd.conll")
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "[bold]X │ 0 │ 1" in flat
    assert "[red]odd.conll has labels that train.conll has not: [bold]X" in flat


def test_tables_and_remarks(app, corpus):
    result = invoke(
        app, corpus / "train.conll", corpus / "test.conll", "--max-width", 2, "--json", corpus / "report.json"
    )
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "sentences │ 2 │ 2" in flat
    assert "entities │ 1 │ 1" in flat
    assert "LOC │ 0 │ 1" in flat
    assert "3 │ 0 (100.0 %) │ 1 (100.0 %)" in flat
    assert "1 sentences of test.conll are in train.conll too" in flat
    assert "test.conll has labels that train.conll has not: LOC" in flat
    assert "max_width 2 would lose in test.conll: LOC 1" in flat
    report = json.loads((corpus / "report.json").read_text())
    assert report["splits"]["train.conll"]["widths"] == {"2": 1}
    assert report["shared_sentences"] == [{"first": "train.conll", "second": "test.conll", "count": 1}]


def test_a_folder_of_files_is_read_as_splits(app, corpus):
    result = invoke(app, corpus)
    assert result.exit_code == 0, result.output
    assert "train.conll" in result.output
    assert "test.conll" in result.output


def test_what_a_reader_noted_is_shown(app, tmp_path):
    (tmp_path / "a.txt").write_text("left and right arm")
    (tmp_path / "a.ann").write_text("T1\tPART 0 4;15 18\tleft arm\n")
    result = invoke(app, tmp_path)
    assert "1 × discontinuous entities read from their first part to their last" in result.output


def test_options_reach_the_reader(app, corpus):
    result = invoke(app, corpus / "train.conll", "-o", "scheme=plain")
    assert "B-PER" in result.output
    result = invoke(app, corpus / "train.conll", "-o", "tags=3")
    assert "takes token_column, tag_column" in str(result.exception)


def test_options_are_numbers_truths_lists_or_text():
    pairs = ["tag-column=-1", "strict=true", "mentions=NAM,NOM", "layer=Topic"]
    assert read_options(pairs) == {"tag_column": -1, "strict": True, "mentions": ["NAM", "NOM"], "layer": "Topic"}
    assert read_options(None) == {}
    with pytest.raises(ValueError, match="option must be like tag_column=2, got 'strict'"):
        read_options(["strict"])


def test_many_widths_share_the_last_row(app, tmp_path):
    sentences = [" ".join(["w"] * width) for width in range(1, 20)]
    lines = [json.dumps({"tokens": s.split(), "entities": [[0, len(s.split()), "X"]]}) for s in sentences]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert "16–19 │ 4 (100.0 %)" in " ".join(invoke(app, tmp_path / "a.jsonl").output.split())


def test_an_empty_file_is_ordinary(app, tmp_path):
    (tmp_path / "a.conll").write_text("")
    assert invoke(app, tmp_path / "a.conll").exit_code == 0
