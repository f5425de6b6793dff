"""Compiles every Triton kernel for a GPU that need not be there: the interpreter takes much that the compiler does not.

Run as a program. Whatever the wrappers would launch is compiled instead.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from spansieve.crf import Gold
from spansieve.crf.kernels import cuda
from spansieve.crf.kernels.cuda import cross_entropy
from spansieve.nn.cuda import span_hidden_kernels
from spansieve.nn.span_hidden_layer import SpanHiddenLayer

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.int64: "*i64", torch.uint8: "*u8",
    torch.int32: "*i32", torch.bool: "*i1",
}  # fmt: skip
compiled: set[str] = set()


def compile_instead(kernel: Any, grid: Any, *arguments: Any, num_warps: int = 4, **constants: Any) -> None:
    signature, constexprs = {}, dict(constants)
    for name, argument in zip(kernel.arg_names, arguments):
        if argument is None:
            constexprs[name], signature[name] = None, "constexpr"
        elif isinstance(argument, torch.Tensor):
            signature[name] = TYPES[argument.dtype]
        else:
            signature[name] = "fp32" if isinstance(argument, float) else "i32"
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(kernel, signature, {(kernel.arg_names.index(k),): v for k, v in constexprs.items()})
    triton.compile(source, target=TARGET, options={"num_warps": num_warps})
    compiled.add(kernel.__name__)


def compile_core(dtype: torch.dtype) -> None:
    scores, transition = torch.zeros(2, 5, 3, 4, dtype=dtype), torch.zeros(4, 4, dtype=dtype)
    lengths = torch.tensor([5, 3])
    gold = Gold.from_segments([[(0, 1, 1)], []], scores.shape, None)
    mask = cuda.dense_filter(scores, lengths, gold, skip=False)
    cuda.dense_filter(scores, lengths, None, skip=False)
    for labels_per_span in (2, 100):
        cuda.dense_filter(scores, lengths, gold, skip=True, labels_per_span=labels_per_span)
    for skip in (False, True):
        for with_marginals in (False, True):
            sums = cuda.dense_filtered_sums(mask, scores, transition, lengths, skip, with_marginals)
    cuda.log_prob(gold.parts, scores, transition, sums)
    cuda.weighted_expectations(torch.ones(2, dtype=dtype), sums.marginals, sums.transition_counts, None, -1.0)
    for with_marginals in (False, True):
        cuda.semi_markov_sums(scores, transition, lengths, with_marginals)
    cuda.semi_markov_best(scores, transition, lengths)


def compile_learned(dtype: torch.dtype) -> None:
    width = torch.zeros(3, 8, requires_grad=True)
    for parts in (2, 3):
        projected = torch.zeros(2, 5, parts * 8, dtype=dtype, requires_grad=True)
        SpanHiddenLayer.apply(projected, width, span_hidden_kernels).sum().backward()
    scores = torch.zeros(2, 5, 3, 4, requires_grad=True)
    cross_entropy.SpanCrossEntropy.apply(scores, torch.zeros(2, 5, 3, dtype=torch.int64), 0.5).sum().backward()


if __name__ == "__main__":
    for module in (cuda, cross_entropy, span_hidden_kernels):
        module.launch = compile_instead  # type: ignore[attr-defined]
    compile_core(torch.float32)
    for dtype in (torch.float32, torch.bfloat16):
        compile_learned(dtype)
    sys.stdout.write(" ".join(sorted(compiled)))
