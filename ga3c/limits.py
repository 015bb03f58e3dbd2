"""What the system leaves to a run: memory, processes and file descriptors. What it does not tell is no limit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

DESCRIPTORS_PER_AGENT = 4  # of the server: its connection, its pipes, and those of one that is about to leave
TASKS_PER_AGENT = 8  # an agent's own thread, and those of ZeroMQ, the log and numerical libraries
SHARE = 0.5  # of a limit that agents may take: others of the same user count as well

CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> float:
    """Bytes that can be had without swapping: of the machine, or of the container if that has less."""
    return min([_machine_memory(), *map(_group_memory, _groups())])


def most_agents() -> float:
    """Agents that the limits on open files and processes have room for."""
    try:
        import resource
    except ImportError:  # not a Unix
        return math.inf
    needed = {resource.RLIMIT_NOFILE: DESCRIPTORS_PER_AGENT}
    if hasattr(resource, "RLIMIT_NPROC"):
        needed[resource.RLIMIT_NPROC] = TASKS_PER_AGENT
    limits = [(resource.getrlimit(kind)[0], each) for kind, each in needed.items()]
    room = [limit / each for limit, each in limits if limit != resource.RLIM_INFINITY]
    room += [_number(group / "pids.max") / TASKS_PER_AGENT for group in _groups()]
    return SHARE * min(room, default=math.inf)


def resident_memory(pid: int) -> float:
    """Bytes of a process that are in memory; 0 where that cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _machine_memory() -> float:
    return _labelled(Path("/proc/meminfo"), "MemAvailable:", math.inf) * 1024  # it is in kB


def _group_memory(group: Path) -> float:
    """What a control group may still take; files that it has read and could forget are not in the way."""
    used = _number(group / "memory.current") - _labelled(group / "memory.stat", "inactive_file", 0.0)
    limit = _number(group / "memory.max")
    return limit if math.isinf(limit) or math.isinf(used) else max(limit - used, 0.0)


def _groups() -> Iterator[Path]:
    """The control groups (version 2) of this process, from its own up to the root."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::"):
            own = CGROUPS / line.removeprefix("0::").lstrip("/")
            yield own
            yield from (parent for parent in own.parents if parent.is_relative_to(CGROUPS))


def _number(path: Path) -> float:
    """The number in a file of a control group; "max" and a file that is not there mean no limit."""
    try:
        return float(path.read_text().strip().replace("max", "inf"))
    except (OSError, ValueError):
        return math.inf


def _labelled(path: Path, label: str, otherwise: float) -> float:
    try:
        for line in path.read_text().splitlines():
            if line.split()[:1] == [label]:
                return float(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return otherwise
