"""The torch side of a run: the model, and the predictors and trainers around it.

It is the only thing that the server has to import torch for, so it comes after the agents were started: torch takes
seconds to import, and so do their environments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from ga3c.engines.predictor import Predictor
from ga3c.engines.trainer import BadUpdates, Trainer
from ga3c.games.spec import EnvSpec
from ga3c.memory.stats import Stats
from ga3c.models.model import Model, TrainableModel
from ga3c.settings.config import Config

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt
ARENAS = 4  # that threads share: each keeps what was freed in it, and there could be eight for every core
LARGEST_KEPT = 2**25  # bytes of a block that comes from kept memory: the most that glibc allows


def keep_freed_memory() -> None:
    """Let glibc keep what batches and versions free, since the next ones need as much.

    It would give large blocks back to the kernel and take them again, page by page, hundreds of times per update.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        libc.mallopt(M_TRIM_THRESHOLD, 2**30)
        libc.mallopt(M_ARENA_MAX, ARENAS)


def set_up_torch(config: Config) -> None:
    # torch's own threads would multiply with predictors and trainers, and spin.
    torch.set_num_threads(config.torch_threads or 1)
    keep_freed_memory()


def memory_advice(error: BaseException) -> str:
    """What to do if this error says that memory ran out; else nothing."""
    told = any(words in str(error) for words in ("out of memory", "can't allocate memory"))  # by the CPU, and by MPS
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (isinstance(error, RuntimeError) and told):
        return "A smaller MAX_PREDICTION_BATCH, MIN_BATCH, ENVS_PER_AGENT or NETWORK needs less memory"
    return ""


class Learner:
    """One shared model, and as many predictors and trainers of it as are asked for."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        stats: Stats,
        model: TrainableModel | None = None,
        steps: Callable[[], int] | None = None,
    ) -> None:
        """``steps`` tells those of the whole run, where ``stats`` has not all of them."""
        set_up_torch(config)
        self.model = model or Model(config, spec)
        self._config = config
        self._stats = stats
        self._steps = steps
        self._bad_updates = BadUpdates()

    def predictor(self, run_id: int) -> Predictor:
        return Predictor(self.model, self._stats, run_id)

    def trainer(self) -> Trainer:
        return Trainer(self._config, self.model, self._stats, self._bad_updates, self._steps)
