"""Agents as processes of this machine, started without touching anything that the caller's threads share.

Children that multiprocessing spawns import the caller's main module: a script without the usual guard would start
training once more in each agent, and one that imports torch would make each agent pay for it. Ours do not, and have
fewer threads: both is told to the child alone.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterable
from multiprocessing import reduction, resource_tracker, spawn, util
from multiprocessing.context import SpawnProcess, set_spawning_popen
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.process import BaseProcess

from ga3c.agents.places.place import Running, Task
from ga3c.system.signals import undisturbed

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # of an agent


class LocalPlace:
    def start(self, number: int, task: Task) -> Running:
        body, given = task
        process = _Process(target=body, args=given, name=f"agent-{number}", daemon=True)
        # A Ctrl-C goes to the whole group, also to a child that cannot ignore it yet: it inherits this thread's mask.
        with undisturbed({signal.SIGINT}):
            process.start()
        return process


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:
        return _Launch(process_obj)


class _Launch(Popen):
    """multiprocessing's way to spawn, but for what it tells the child."""

    def __init__(self, process_obj: BaseProcess) -> None:
        self._given: list[int] = []  # files of ours that the child is to have
        super().__init__(process_obj)

    def duplicate_for_child(self, fd: int) -> int:
        self._given.append(fd)
        return fd

    def _launch(self, process_obj: BaseProcess) -> None:
        tracker = resource_tracker.getfd()
        assert tracker is not None
        told = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump({"sys_path": sys.path, "sys_argv": sys.argv}, told)
            reduction.dump(process_obj, told)
        finally:
            set_spawning_popen(None)
        ours: list[int] = []
        theirs: list[int] = []
        try:
            # Each end tells by closing that its process is gone, so both are kept for as long as it lives.
            for keep, give in ((0, 1), (1, 0)):
                pipe = os.pipe()
                ours.append(pipe[keep])
                theirs.append(pipe[give])
            self.sentinel, telling = ours
            command = _with_environment(spawn.get_command_line(tracker_fd=tracker, pipe_handle=theirs[1]))
            self.pid = util.spawnv_passfds(os.fsencode(command[0]), command, [*self._given, tracker, *theirs])
            with open(telling, "wb", closefd=False) as file:
                file.write(told.getbuffer())
        finally:
            self.finalizer = util.Finalize(self, _close, ours)
            _close(*theirs)


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def _with_environment(command: Iterable[str]) -> list[str]:
    """Let the program begin with it, before it imports what reads it."""
    *python, program, mark = command
    return [*python, f"import os; os.environ.update({ONE_THREAD}); {program}", mark]
