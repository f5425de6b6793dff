"""The experiment on hidden annotation, with work of no size."""

from __future__ import annotations

import random

from benchmarks import hidden_annotation
from spansieve.data.example import Example
from spansieve.segments import NamedSegment
from tests.benchmarks.small_corpus import FAST, FLAGS, SPLITS
from tests.benchmarks.small_corpus import files as files
from tests.benchmarks.terminal import terminal as terminal


def test_half_is_hidden_and_nothing_is_cut():
    chance = random.Random(0)
    wide = Example.of(["w"] * 40, [(0, 6, "A"), (9, 10, "B"), (11, 18, "A"), (20, 21, "B"), (39, 40, "B")])
    hidden = [hidden_annotation.half_hidden(wide, chance) for _ in range(200)]
    for example in hidden:
        lost = set(wide.segments) - set(example.segments)
        inside = [any(a <= s.start and s.end <= z for a, z in example.unknown) for s in wide.segments]
        assert lost == {s for s, is_inside in zip(wide.segments, inside) if is_inside}
        assert all(s in wide.segments for s in example.segments)
        known = [i for i in range(40) if not any(a <= i < z for a, z in example.unknown)]
        assert all(set(range(s.start, s.end)) <= set(known) for s in example.segments)
    assert 0.4 < sum(example.num_unknown for example in hidden) / (200 * 40) < 0.6
    assert isinstance(hidden[0].segments[0], NamedSegment)


def test_three_annotations_of_the_same_sentences(terminal, tmp_path, files):
    runs = hidden_annotation.run_partial(SPLITS, tmp_path / "r", heads=("crf",), settings=FAST)
    shown = {run.annotation: run.entities for run in runs}
    assert list(shown) == list(hidden_annotation.ANNOTATIONS)
    assert shown["all"] == 36 > shown["half, the rest unknown"] == shown["half, the rest as null"] > 0
    answer = terminal(
        "partial", *files, "--folder", tmp_path / "r", "--out", tmp_path, "--head", "crf", "--most", 12, *FLAGS
    )
    assert answer.code == 0, answer.err
    page = (tmp_path / "partial_cpu.md").read_text()
    assert all(f"| crf | {annotation} |" in page for annotation in hidden_annotation.ANNOTATIONS)
