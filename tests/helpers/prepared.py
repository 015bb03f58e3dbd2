"""Runs of the command line that begin with everything imported: each is forked from a process that waits for that.

Importing torch and the environments takes longer than most runs of the tests do. One such process serves all tests of
this one, and ends with it.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WAKE_SECONDS = 600.0  # for the process that waits to import it all, on the busiest machine
IMPORTED = [
    *("torch", "tensorboard.summary.writer.event_file_writer", "gymnasium.envs.classic_control"),
    *("ga3c.runs.training", "ga3c.engines.server", "ga3c.engines.serial", "ga3c.engines.lone", "ga3c.engines.workers"),
    *(
        "ga3c.algorithms.actor_critic.learning",
        "ga3c.algorithms.q_learning.learning",
        "ga3c.runs.tensorboard",
        "ga3c.runs.evaluate",
        "ga3c.runs.retrace",
    ),
    *("ga3c.agents.remote_crew", "experiments.papers.experiment"),
]


class Ready:
    """The process that waits, as tests see it."""

    def __init__(self):
        self._near, far = socket.socketpair()
        self._heard = b""  # the beginning of a line
        self._started = None  # the number of the run that was started last
        self._ended = {}  # exit codes by number
        self._lock = threading.Lock()
        with far:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(far.fileno())],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # no terminal, as the runs have none
                start_new_session=True,
            )
        self.pid = self._process.pid

    def fork(self, output, **task):
        """Start a run whose output goes there; its number."""
        with self._lock:
            message = json.dumps(task).encode()
            socket.send_fds(self._near, [len(message).to_bytes(4, "big")], [output])
            self._near.sendall(message)
            until = time.monotonic() + WAKE_SECONDS
            while self._started is None:
                assert time.monotonic() < until, "the process that all runs are forked from says nothing"
                self._hear(1.0)
            pid, self._started = self._started, None
            return pid

    def code_of(self, pid, seconds):
        """Its exit code, as soon as it has one; None after so long."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                self._hear(0.0)
                if pid in self._ended:
                    return self._ended[pid]
            left = until - time.monotonic()
            if left <= 0:
                return None
            select.select([self._near], [], [], min(left, 0.05))  # another thread may hear it instead

    def _hear(self, seconds):
        """All that it has said; waits for so long where that is nothing."""
        if not select.select([self._near], [], [], seconds)[0]:
            return
        said = self._near.recv(65536)
        assert said, "the process that all runs are forked from has ended"
        *lines, self._heard = (self._heard + said).split(b"\n")
        for told in map(json.loads, lines):
            if "started" in told:
                self._started = told["started"]
                self._ended.pop(self._started, None)  # of another process, long ago
            else:
                self._ended[told["ended"]] = told["code"]


class Forked:
    """A run, as ``subprocess.Popen`` shows one."""

    ready = None  # made when it is first needed

    def __init__(self, words, *, cwd, env, file, stdout):
        if Forked.ready is None:
            Forked.ready = Ready()
        self.args = words
        self.returncode = None
        self.stdout, output = None, stdout
        if stdout == subprocess.PIPE:
            reading, output = os.pipe()
            self.stdout = os.fdopen(reading)
        descriptor = output if isinstance(output, int) else output.fileno()
        self.pid = self.ready.fork(descriptor, words=list(words), cwd=str(cwd), env=env, file=file)
        if self.stdout:
            os.close(output)

    def poll(self):
        if self.returncode is None:
            self.returncode = self.ready.code_of(self.pid, 0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self.returncode = self.ready.code_of(self.pid, WAKE_SECONDS if timeout is None else timeout)
            if self.returncode is None:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        until = time.monotonic() + (WAKE_SECONDS if timeout is None else timeout)
        said = bytearray()
        while self.stdout and not self.stdout.closed:
            if not select.select([self.stdout], [], [], max(until - time.monotonic(), 0))[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            piece = os.read(self.stdout.fileno(), 65536)
            said += piece
            if not piece:
                self.stdout.close()
        self.wait(max(until - time.monotonic(), 0.1))
        return said.decode(), None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def serve(link):
    """Fork for each task, and tell how each ends. Returns the task, in the process that is to do it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    def tell(**what):
        with contextlib.suppress(BrokenPipeError):
            link.sendall(json.dumps(what).encode() + b"\n")

    while True:
        readable, _, _ = select.select([link, reading], [], [])
        if reading in readable:
            os.read(reading, 65536)
            with contextlib.suppress(ChildProcessError):
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    tell(ended=found[0], code=os.waitstatus_to_exitcode(found[1]))
        if link in readable:
            head, descriptors, _, _ = socket.recv_fds(link, 4, 1)
            if not head:
                sys.exit()  # whoever wanted runs is gone
            message = b""
            while len(message) < int.from_bytes(head, "big"):
                message += link.recv(int.from_bytes(head, "big") - len(message))
            (output,) = descriptors
            if os.fork():
                os.close(output)
                continue
            os.setsid()
            tell(started=os.getpid())  # now that all of it can be ended by this number
            signal.set_wakeup_fd(-1)
            for descriptor in (reading, writing, link.detach()):
                os.close(descriptor)
            return json.loads(message), output


def become(task, output):
    """What a process is that was started with this command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(task["env"])
    os.chdir(task["cwd"])
    sys.path[:0] = [task["cwd"], *task["env"]["PYTHONPATH"].split(os.pathsep)]
    sys.argv = ["ga3c", *task["words"]]
    if task["file"]:
        runpy.run_path(task["file"], run_name="__main__")
    else:
        runpy.run_module("ga3c", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    LINK = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = str(ROOT)  # and not the folder of this file
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    become(*serve(LINK))
