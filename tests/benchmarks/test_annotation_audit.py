"""The measurement of an audit, with work of no size."""

from __future__ import annotations

import pytest

from benchmarks import annotation_audit
from benchmarks.annotation_audit import Pair, paired, ranking, token_probabilities
from spansieve.data.example import Example
from spansieve.data.formats import write_examples
from spansieve.models.storage import load_model
from spansieve.training import run
from tests.benchmarks.small_corpus import FLAGS
from tests.benchmarks.terminal import terminal as terminal
from tests.training import runs


def test_what_is_wrong_and_what_is_an_error():
    pair = Pair(
        Example.of("a b c d e f", [(0, 1, "X"), (1, 3, "X"), (3, 4, "Y")]),
        Example.of("a b c d e f", [(0, 1, "X"), (1, 2, "X"), (3, 4, "Z"), (4, 6, "X")]),
    )
    assert [tuple(s) for s in pair.errors] == [(1, 3, "X"), (3, 4, "Y"), (4, 6, "X")]
    wrong = {s for s in [*pair.annotated.segments, *pair.corrected.segments] if pair.is_wrong(s)}
    assert wrong >= {(1, 3, "X"), (3, 4, "Y"), (4, 6, "X")}
    assert not pair.is_wrong(pair.annotated.segments[0])


def test_sentences_are_paired_in_order():
    annotated, corrected = (
        [Example.of(text) for text in texts] for texts in (["a", "b c", "d", "a"], ["a", "b", "c", "d", "a"])
    )
    assert sorted(paired(annotated, corrected)) == [0, 2, 3]


def test_average_precision_counts_what_was_not_found():
    made = ranking("x", [(3.0, True), (2.0, False), (1.0, True)], errors=4)
    assert made.average_precision == pytest.approx((1 + 2 / 3) / 4)


def test_the_command(terminal, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)  # which takes longer than such a run
    wrong = [Example.of(e.tokens, e.segments[:1]) if i % 5 == 0 else e for i, e in enumerate(runs.TRAIN)]
    write_examples(wrong, tmp_path / "published.jsonl")
    write_examples(runs.TRAIN, tmp_path / "corrected.jsonl")
    skip = ["--set", "model.skip=true", "--set", "model.global_loss=unfiltered"]
    files = [tmp_path / "published.jsonl", "--corrected", tmp_path / "corrected.jsonl"]
    answer = terminal("audit", *files, "--folder", tmp_path / "runs", "--folds", 2, "--out", tmp_path, *FLAGS, *skip)
    assert answer.code == 0, answer.err
    (page,) = tmp_path.glob("audit_*_builtin_cpu.md")
    text = page.read_text()
    assert "18 sentences are annotated as they were published, 18 of them" in text
    assert "4 places are wrong" in text
    assert all(f"| {name} |" in text for name in ("segments, by exact log-odds", "tokens, by their probability"))
    tagger = load_model(tmp_path / "runs" / "fold-1" / "model")
    (tokens,) = token_probabilities(tagger, [runs.TRAIN[0].tokens])
    assert len(tokens) == len(runs.TRAIN[0])
    assert all(sum(one.values()) == pytest.approx(1, abs=1e-4) and min(one.values()) > -1e-4 for one in tokens)
    assert annotation_audit.labels_of(runs.TRAIN[0])[0] == "PER"
