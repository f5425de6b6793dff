"""Packages that import their members when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spansieve
from spansieve import crf
from spansieve.crf.kernels import cpu


@pytest.mark.parametrize("package", [spansieve, crf, cpu])
def test_a_package_offers_its_members_and_no_others(package):
    assert dir(package) == sorted(package.__all__)
    for name in set(package.__all__) - {"__version__"}:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'unheard_of'"):
        _ = package.unheard_of


def test_the_library_is_silent_until_logging_is_set_up():
    program = (
        "import logging, spansieve\n"
        "logger = logging.getLogger('spansieve.serving.queue')\n"
        "logger.error('unheard')\n"
        "logging.basicConfig()\n"
        "logger.error('heard')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stderr == "ERROR:spansieve.serving.queue:heard\n"


def test_torch_comes_with_the_first_member_that_needs_it():
    program = (
        "import sys\n"
        "import spansieve, spansieve.crf, spansieve.crf.kernels.cpu.filter, spansieve.evaluation\n"
        "assert 'torch' not in sys.modules\n"
        "from spansieve.crf import SemiMarkov\n"
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
