"""Tests with the device: `python -m pytest -p tests.emulated_cuda.plugin`."""

import pytest

from tests.emulated_cuda import install

BEYOND = {  # by the name of a test: what the device cannot do
    "test_a_batch_is_one_launch_and_no_copy": "the profiler sees no emulated launches",
    "test_what_a_gpu_does_is_counted": "the profiler sees no emulated launches",
}


def pytest_load_initial_conftests() -> None:
    install()  # before anything imports torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if reason := BEYOND.get(item.name.split("[")[0]):
            item.add_marker(pytest.mark.skip(reason=reason))
