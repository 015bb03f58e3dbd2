"""How the C library keeps memory, for processes that are ours alone: it cannot be asked, so it cannot be put back."""

from __future__ import annotations

import ctypes

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
