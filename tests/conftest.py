"""What all tests share: one torch thread, so that a loaded machine changes neither times nor bits."""

import torch

torch.set_num_threads(1)
