"""What the finder of data races tells of kernels of one line."""

from __future__ import annotations

import ctypes

import pytest

from tests.crf.kernels.cuda_on_cpu import FINDS_RACES, KernelWithRaces

pytestmark = pytest.mark.skipif(not FINDS_RACES, reason="wants g++")
SOURCE = """
struct Task {{ int* numbers; }};
extern "C" __global__ void decode(const Task t) {{
    __shared__ volatile int unused;
    unused = 0;
    int thread = threadIdx.x, *p = t.numbers, from = (int)blockIdx.x;
    {line}
}}
"""


def races_of(line: str, blocks: int = 1, threads: int = 64) -> list[str]:
    kernel = KernelWithRaces(SOURCE.format(line=line), "decode", None)
    numbers = (ctypes.c_int * 128)()
    task = ctypes.c_void_p(ctypes.addressof(numbers))
    kernel.launch((blocks, 1), threads, 0, (ctypes.c_void_p * 1)(ctypes.addressof(task)))
    return kernel.races


@pytest.mark.parametrize(
    ("line", "blocks"),
    [
        ("p[0] = thread;", 1),
        ("p[0] = from;", 2),
        ("p[thread] = p[thread ^ 1];", 1),
        ("p[thread] = 1; __syncwarp(); p[64 + thread] = p[thread ^ 32];", 1),
        ("p[thread] = 1; __shfl_up_sync(~0u, 0, 1); p[64 + thread] = p[thread ^ 1];", 1),
        ("volatile int* q = p; if (thread) q[0] = 1; else p[64] = p[0];", 1),
        ("if (thread == 0) { p[1 + from] = 1; atomicAdd(p, 1); p[5] = p[1]; }", 2),
    ],
)
def test_what_nothing_orders_is_told(line, blocks):
    assert races_of(line, blocks)


@pytest.mark.parametrize(
    ("line", "blocks"),
    [
        ("p[0] = 7;", 2),
        ("p[thread] = 1; __syncthreads(); p[64 + thread] = p[thread ^ 32];", 1),
        ("p[thread] = 1; __syncwarp(); p[64 + thread] = p[thread ^ 1];", 1),
        ("volatile int* q = p; if (thread) q[0] = 1; else p[64] = q[0];", 1),
        ("if (thread == 0) { p[1 + from] = 1; __threadfence(); if (atomicAdd(p, 1)) p[5] = p[1]; }", 2),
    ],
)
def test_what_is_ordered_or_the_same_is_not(line, blocks):
    assert races_of(line, blocks) == []
