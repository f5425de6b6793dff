"""Tiny tensors on one thread: several wait for each other, most of all beside other tests, and add up in another order.

A `conftest.py` takes the fixture by importing it.
"""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
