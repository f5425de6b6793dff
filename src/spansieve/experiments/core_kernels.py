"""Our compiled kernels on the core benchmark's work, without torch: NumPy in, gradients or Python values out.

What a caller without torch pays. The difference to the distributions is torch's own fixed cost per call, which the
fastest models feel most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spansieve.crf.kernels import cpu
from spansieve.crf.structures import FlatSegments, offsets_of, segments_by_sentence
from spansieve.experiments.core_work import LOG_PARTITION, MODE, Work
from spansieve.experiments.measuring import Contender

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
    chosen = (kept.best_offsets, kept.start[kept.best], kept.end[kept.best], kept.label[kept.best])
    return segments_by_sentence(FlatSegments(*chosen))


def _best_semi_markov(scores, transition, lengths):
    _, widths, labels = cpu.semi_markov_best(scores, transition, lengths)
    sentence, start = place = widths.nonzero()
    offsets = offsets_of(sentence, len(lengths))
    return segments_by_sentence(FlatSegments(offsets, start, start + widths[place], labels[place]))


def _filtered_sums(local_scores, global_scores, transition, lengths):
    kept = cpu.segments_from_scores(local_scores, global_scores, transition, lengths, find_best=False)
    nodes = (kept.offsets, kept.start, kept.end, kept.label, kept.score)
    sums = cpu.filtered_sums(*nodes, transition, lengths, skip=False)
    gradient = np.zeros(global_scores.shape, global_scores.dtype)
    gradient.reshape(-1)[kept.index] = sums.marginals
    return sums.log_partition, gradient, sums.transition_counts.sum(0)
