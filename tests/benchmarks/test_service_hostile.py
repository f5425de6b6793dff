"""The service beside those who mean it harm, in small: a real service for a few seconds. No good request fails."""

from __future__ import annotations

import csv
import json

from benchmarks.service_hostile import Party, largest_requests, worst_constraints
from spansieve.models.storage import save_model
from spansieve.serving.limits import Limits
from tests.benchmarks.terminal import terminal as terminal
from tests.serving.tiny import trained


def test_no_good_request_fails(terminal, tmp_path):
    save_model(trained().tagger, tmp_path / "model")
    options = ["--clients", "4", "--slow-clients", "300", "--seconds", "4", "--threads", "1", "--out", tmp_path]
    answer = terminal("service-hostile", tmp_path / "model", *options)
    assert answer.code == 0, answer.err
    with (tmp_path / "service_hostile_cpu.csv").open() as file:
        good, probes, large, constraints, slow = csv.DictReader(file)
    for row in (good, probes):
        assert row["answers"].startswith("200: ")
        assert ", " not in row["answers"]  # of one kind
    assert {part.partition(":")[0] for part in large["answers"].split(", ")} <= {"200", "504", "none"}
    assert "200: " in constraints["answers"]
    assert "401: " in slow["answers"]
    assert "Made by `python -m benchmarks service-hostile" in (tmp_path / "service_hostile_cpu.md").read_text()


def test_what_is_sent_is_the_most_that_is_taken():
    limits = Limits()
    bodies = [*largest_requests(), *worst_constraints({"labels": ["LOC", "PER"]})]
    assert all(len(body) <= limits.body_bytes for body in bodies)
    texts = [json.loads(body)["texts"] for body in largest_requests()]
    assert max(len(text) for request in texts for text in request) == limits.text_characters
    assert sum(map(len, texts[0])) > 0.7 * limits.body_bytes


def test_a_party_has_its_waits_and_answers():
    party = Party("probes", waits=[0.3, 0.1, 0.2])
    party.answers["200"] += 3
    assert party.row() == {"who": "probes", "answers": "200: 3", "p50 ms": "200", "p99 ms": "300", "max ms": "300"}
    assert Party("none").row()["answers"] == "none"
