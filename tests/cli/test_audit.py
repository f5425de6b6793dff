"""`spansieve audit`, `train --start-from`, `rank --diverse` and `data --agreement` as a person types them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from spansieve.data.formats import read_examples, write_examples
from spansieve.training import run
from tests.prediction.test_preannotation import by_label_studio
from tests.training import runs

FAST = [part for name, value in runs.SMALL.items() for part in ("--set", f"{name}={value}")]
ONE_EPOCH = [*FAST, "--set", "training.epochs=1", "--set", "model.builtin.dropout=0.0", "--set=run.cpu=true"]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Data with one entity of the wrong label, and the models of an audit that are kept."""
    monkeypatch.setattr(run, "draw_curves", lambda history, path: None)  # which takes longer than such a run
    examples = [*runs.TRAIN, *runs.DEV]
    examples[4] = replace(examples[4], segments=tuple(s._replace(label="LOC") for s in examples[4].segments))
    write_examples(examples, tmp_path / "data.jsonl")
    return tmp_path, ["audit", tmp_path / "data.jsonl", "--folds", 2, "--runs", tmp_path / "runs", *ONE_EPOCH]


def test_every_form_has_the_findings_and_the_annotation_as_it_stands(terminal, planted):
    folder, command = planted
    answer = terminal(*command, "--output", folder / "doubts.csv", "--limit", 200)
    assert answer.code == 0, answer.err
    with (folder / "doubts.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 54
    assert f"{len(rows)} findings are in" in answer.out
    assert {row["doubt"] for row in rows} <= {"no entity", "wrong label", "wrong boundaries", "missing"}
    odds = [float(row["log_odds"]) for row in rows]
    assert odds == sorted(odds, reverse=True)
    for row in rows:
        assert row["sentence_text"][int(row["start"]) : int(row["end"])] == row["text"]
    (wrong,) = [row for row in rows if row["sentence"] == "5" and row["label"] == "LOC" and row["start"] == "0"]
    assert wrong["doubt"] != "missing"
    for form, name in (
        ("jsonl", "doubts.jsonl"),
        ("prodigy", "p.jsonl"),
        ("doccano", "d.jsonl"),
        ("label-studio", "l.json"),
    ):
        assert terminal(*command, "--output", folder / name, "--as", form, "--limit", 200).code == 0
    lines = [json.loads(line) for line in (folder / "doubts.jsonl").read_text().splitlines()]
    assert [line["score"] for line in lines] == sorted((line["score"] for line in lines), reverse=True)
    assert lines[0]["score"] == odds[0]
    assert all(row["text"] in lines[n]["doubt"] for n, row in enumerate(rows[:1]))
    tasks = json.loads((folder / "l.json").read_text())
    exported = [by_label_studio(task, number) for number, task in enumerate(tasks)]
    (folder / "export.json").write_text(json.dumps(exported))
    given = {e.tokens: e.segments for e in read_examples(folder / "data.jsonl")}
    for file, format in (("p.jsonl", "prodigy"), ("d.jsonl", "doccano"), ("export.json", "label-studio")):
        read = read_examples(folder / file, format)
        assert len(read) == 27
        assert all(given[e.tokens] == e.segments for e in read)
    assert all("instead" in task["data"]["doubt"] for task in tasks)
    likely = terminal(*command, "--output", folder / "likely.csv")
    assert f"{sum(value > 0 for value in odds)} findings are in" in likely.out


def test_too_few_sentences_are_one_line(terminal, tmp_path):
    write_examples(runs.TRAIN[:3], tmp_path / "few.jsonl")
    refused = terminal.refused("audit", tmp_path / "few.jsonl", "--folds", 5, "-o", tmp_path / "x.csv", *ONE_EPOCH)
    assert "between 2 and the 3 documents or different sentences of the data, got 5" in refused
    refused = terminal.refused("audit", tmp_path / "few.jsonl", "-o", tmp_path / "x.csv", "--set", "run.tracker=wandb")
    assert "run.cpu alone can be set for the models of an audit" in refused


def test_train_starts_from_a_model_with_its_settings(terminal, corpus, model, tmp_path):
    options = ["--set", "training.epochs=1", "--set", "training.batch_size=3", "--set=run.cpu=true"]
    files = ["train", corpus / "train.conll", corpus / "dev.conll"]
    answer = terminal(*files, "--output", tmp_path / "next", "--start-from", model, *options)
    assert answer.code == 0, answer.err
    assert "started from: encoder builtin of run-" in answer.out
    assert "started from: head for LOC, PER" in answer.out
    was, now = (
        json.loads((path / "config.json").read_text())["model"] for path in (model, tmp_path / "next" / "model")
    )
    assert now == was
    refused = terminal.refused(
        *files, "--output", tmp_path / "other", "--start-from", model, "--config", "demo", *options
    )
    assert "must be a model with the encoder of the new one" in refused
    assert "a model must be a folder" in terminal.refused(
        *files, "-o", tmp_path / "o", "--start-from", tmp_path, *options
    )


def test_near_duplicates_are_ranked_late(terminal, model, tmp_path):
    texts = ["Chen Rome Ada York Stone lives .", "Chen Rome Ada York Stone works .", "in in in", "Ada lives in Paris ."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    ranked = [
        [json.loads(line)["text"] for line in terminal("rank", model, tmp_path / "texts.txt", *more).out.splitlines()]
        for more in ((), ("--diverse",), ("--diverse", "--limit", 2))
    ]
    plain, diverse, limited = ranked
    near = [text for text in plain if text in texts[:2]]
    assert sorted(diverse) == sorted(texts)
    assert diverse[-1] == near[1]
    assert [text for text in diverse if text != near[1]] == [text for text in plain if text != near[1]]
    assert limited == diverse[:2]


def test_annotators_of_two_files(terminal, tmp_path):
    other = [replace(runs.DEV[0], segments=runs.DEV[0].segments[:1]), *runs.DEV[1:]]
    for name, examples in (("ada", runs.DEV), ("bob", other)):
        write_examples(examples, tmp_path / f"{name}.jsonl")
    files = [tmp_path / "ada.jsonl", tmp_path / "bob.jsonl"]
    answer = terminal("data", *files, "--agreement", "--json", tmp_path / "report.json")
    assert answer.code == 0, answer.err
    assert "1 texts are not annotated alike" in answer.out
    assert "ada.jsonl: Paris LOC; bob.jsonl: none" in answer.out
    (pair,) = json.loads((tmp_path / "report.json").read_text())["pairs"]
    assert pair["f1"] == pytest.approx(2 * 17 / 35)
    assert "agreement needs at least two annotators" in terminal.refused("data", files[0], "--agreement")


def annotation(who, *labels):
    return {"completed_by": who, "result": [{"value": {"start": 0, "end": 3, "labels": [label]}} for label in labels]}


def test_annotators_within_an_export_and_a_choice_of_whom_to_keep(terminal, tmp_path):
    ada, bob = {"email": "ada@x.org", "id": 1}, {"email": "bob@x.org", "id": 2}
    tasks = [
        {"id": 1, "data": {"text": "Ada lives"}, "annotations": [annotation(ada, "PER"), annotation(bob, "LOC")]},
        {"id": 2, "data": {"text": "Bob lives"}, "annotations": [annotation(bob, "PER")]},
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    spans = [
        {
            "text": t["data"]["text"],
            "answer": "accept",
            "_annotator_id": a["completed_by"]["email"],
            "spans": [{"start": 0, "end": 3, "label": r["value"]["labels"][0]} for r in a["result"]],
        }
        for t in tasks
        for a in t["annotations"]
    ]
    (tmp_path / "export.jsonl").write_text("".join(json.dumps(one) + "\n" for one in spans))
    for number, file in enumerate(("export.json", "export.jsonl")):
        answer = terminal("data", tmp_path / file, "--agreement")
        assert "ada@x.org: Ada PER; bob@x.org: Ada LOC" in answer.out, answer
        kept = []
        for wanted in ("bob@x.org", "ada@x.org", "ada@x.org,bob@x.org"):
            out = tmp_path / f"{number}-{len(kept)}.jsonl"
            assert terminal("convert", tmp_path / file, out, "--option", f"annotator={wanted}").code == 0
            kept.append([e.segments[0].label for e in read_examples(out)])
        assert kept == [["LOC", "PER"], ["PER"], ["PER", "PER"]]
