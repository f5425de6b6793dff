"""Set before Triton is first imported: without a GPU its kernels run in the interpreter, on CPU tensors."""

import os

import torch
from hypothesis import HealthCheck, settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# How fast examples are drawn says how busy the machine is.
settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
