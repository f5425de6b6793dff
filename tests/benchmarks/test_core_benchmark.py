"""The work is what it says, the peers do the same as we do, and the targets are told as measured."""

from __future__ import annotations

import pytest
import torch

from benchmarks import core_benchmark, growth
from benchmarks.core_kernels import kernels_on
from benchmarks.core_work import LOG_PARTITION, MODE, Work
from spansieve.crf import Candidates, LinearChain, SemiMarkov

SMALL = Work(3, num_sentences=4, num_tokens=7, max_width=3)


def test_the_filter_keeps_the_share_that_was_asked_for():
    work = Work(5)
    candidates = Candidates.from_local_scores(work.local_scores, work.lengths)
    spans = sum(min(work.max_width, work.num_tokens - i) for i in range(work.num_tokens)) * work.num_sentences
    assert len(candidates) / spans == pytest.approx(0.02, abs=0.001)


def test_gold_comes_in_three_equal_forms():
    for segments, cover, tags in zip(SMALL.gold, SMALL.gold_cover, SMALL.gold_tags):
        assert tuple(s for s in cover if s.label) == segments
        assert sum(s.width for s in cover) == SMALL.num_tokens == len(tags)
        assert [i for i, tag in enumerate(tags) if tag % 2] == [s.start for s in segments]


def test_pytorch_crf_agrees():
    torchcrf = pytest.importorskip("torchcrf")
    crf = torchcrf.CRF(SMALL.num_tags, batch_first=True)
    with torch.no_grad():
        crf.start_transitions.zero_(), crf.end_transitions.zero_(), crf.transitions.copy_(SMALL.tag_transition)
    ours = LinearChain(SMALL.tag_scores, SMALL.tag_transition, SMALL.lengths)
    assert crf.decode(SMALL.tag_scores) == ours.mode
    theirs = crf(SMALL.tag_scores, torch.tensor(SMALL.gold_tags), reduction="none")
    torch.testing.assert_close(theirs, ours.log_prob(SMALL.gold_tags))


def test_torch_struct_agrees():
    torch_struct = pytest.importorskip("torch_struct")
    from benchmarks.peers import torch_struct_potentials

    lengths = torch.full((SMALL.num_sentences,), SMALL.num_tokens + 1)
    theirs = torch_struct.SemiMarkovCRF(torch_struct_potentials(SMALL.global_scores, SMALL.transition), lengths=lengths)
    ours = SemiMarkov(SMALL.global_scores, SMALL.transition, SMALL.lengths)
    torch.testing.assert_close(theirs.partition, ours.log_partition)
    torch.testing.assert_close(theirs.max, ours.max_score)


def test_flash_semicrf_agrees():
    """It applies a transition into the first segment too, from any label: added here to the first scores."""
    flash = pytest.importorskip("flash_semicrf")
    from benchmarks.peers import flash_semicrf_inputs

    cumulative, transition, bias = flash_semicrf_inputs(SMALL)
    theirs = flash.semi_crf_streaming_forward(cumulative, transition, bias, SMALL.lengths, SMALL.max_width)
    start = torch.arange(SMALL.num_tokens)[:, None]
    end = (start + torch.arange(1, SMALL.max_width + 1)).clamp(max=SMALL.num_tokens)
    scores = cumulative[:, end] - cumulative[:, start] + bias
    scores[:, 0] += transition.logsumexp(0)
    torch.testing.assert_close(theirs, SemiMarkov(scores, transition, SMALL.lengths).log_partition)


def test_targets_are_told_as_measured():
    rows = [
        {"task": MODE, "Y": 5, "model": "filtered", "microseconds": 10.0},
        {"task": MODE, "Y": 5, "model": "linear chain", "microseconds": 9.0},
        {"task": MODE, "Y": 5, "model": "pytorch-crf", "microseconds": 600.0},
        {"task": MODE, "Y": 5, "model": "filtered kernel", "microseconds": 5.0},
        {"task": MODE, "Y": 5, "model": "linear chain kernel", "microseconds": 8.0},
    ]
    columns = ("measured", "holds", "kernels alone")
    found = {row["slower"]: tuple(row[c] for c in columns) for row in core_benchmark.target_rows(rows)}
    assert found == {"linear chain": ("0.90x", "NO", "1.60x"), "pytorch-crf": ("60.00x", "yes", "120x")}


def test_the_kernels_answer_as_the_distributions_do():
    ours = {(c.task, c.name): c.run() for c in core_benchmark.ours_on(SMALL, (MODE, LOG_PARTITION))}
    alone = {(c.task, c.name.removesuffix(" kernel")): c.run() for c in kernels_on(SMALL, (MODE, LOG_PARTITION))}
    for name in ("filtered", "semi-Markov", "linear chain"):
        assert ours[MODE, name] == alone[MODE, name]
        _, marginals, _ = alone[LOG_PARTITION, name]
        torch.testing.assert_close(ours[LOG_PARTITION, name][0], torch.from_numpy(marginals))


def test_each_of_our_contenders_runs():
    for contender in core_benchmark.ours_on(SMALL, (MODE, LOG_PARTITION, core_benchmark.LOSS)):
        assert contender.run() is not None


def test_growth_has_a_page(tmp_path):
    rows = [{"L": n, "mode, s": 1e-6 * n, "log Z and gradient, s": 3e-6 * n} for n in (64, 128)]
    page = growth.growth_page(rows).write(tmp_path, "a command").read_text()
    assert "Log-log slopes: mode 1.0, log Z and gradient 1.0." in page
    assert (tmp_path / "core_growth.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "core_growth.csv").read_text().startswith("L,")


def test_slopes_are_exponents():
    rows = [{"L": n, "linear": 3.0 * n, "cubic": 0.5 * n**3} for n in (64, 128, 256)]
    assert growth.slopes(rows) == {"linear": 1.0, "cubic": 3.0}
