"""The Triton kernels pass the same contract: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spansieve.crf import Candidates, FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.kernels import cpu_tensors
from tests.contract import check_best, check_sums, close
from tests.instances import gold_for, instances
from tests.models import MODELS, pair

cuda = pytest.importorskip("spansieve.crf.kernels.cuda", reason="Triton is not installed", exc_type=ImportError)

EXAMPLES = 15  # the interpreter takes about a tenth of a second for each launch


@pytest.mark.parametrize("model", MODELS)
@given(drawn=instances(most_tokens=4, most_sentences=2))
@settings(max_examples=EXAMPLES, deadline=None)
def test_equals_enumeration(model, drawn):
    distribution, oracle = pair(model, drawn, cuda)
    check_sums(distribution, oracle)
    check_best(distribution, oracle, drawn.is_exact)


@pytest.mark.parametrize("skip", [False, True])
@given(data=st.data(), drawn=instances(most_tokens=5, most_sentences=2))
@settings(max_examples=EXAMPLES, deadline=None)
def test_dense_form_equals_the_compiled_one(skip, data, drawn):
    """From dense scores and gold: mask, sweep and marginals, without ever listing the candidates."""
    _, _, max_width, num_labels = drawn.scores.shape
    gold = (data.draw(st.booleans()) and gold_for(data.draw, drawn.lengths, max_width, num_labels)) or None
    tensors = [drawn.tensor(x) for x in (drawn.local_scores, drawn.scores, drawn.transition)]
    made = [FilteredSemiMarkov.from_scores(*tensors, drawn.lengths, gold, skip, kernel=k) for k in (cuda, cpu_tensors)]
    size = max(1.0, float(np.abs(drawn.scores[np.isfinite(drawn.scores)]).max(initial=0)))
    close(made[0].log_partition, made[1].log_partition.double().numpy(), size)
    close(made[0].marginals, made[1].marginals.double().numpy(), size)
    close(made[0].transition_counts, made[1].transition_counts.double().numpy(), size)
    assert (made[0].max_score == made[1].max_score).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_longer_and_wider_than_a_tile(dtype):
    """More labels and widths than one power of two holds, rings that wrap many times, against the compiled kernel."""
    generator = torch.Generator().manual_seed(1)
    lengths = [40, 0, 17]
    scores = torch.randn(3, 40, 5, 9, dtype=dtype, generator=generator)
    transition = torch.randn(9, 9, dtype=dtype, generator=generator)
    local_scores = torch.randn(3, 40, 5, 9, dtype=dtype, generator=generator)
    local_scores[..., 0] += 2.0
    candidates = Candidates.from_local_scores(local_scores, lengths)
    flat = torch.randn(len(candidates), dtype=dtype, generator=generator)
    for make in (
        lambda kernel: LinearChain(scores[:, :, 0], transition, lengths, kernel=kernel),
        lambda kernel: SemiMarkov(scores, transition, lengths, kernel=kernel),
        lambda kernel: FilteredSemiMarkov(candidates, flat, transition, kernel=kernel),
        lambda kernel: FilteredSemiMarkov(candidates, flat, transition, True, kernel=kernel),
    ):
        ours, expected = make(cuda), make(cpu_tensors)
        close(ours.log_partition, expected.log_partition.double().numpy(), 10.0)
        close(ours.marginals, expected.marginals.double().numpy(), 1.0)
        close(ours.transition_counts, expected.transition_counts.double().numpy(), 10.0)
        assert ours.mode == expected.mode
        assert (ours.max_score == expected.max_score).all()
