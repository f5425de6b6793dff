"""What the pages say in figures and names is what stands in results/ and in the tree."""

from __future__ import annotations

import re

import pytest

from spansieve.config import preset, to_dict
from spansieve.data.formats import FORMATS
from spansieve.models.heads import HEADS
from spansieve.serving.limits import Limits
from spansieve.training.run_folder import dotted
from tests.docs.pages import BLOCKS, DOCS, PAGES, ROOT

CHOOSE = (DOCS / "choose.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Of all tables, headers among them."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[| -]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_scores_of_the_heads_are_those_of_the_results():
    page = rows((ROOT / "results" / "all_corpora.md").read_text(encoding="utf-8"))
    _, *means = next(row for row in page if row[0] == "**mean**")
    table = rows(CHOOSE)
    assert table[table.index(page[0][1:]) + 1] == [cell.strip("*") for cell in means]


@pytest.mark.parametrize(
    ("page", "stem", "figures"),
    [
        ("choose", "nested_germeval2014_cuda", ["72.06", "69.01"]),
        ("choose", "conll2003_cpu", ["83.18", "5.1 minutes"]),
        ("choose", "training_cuda", ["0.93", "8.7", "52.9 s"]),
        ("distil", "distilled_cuda", ["92.39", "90.23", "94.10", "93.49"]),
        ("distil", "word_vectors_cuda", ["88.91"]),
        ("train", "word_vectors_cuda", ["88.91", "83.69"]),
        ("decode", "decode_cpu", ["1.7", "15.9"]),
        ("guarantees", "guarantees", ["99.7 %", "54.5 %"]),
        ("scaling", "bulk_cuda", ["1,460,155", "1,116,693", "1,411,258", "10,315,894"]),
        ("experiments", "all_corpora", ["73.55", "73.32", "73.20", "72.86", "0.0045", "0.90"]),
        ("chunking", "chunking_cpu", ["23.3 candidates", "11.7 chunks", "98.9 %"]),
        ("annotation-project", "audit_conll2003_builtin_cpu", ["0.23", "0.135", "0.103", "1,055", "11,299"]),
        ("annotation-project", "audit_conll2003_minilm_cuda", ["0.193", "0.39", "0.144"]),
        ("learning-from-less", "active_learning_cpu", ["about 580"]),
        ("learning-from-less", "partial_cpu", ["4.7 to 5.5 points", "20 to 23", "1,500"]),
    ],
)
def test_figures_in_sentences_are_those_of_the_results(page, stem, figures):
    page_text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found = (ROOT / "results" / f"{stem}.md").read_text(encoding="utf-8")
    assert [figure for figure in figures if figure not in found or figure not in page_text] == []


def test_the_table_of_encoders_is_of_the_results():
    header, *table = (cells for cells in rows(CHOOSE) if len(cells) == 9)
    assert header[0] == "model"
    found = {name: values for name, *values, _ in table}
    corpora = ["conll2003", "wnut17", "bionlp13cg", "genia", "conll2000"]

    def result(stem: str) -> list[list[str]]:
        return rows((ROOT / "results" / f"{stem}.md").read_text(encoding="utf-8"))

    def mean(cell: str) -> str:
        return cell.strip("*").split()[0]

    vectors = {(row[0], row[1]): mean(row[3]) for row in result("word_vectors_cuda")}
    for name, file in (("built in", "none"), ("built in, GloVe vectors", "glove.6B.100d.txt")):
        assert found[name][:5] == [vectors[corpus, file] for corpus in corpora]
    heads = {row[0]: row for row in reversed(result("all_corpora")) if len(row) == 7}  # the first table's
    assert found["MiniLM-L6"][:5] == [mean(heads[corpus][heads["corpus"].index("FSemiCRF")]) for corpus in corpora]
    tested = [mean(row[4]) for row in result("distilled_cuda") if row[4:] and row[4] not in ("", "test F1")]
    assert [found["built in, GloVe vectors, distilled"][0]] == tested
    speeds = {row[0]: [row[2], row[4]] for row in result("spacy_vectors_cpu") if row[1] == "text"}
    names = ("spansieve", "spansieve, vectors", "distilled", "MiniLM-L6", "MPNet-base")
    assert [values[5:] for values in found.values()] == [speeds[name] for name in names]
    assert f"test {found['MPNet-base'][0]}." in (ROOT / "results" / "distilled_cuda.md").read_text(encoding="utf-8")


def test_every_head_and_every_format_is_in_a_table():
    listed = {cells[0] for cells in rows(CHOOSE)}
    assert {f"`{head}`" for head in HEADS} <= listed
    formats = " ".join(cells[0] for cells in rows((DOCS / "train.md").read_text(encoding="utf-8")))
    assert [name for name in FORMATS if f"`{name}`" not in formats] == []


def test_the_defaults_that_are_not_the_papers_are_listed():
    paper, *others = (dotted(to_dict(preset(name))) for name in ("paper-conll2003", "builtin", "pretrained"))
    expected = {
        f"`{name}`": [_written(config[name]) for config in (paper, *others)]
        for name in paper
        if any(config[name] != paper[name] for config in others)
        and not name.startswith(("model.encoder.", "model.builtin."))
    }
    table = [cells for cells in rows((DOCS / "train.md").read_text(encoding="utf-8")) if len(cells) == 5]
    assert {name: values for name, *values, _ in table if name != "setting"} == expected


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_dockerfile_on_the_page_is_that_of_the_repository():
    (block,) = (block for block in BLOCKS if block.title == "Dockerfile")
    assert block.code == (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_limits_of_the_service_are_those_that_are_listed():
    page, limits = (ROOT / "SECURITY.md").read_text(encoding="utf-8"), Limits()
    for figure in (
        f"{limits.body_bytes // 1_000_000} MB",
        f"{limits.texts} texts",
        f"{limits.text_characters:,} characters",
        f"{limits.sentence_tokens:,} tokens a sentence",
        f"{limits.constraints:,} constraints a request",
        f"headers {limits.header_seconds:.0f} seconds",
        f"more than {limits.connections} are open",
        f"{limits.queue} requests",
        f"{limits.seconds:.0f} seconds",
    ):
        assert figure in page


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=lambda path: path.name)
def test_files_that_are_named_exist(path):
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"(?<![\w/])((?:tests|docs|results|examples|src|benchmarks)/[\w./-]*\w)", prose)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_commands_for_contributors_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    wanted = re.findall(r"^make ([\w-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert wanted
    assert set(wanted) <= set(targets)
