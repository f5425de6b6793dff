"""Set before Triton is first imported: without a GPU its kernels run in the interpreter, on CPU tensors. And tests that
need a newer torch than there is are skipped."""

import os
from importlib.util import find_spec
from uuid import uuid4

import pytest
import torch
from hypothesis import HealthCheck, settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
# Ray reads it once in a process, whichever test comes first, and without it writes one to the user's home.
os.environ.setdefault("RAY_AUTH_TOKEN", uuid4().hex)
if find_spec("torch.onnx.ops") is None:
    from spansieve.prediction.onnx import export

    export._check_packages = lambda: pytest.skip("to export a model, torch must be 2.8 or later")

# How fast examples are drawn says how busy the machine is.
settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
