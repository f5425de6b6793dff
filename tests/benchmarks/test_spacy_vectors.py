"""The comparison with spaCy, with work of no size."""

from __future__ import annotations

import csv

import pytest

from spansieve.nn.word_vectors import WordVectors
from tests.benchmarks.small_corpus import FLAGS, SPLITS
from tests.benchmarks.small_corpus import files as files
from tests.benchmarks.terminal import terminal as terminal

pytest.importorskip("spacy")


@pytest.mark.slow
def test_both_are_trained_once_and_timed(terminal, files, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.spacy_vectors.LARGE", 100)
    words = sorted({token.lower() for example in SPLITS.train for token in example.tokens})
    (tmp_path / "words.txt").write_text("".join(f"{word} {i} 1\n" for i, word in enumerate(words)), encoding="utf-8")
    command = ["spacy-vectors", *files, "--vectors", tmp_path / "words.txt", "--folder", tmp_path / "r"]
    command += ["--optimize", "efficiency", "--set-spacy", "training.max_steps=20", "--rounds", "1"]
    command += ["--beside", f"again={tmp_path / 'r' / 'none' / 'model'}", "--out", tmp_path, *FLAGS]
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    page = (tmp_path / "spacy_vectors_cpu.md").read_text()
    taggers = ["spansieve", "spansieve, vectors", "spaCy, efficiency, vectors"]
    large = "spansieve, vectors, a table of 100 rows"
    for name, expected in (("", taggers), ("_speed", 2 * [*taggers, "again"]), ("_start", [*taggers, large])):
        with (tmp_path / f"spacy_vectors_cpu{name}.csv").open() as file:
            assert [row["tagger"] for row in csv.DictReader(file)] == expected
    assert f"| {large} |" in page
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/**/trained.json")}
    assert len(made) == 3
    assert terminal(*command).code == 0
    assert made == {path: path.stat().st_mtime_ns for path in made}


def test_a_table_grows_without_a_change_to_its_words(tmp_path):
    from benchmarks.spacy_vectors import with_table
    from spansieve.models.storage import load_model
    from tests.training.runs import run

    (tmp_path / "words.txt").write_text("ada 1 2\nrome 3 -4\n", encoding="utf-8")
    run(tmp_path / "r", model__builtin__vectors=str(tmp_path / "words.txt"), training__epochs=1)
    with_table(tmp_path / "r" / "model", tmp_path / "large", 1000)
    small, large = (load_model(tmp_path / name).encoder.word_vectors for name in ("r/model", "large"))
    assert isinstance(large, WordVectors)
    assert (len(small), len(large)) == (2, 1000)
    assert (small(["Ada", "Rome", "Bob"]) == large(["Ada", "Rome", "Bob"])).all()
