"""What the system leaves to a run: files of Linux where they are there, no limit where they are not."""

import math
import os
import resource

import pytest

from ga3c.system import limits


@pytest.fixture
def group(tmp_path, monkeypatch):
    """The control groups of this process, as a container has them: one of its own below the root."""
    own = tmp_path / "job"
    own.mkdir()
    monkeypatch.setattr(limits, "_groups", lambda: iter([own, tmp_path]))
    return own


def test_memory_is_what_the_machine_has(group):
    assert 1e6 < limits.available_memory() < math.inf  # of /proc/meminfo


def test_memory_is_what_the_container_has_left(group):
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("600000\n")
    assert limits.available_memory() == 400_000
    (group / "memory.stat").write_text("anon 5\ninactive_file 100000\n")  # read once, forgotten when it is in the way
    assert limits.available_memory() == 500_000
    (group / "memory.current").write_text("2000000\n")
    assert limits.available_memory() == 0


def test_the_tightest_of_nested_groups_counts(group):
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("100\n")
    (group.parent / "memory.max").write_text("5000\n")
    (group.parent / "memory.current").write_text("1000\n")
    assert limits.available_memory() == 4000


def test_agents_are_bounded_by_open_files_and_processes(group, monkeypatch):
    given = {resource.RLIMIT_NOFILE: 800, resource.RLIMIT_NPROC: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (given[kind], -1))
    assert limits.most_agents() == 100
    given[resource.RLIMIT_NPROC] = 160
    assert limits.most_agents() == 10
    (group / "pids.max").write_text("80\n")
    assert limits.most_agents() == 5


def test_without_limits_there_are_none(group, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert limits.most_agents() == math.inf


def test_memory_of_a_process():
    assert limits.resident_memory(os.getpid()) > 1e6
    assert limits.resident_memory(2**22 + 1) == 0.0  # there is none


def test_agents_that_need_more_memory_than_there_is_are_refused(group):
    (group / "memory.max").write_text("1000000000\n")
    (group / "memory.current").write_text("500000000\n")
    limits.raise_limits(2, memory_each=200e6)
    with pytest.raises(limits.ConfigError, match=r"3 agents need about 0.6 GB of memory, and 0.5 GB are left"):
        limits.raise_limits(3, memory_each=200e6)
