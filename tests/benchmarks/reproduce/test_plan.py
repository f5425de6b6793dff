"""Every head gets the same, and what one gets beyond is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.plots import Figure
from benchmarks.reproduce.plan import NAMES, OURS, PAPER_RECIPE
from benchmarks.result_page import Table
from spansieve.config import preset, with_settings


def test_heads_differ_in_the_head_alone(plan):
    configs = {head: plan.config(head, 5) for head in NAMES if head != PAPER_RECIPE}
    assert [config.model.head for config in configs.values()] == list(configs)
    assert len({repr(with_settings(config, {"model.head": "crf"})) for config in configs.values()}) == 1
    assert {config.training.seed for config in configs.values()} == {5}


def test_the_papers_recipe_is_fsemicrf_with_its_loss_and_filter(plan):
    ours, paper = (replace(plan, settings={}).config(row, 5) for row in (OURS, PAPER_RECIPE))
    plain = {"skip": False, "margin": 0.0, "labels_per_span": 1, "global_loss": "filtered", "score_null": False}
    assert paper == with_settings(ours, {f"model.{name}": value for name, value in plain.items()})
    assert paper != ours


def test_a_setting_of_one_head_is_its_own_and_told(plan):
    plan = replace(plan, settings_of={"fsemicrf": {"model.beta": 0.25}})
    assert plan.config("fsemicrf", 0).model.beta == 0.25
    assert plan.config("filter-only", 0).model.beta == 1.0
    assert "Of FSemiCRF alone: `model.beta=0.25`." in plan.describe()


def test_the_page_tells_the_settings(plan):
    said = " ".join(plan.describe())
    assert "Seeds: 0, 1." in said
    assert "`training.learning_rate=0.05`" in said
    assert "preset builtin" in said
    assert "No head has settings of its own." in said


def test_a_page_is_of_the_plan_and_its_first_table_is_its_csv(plan):
    page = plan.page("table9", "Table 9", [Table([{"x": 1}]), Table([{"y": 2}])], Figure(), {"more": [{"z": 3}]})
    assert page.title == "Table 9: towns, builtin encoder, on the CPU"
    assert (page.stem, page.csv, page.more_csv) == ("table9_towns_builtin_cpu", [{"x": 1}], {"more": [{"z": 3}]})
    assert list(page.parts[: len(plan.describe())]) == plan.describe()


def test_the_preset_follows_the_encoder(plan):
    plan = replace(plan, settings={})
    assert plan.base == preset("builtin")
    other = replace(plan, encoder="some/encoder")
    assert other.base == with_settings(preset("pretrained"), {"model.encoder.name": "some/encoder"})
    assert other.stem("table1") == "table1_towns_encoder_cpu"
    assert replace(plan, preset="paper-conll2003").encoder_name == "bert-large-cased"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": ("crf", "hmm")}, "got 'hmm'"),
        ({"settings_of": {"hmm": {}}}, "got 'hmm'"),
        ({"settings": {"training.seed": 3}}, "training.seed cannot be set"),
        ({"settings_of": {"crf": {"model.head": "crf"}}}, "model.head cannot be set"),
        ({"seeds": ()}, "at least one seed"),
    ],
)
def test_a_plan_that_compares_nothing_is_refused(plan, change, message):
    with pytest.raises(ValueError, match=message):
        replace(plan, **change)


@pytest.mark.parametrize("command", ["table1", "table2", "complexity", "graph-size", "throughput"])
def test_every_command_explains_its_options(terminal, command):
    answer = terminal(command, "--help")
    assert answer.code == 0
    for option in ("--data", "--encoder", "--seeds", "--set-head", "--runs", "--out"):
        assert option in answer.out
    assert "Example: python -m benchmarks" in answer.out
