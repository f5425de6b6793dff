"""Set before Triton is first imported: without a GPU its kernels run in the interpreter, on CPU tensors."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
