"""Our compiled kernels on the core benchmark's work, without torch: NumPy in, gradients or Python values out.

What a caller without torch pays. The difference to the distributions is torch's own fixed cost per call, which the
fastest models feel most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.core_work import LOG_PARTITION, MODE, Work
from benchmarks.timings import Contender
from spansieve.crf.flat_segments import offsets_of, segments_by_index
from spansieve.crf.kernels import cpu

SUFFIX = " kernel"


def kernels_on(work: Work, tasks: Sequence[str]) -> list[Contender]:
    """The same three models as `core_benchmark.ours_on`, for the tasks that the kernels answer."""
    local_scores, global_scores, transition = (
        x.numpy() for x in (work.local_scores, work.global_scores, work.transition)
    )
    tags, tag_transition, lengths = (x.numpy() for x in (work.tag_scores, work.tag_transition, work.lengths))
    runs: dict[tuple[str, str], Callable[[], object]] = {
        (MODE, "filtered"): lambda: _best_filtered(local_scores, global_scores, transition, lengths),
        (MODE, "semi-Markov"): lambda: _best_semi_markov(global_scores, transition, lengths),
        (MODE, "linear chain"): lambda: cpu.linear_chain_best(tags, tag_transition, lengths)[1].tolist(),
        (LOG_PARTITION, "filtered"): lambda: _filtered_sums(local_scores, global_scores, transition, lengths),
        (LOG_PARTITION, "semi-Markov"): lambda: cpu.semi_markov_sums(global_scores, transition, lengths),
        (LOG_PARTITION, "linear chain"): lambda: cpu.linear_chain_sums(tags, tag_transition, lengths),
    }
    return [Contender(task, name + SUFFIX, run, "without torch") for (task, name), run in runs.items() if task in tasks]


def _best_filtered(local_scores, global_scores, transition, lengths):
    kept = cpu.segments_from_scores(local_scores, global_scores, transition, lengths)
    return segments_by_index(kept.bounds[1], kept.chosen[1], *local_scores.shape[2:])


def _best_semi_markov(scores, transition, lengths):
    _, widths, labels = cpu.semi_markov_best(scores, transition, lengths)
    sentence, start = place = widths.nonzero()
    max_width, num_labels = scores.shape[2:]
    at = (start * max_width + widths[place] - 1) * num_labels + labels[place]
    return segments_by_index(offsets_of(sentence, len(lengths)), at, max_width, num_labels)


def _filtered_sums(local_scores, global_scores, transition, lengths):
    kept = cpu.segments_from_scores(local_scores, global_scores, transition, lengths, find_best=False)
    sums = cpu.filtered_sums(*kept.graph, kept.score, transition, lengths, skip=False)
    ones = np.ones(len(lengths), global_scores.dtype)
    expected = (sums.marginals, sums.transition_counts)
    return sums.log_partition, *cpu.dense_expectations(ones, *expected, kept, global_scores.shape)
