"""A model of nested entities: what it learns from, its loss, and what it finds."""

from __future__ import annotations

import math

import pytest
import torch

from spansieve import Entity, Segment, load
from spansieve.cli.outputs import highlighted
from spansieve.data.example import Example, ReaderWarnings
from spansieve.data.formats import read_examples, write_examples
from spansieve.evaluation.scores import evaluate
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import predict_segments
from spansieve.prediction.model_evaluation import assess
from spansieve.prediction.pipeline import Pipeline
from spansieve.segments import NamedSegment
from spansieve.training.run import train
from tests.cli.conftest import terminal as terminal
from tests.nn.heads import head_of, keep_half, oracle_of, vectors_of
from tests.training.runs import config

NESTED_HEADS = ["nested", "nested-filter-only"]


def club(place: str, word: str, verb: str) -> Example:
    tokens = f"{word} {place} {verb} .".split()
    return Example.of(tokens, [(0, 2, "ORG"), (1, 2, "LOC")])


PLACES = ("Bern", "Ulm", "Graz", "Köln")
TRAIN = [club(place, word, verb) for place in PLACES for word in ("FC", "Uni") for verb in ("won", "lost")]
TRAIN += 3 * [Example.of(f"In {place} rain .", [(1, 2, "LOC")]) for place in PLACES]
DEV = [club(place, word, "played") for place in PLACES for word in ("FC", "Uni")]
DEV += [Example.of(f"In {place} snow .", [(1, 2, "LOC")]) for place in PLACES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nested")
    train(config(model__head="nested", training__epochs=8), TRAIN, DEV, folder, use_cpu=True)
    return folder


def test_it_learns_to_nest(folder):
    tagger = load_model(folder / "model")
    found = predict_segments(tagger, [example.tokens for example in DEV], with_probabilities=True)
    scores = evaluate([example.segments for example in DEV], [one.segments for one in found])
    assert scores.f1 == 1.0
    assert found[0].segments == [NamedSegment(0, 2, "ORG"), NamedSegment(1, 2, "LOC")]  # a container comes first
    assert [len(one.probabilities) for one in found] == [len(one.segments) for one in found]
    assert all(0.5 < p <= 1 for one in found for p in one.probabilities)


@pytest.mark.parametrize("head", NESTED_HEADS)
def test_what_it_learns_from(head):
    example = Example.of("a b c d e", [(0, 4, "X"), (0, 2, "Y"), (1, 2, "X"), (1, 3, "Y"), (0, 4, "Y"), (3, 5, "X")])
    tagger = Tagger.for_data(config(model__head=head, model__max_width=3).model, [example])
    kept, crossing, wide = tagger.training_segments(example)
    # (0, 4, Y) has the span of (0, 4, X), (3, 5, X) and then (1, 3, Y) cross wider ones or ones that start first.
    assert [tuple(s) for s in kept] == [(0, 2, "Y"), (1, 2, "X")]
    assert (crossing, wide) == (3, 1)
    flat = Tagger.for_data(config(model__head="fsemicrf", model__max_width=4).model, [example])
    assert [tuple(s) for s in flat.training_segments(example)[0]] == [(0, 4, "X")]


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_with_nested_gold_is_log_z_less_its_score(seed):
    lengths = [5, 3]
    gold = [
        [Segment(0, 3, 1), Segment(0, 2, 2), Segment(1, 2, 1), Segment(4, 5, 2)],
        [Segment(0, 2, 1), Segment(1, 2, 2)],
    ]
    head, vectors = head_of("nested", seed=seed), vectors_of(lengths, seed)
    keep_half(head, vectors, lengths)
    losses = head.losses(vectors, torch.tensor(lengths), head.gold(gold, lengths))
    listed = oracle_of(head, vectors, lengths, gold)
    for b, golden in enumerate(gold):
        (score,) = [s for s, one in listed.possible(b) if set(one.structure) == set(golden)]
        expected = listed.log_partition[b] - score
        assert math.isclose(float(losses["segmentation"][b].detach()), expected, rel_tol=1e-4, abs_tol=2e-4)


@pytest.mark.parametrize("head", NESTED_HEADS)
def test_the_filter_learns_every_nested_segment(head):
    gold = [[Segment(0, 3, 1), Segment(0, 2, 2), Segment(1, 2, 1)]]
    labels = head_of(head).gold(gold, [4]).labels()
    assert {tuple(place) for place in labels.clamp(min=0).nonzero().tolist()} == {(0, 0, 2), (0, 0, 1), (0, 1, 0)}


# ---- Out into the world ----------------------------------------------------------------------------------------------

TEXT = "FC Ulm won .\nIn Bern rain ."


def test_entities_know_how_deep_they_lie(folder):
    predictor = load(folder / "model")
    expected = [("FC Ulm", "ORG", 0), ("Ulm", "LOC", 1), ("Bern", "LOC", 0)]
    assert [(e.text, e.label, e.depth) for e in predictor.predict(TEXT)] == expected
    with Pipeline(load_model(folder / "model")) as pipeline:
        ((_, streamed),) = pipeline.stream([TEXT])
    assert [(e.text, e.label, e.depth) for e in streamed] == expected
    assert assess(predictor, DEV).scores.f1 == 1.0


def test_probabilities_are_those_of_the_distribution(folder):
    """An inner entity has its own, which that of its container does not bound."""
    tagger = load_model(folder / "model")
    with torch.no_grad():  # the k best come by gradients, which inference mode has none of
        distribution = tagger.distribution(tagger.batch([["FC", "Ulm", "won", "."]]))
        found = [list(tagger.head.entities(mode)) for mode in distribution.mode]
        ((_, probabilities),) = predict_segments(tagger, [["FC", "Ulm", "won", "."]], with_probabilities=True)
        listed = [
            (one, math.exp(score - distribution.log_partition.item())) for one, score in distribution.top_k(50)[0]
        ]
    for segment, share in zip(found[0], probabilities, strict=True):
        assert math.isclose(share, sum(p for one, p in listed if segment in one), abs_tol=1e-3)


def test_shown_on_a_terminal():
    nested = [Entity(0, 6, "ORG", "FC Ulm", 0.9, 0), Entity(3, 6, "LOC", "Ulm", 0.8, 1)]
    entities = [*nested, Entity(10, 14, "LOC", "Bern")]
    shown = highlighted("FC Ulm in Bern.", entities, ("LOC", "ORG"))
    assert shown.plain == "FC Ulm [LOC 0.80] [ORG 0.90] in Bern [LOC]."


def test_conll_takes_the_outermost_and_reports_what_it_leaves_out(folder, terminal):
    answer = terminal("predict", folder / "model", TEXT, "--as", "conll")
    assert answer.out == "FC B-ORG\nUlm I-ORG\nwon O\n. O\n\nIn O\nBern B-LOC\nrain O\n. O\n\n"
    assert "1 entities within others left out, since tags are flat" in answer.err


@pytest.mark.parametrize("name", ["jsonl", "jsonl-text", "brat", "doccano", "prodigy", "label-studio"])
def test_formats_that_can_nest_lose_nothing(name, tmp_path):
    notes = ReaderWarnings()
    write_examples(DEV, tmp_path / "out", name, warnings=notes)
    read = read_examples(tmp_path / "out", name)
    segments = [(example.tokens[s.start : s.end], s.label) for example in read for s in example.segments]
    assert segments == [(example.tokens[s.start : s.end], s.label) for example in DEV for s in example.segments]


def test_formats_that_cannot_say_so(tmp_path):
    notes = ReaderWarnings()
    write_examples(DEV, tmp_path / "out.conll", "conll", warnings=notes)
    assert notes.counts == {"overlapping entities dropped, since tags are flat": 8}  # one of each club
