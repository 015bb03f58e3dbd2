"""A link between two machines that is cut and comes back: two network namespaces with a cable between them."""

import subprocess
import time

import pytest

from ga3c.messages.keys import make_keys
from tests.helpers.machines import Machines
from tests.helpers.needed import lacks
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.alone]  # agents are called silent after a second

ADDRESSES = ("198.18.77.1", "198.18.77.2")  # of the server and of the agents; no route leads to this network
NOBODY = "02:00:00:00:00:99"  # no interface has this hardware address
ENVS, T_MAX = 2, 10


class Cable:
    """Two namespaces, each held by a process that does nothing, so that they go with it."""

    def __init__(self):
        self._holders = [subprocess.Popen(["unshare", "--net", "sleep", "600"]) for _ in ADDRESSES]
        self.sides = [("nsenter", "--target", str(holder.pid), "--net") for holder in self._holders]
        # Until each holder has left our own namespace.
        wait_until(lambda: len({self._namespace(side) for side in ((), *self.sides)}) == 3)
        self._ip(0, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self._holders[1].pid))
        for side, address in enumerate(ADDRESSES):
            self._ip(side, "address", "add", f"{address}/24", "dev", "cable")
            self._ip(side, "link", "set", "cable", "up")

    def cut(self):
        """Nobody hears the other any more, and nobody is told: packets go to an address that is not there."""
        for side, other in enumerate(reversed(ADDRESSES)):
            self._ip(side, "neighbour", "replace", other, "lladdr", NOBODY, "dev", "cable", "nud", "permanent")

    def mend(self):
        for side, other in enumerate(reversed(ADDRESSES)):
            self._ip(side, "neighbour", "delete", other, "dev", "cable")

    def close(self):
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _namespace(self, side):
        return subprocess.run([*side, "readlink", "/proc/self/ns/net"], capture_output=True, check=True).stdout

    def _ip(self, side, *words):
        subprocess.run([*self.sides[side], "ip", *words], check=True, capture_output=True)


def can_make_namespaces():
    if lacks("ip", "unshare", "nsenter"):
        return False
    probe = "ip link add cable type veth peer name end"
    return subprocess.run(["unshare", "--net", "sh", "-c", probe], capture_output=True).returncode == 0


@pytest.fixture
def cable():
    if not can_make_namespaces():
        pytest.skip("network namespaces need Linux, root, and the commands ip, unshare and nsenter")
    cable = Cable()
    yield cable
    cable.close()


@pytest.fixture
def machines(tmp_path):
    machines = Machines(tmp_path)
    yield machines
    machines.close()


def check_a_cut(machines, cable, seconds, *words):
    """Cut the link of two agents, the only ones, until both are away, and at least for so long.

    Returns how long they took to play again.
    """
    make_keys(machines.path / "keys")
    given = ("AGENTS=0", "KEYS=keys", f"ENVS_PER_AGENT={ENVS}", f"T_MAX={T_MAX}", *words)
    server, address = machines.serve(*given, listen=f"tcp://{ADDRESSES[0]}:*", through=cable.sides[0])
    agents = machines.start("agents", "agents", f"SERVER={address}", "AGENTS=2", "KEYS=keys", through=cable.sides[1])
    machines.wait_for_remote(2)
    before = machines.newest()
    cable.cut()
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until and machines.newest()["remote_agents"] == 0, seconds + 60)
    steps, rows = machines.newest()["steps"], len(machines.rows())
    wait_until(lambda: len(machines.rows()) > rows + 2)
    assert machines.newest()["steps"] == steps  # it was cut
    cable.mend()
    mended = time.monotonic()
    wait_until(lambda: machines.newest()["steps"] > steps and machines.newest()["remote_agents"] == 2, 60)
    took = time.monotonic() - mended
    after = machines.newest()
    rejoined = agents.said.count(" again as agent")
    assert rejoined >= 2
    # Of each environment the experience under way, and what was just being sent.
    assert 0 < after["lost_steps"] - before["lost_steps"] <= rejoined * ENVS * (T_MAX + 2)
    assert after["stale_steps"] == before["stale_steps"]
    assert agents.process.poll() is None
    assert server.end() == 0, server.said
    assert agents.process.wait(10) == 0, agents.said
    summary = machines.summary()
    assert (summary["unaccounted_steps"], summary["bad_messages"]) == (0, 0)
    return took


def test_a_short_cut_costs_the_experiences_under_way(machines, cable):
    """Shorter than connections last: the agents find that they were taken to be away."""
    took = check_a_cut(machines, cable, 0.0, "STALL_SECONDS=1")
    assert took < 30  # a second or two where nothing else runs


@pytest.mark.long
def test_a_cut_of_30_seconds_costs_the_experiences_under_way(machines, cable):
    took = check_a_cut(machines, cable, 30.0)
    assert took < 30  # three seconds where nothing else runs
