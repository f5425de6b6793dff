"""The Python on the pages about prediction runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spansieve.models.storage import save_model

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["probabilities.md", "long-documents.md", "spacy.md"])
def test_what_a_page_shows_runs(name, predictor, tmp_path, monkeypatch, capsys):
    import spansieve.integrations.spacy  # noqa: F401  # where the package is installed, its entry point does this

    save_model(predictor.tagger, tmp_path / "runs" / "demo" / "model")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (PAGES / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    assert name != "spacy.md" or (tmp_path / "pipeline").is_dir()
