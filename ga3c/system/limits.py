"""What the system leaves to a run: memory, processes and file descriptors. What it does not tell is no limit."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from ga3c.settings.declare import ConfigError

DESCRIPTORS = 40  # of the server without agents: 15 of its own, and more while libraries are loaded
DESCRIPTORS_PER_AGENT = 4  # of the server: its connection, its pipes, and those of one that is about to leave
TASKS = 16  # threads of the server, and the process that tidies up after it
TASKS_PER_AGENT = 8  # an agent's own thread, and those of ZeroMQ, the log and numerical libraries
MEMORY_WITH_TORCH = 200e6  # bytes of an agent that trains by itself, beyond what processes share
SHARE = 0.5  # of a limit that agents may take: others of the same user count as well

CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> float:
    """Bytes that can be had without swapping: of the machine, or of the container if that has less."""
    return min([_machine_memory(), *map(_group_memory, _groups())])


def most_agents() -> float:
    """Agents that the limits on open files and processes have room for."""
    needed = {resource.RLIMIT_NOFILE: DESCRIPTORS_PER_AGENT}
    if hasattr(resource, "RLIMIT_NPROC"):
        needed[resource.RLIMIT_NPROC] = TASKS_PER_AGENT
    limits = [(resource.getrlimit(kind)[0], each) for kind, each in needed.items()]
    room = [limit / each for limit, each in limits if limit != resource.RLIM_INFINITY]
    room += [_number(group / "pids.max") / TASKS_PER_AGENT for group in _groups()]
    return SHARE * min(room, default=math.inf)


def most_connections() -> float:
    """Connections of agents of other machines that the limit on open files has room for, as it is now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if limit == resource.RLIM_INFINITY else max(0.9 * limit - DESCRIPTORS, 1)


@contextlib.contextmanager
def room_for(agents: int, memory_each: float = 0.0) -> Iterator[None]:
    """``raise_limits`` for a while: the process may be a caller's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        raise_limits(agents, memory_each)
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def raise_limits(agents: int, memory_each: float = 0.0) -> None:
    """Raise the limit on open files as far as this process may, and refuse what limits leave no room for."""
    needed_memory, memory = agents * memory_each, available_memory()
    if needed_memory > memory:
        raise ConfigError(
            f"{_agents(agents)} about {needed_memory / 1e9:.1f} GB of memory, and {memory / 1e9:.1f} GB are left: "
            "use fewer AGENTS"
        )
    files, tasks = _needed(agents)
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != most:
        with contextlib.suppress(ValueError, OSError):  # some systems have a lower one that they do not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            limit = most
    if limit != resource.RLIM_INFINITY and limit < files:
        raise _no_room(agents, f"{files} open files", f"the limit is {limit}", f"ulimit -n {files}")
    needed = f"{tasks} processes and threads"
    if os.geteuid() != 0 and hasattr(resource, "RLIMIT_NPROC"):  # it does not hold for root
        limit, used = resource.getrlimit(resource.RLIMIT_NPROC)[0], _tasks_of(os.getuid())
        if limit != resource.RLIM_INFINITY and limit - used < tasks:
            raise _no_room(agents, needed, f"this user has {used} of {limit} in use", f"ulimit -u {used + tasks}")
    for group in _groups():
        limit_of_all, used_by_all = _number(group / "pids.max"), _number(group / "pids.current")
        if limit_of_all - used_by_all < tasks:
            in_use = f"the control group {group} has {used_by_all:g} of {limit_of_all:g} in use"
            raise _no_room(agents, needed, in_use, "docker run --pids-limit")


def _no_room(agents: int, needed: str, limit: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{_agents(agents)} about {needed}, and {limit}: '{remedy}' raises it (where that is refused, an administrator "
        "can), or use fewer AGENTS"
    )


def why_not_started(error: OSError, agents: int) -> str:
    """What to say where the system refused the process of an agent."""
    return f"no further agent could be started: {error}. {limit_advice(error, agents)}".rstrip(". ")


def limit_advice(error: BaseException, agents: int) -> str:
    """Which limit of the system this error is about, and how to raise it; nothing where it is another one."""
    number = getattr(error, "errno", None)
    files, tasks = _needed(agents)
    if number == errno.EMFILE:
        return f"The limit on open files is reached. {_agents(agents)} about {files}: 'ulimit -n {files}' raises it"
    if number == errno.EAGAIN or "can't start new thread" in str(error):
        return (
            f"The limit on processes and threads is reached. {_agents(agents)} about {tasks} beside those of others: "
            "'ulimit -u' shows and raises it, for a container --pids-limit"
        )
    return ""


def _needed(agents: int) -> tuple[int, int]:
    """Open files, and processes and threads, of a run with this many agents."""
    return DESCRIPTORS + DESCRIPTORS_PER_AGENT * agents, TASKS + TASKS_PER_AGENT * agents


def _agents(count: int) -> str:
    return f"{count} agents need" if count != 1 else "1 agent needs"


def _tasks_of(user: int) -> int:
    """Processes and threads of a user."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if process.stat().st_uid == user:
                found += len(list((process / "task").iterdir()))
    return found


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


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
