"""Any module on the device: `python -m tests.emulated_cuda benchmarks bulk MODEL DATA`."""

import sys
from runpy import run_module

from tests.emulated_cuda import install

if __name__ == "__main__":
    install()
    del sys.argv[0]
    run_module(sys.argv[0], run_name="__main__", alter_sys=True)
