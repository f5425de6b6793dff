"""Which kernel answers where, and that a slow one says so."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch

from spansieve.crf import kernels
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api


@pytest.fixture(autouse=True)
def nothing_known():
    """A kernel is looked up once in a process: here, once in a test."""
    for known in (kernels._kernel, kernels.has_triton):
        known.cache_clear()
    yield
    for known in (kernels._kernel, kernels.has_triton):
        known.cache_clear()


def on(device: str) -> SimpleNamespace:
    """What is looked at of a tensor, on a device that need not be there."""
    return SimpleNamespace(is_cpu=device == "cpu", device=torch.device(device))


def kernel_in_silence(device: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return kernels.kernel_for(on(device))


def test_the_compiled_kernels_say_nothing(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: object())
    monkeypatch.setattr(kernels, "triton_version", lambda: kernels.MIN_TRITON)
    assert kernel_in_silence("cpu") is torch_api
    assert kernels.has_triton()


def test_cuda_without_triton_says_once_that_it_is_slow(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    with pytest.warns(
        RuntimeWarning, match="Triton is not installed.*'cuda': plain torch .*slower; install triton"
    ) as told:
        assert kernels.kernel_for(on("cuda")) is reference
    assert len(told) == 1
    for again in ("cuda:0", "cuda:1"):
        assert kernel_in_silence(again) is reference
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not kernels.has_triton()  # as the layers over spans ask


def test_an_old_triton_says_which_would_do(monkeypatch):
    monkeypatch.setattr(kernels, "find_spec", lambda name: object())
    monkeypatch.setattr(kernels, "triton_version", lambda: (3, 0))
    wanted = r"Triton is 3\.0, so .*'cuda': plain torch .*slower; take 3\.3 \(torch 2\.7\) or later"
    with pytest.warns(RuntimeWarning, match=wanted):
        assert kernels.kernel_for(on("cuda")) is reference


def test_other_devices_say_once_that_they_are_slow():
    for device in ("mps", "xpu"):
        wanted = f"no compiled kernels for '{device}': plain torch .*slower; compute on the CPU"
        with pytest.warns(RuntimeWarning, match=wanted) as told:
            assert kernels.kernel_for(on(device)) is reference
        assert len(told) == 1
        assert kernel_in_silence(device) is reference
