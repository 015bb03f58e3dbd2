"""The keys of the network: made by ``./run.sh keys``, one pair for the server and one for all agents."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import zmq.auth
from zmq.utils import z85

from ga3c.settings.commands import KeysOptions
from ga3c.settings.declare import ConfigError, read_words

log = logging.getLogger(__name__)

SERVER, AGENTS = "server", "agents"
PUBLIC, SECRET = ".key", ".key_secret"
OTHERS = 0o077  # what the owner's group and everyone else may do


class ServerKeys(NamedTuple):
    secret: bytes  # as text, in Z85
    allowed: bytes  # the agents' public key as ZeroMQ shows it: 32 bytes


class AgentKeys(NamedTuple):
    """All as text, in Z85."""

    public: bytes
    secret: bytes
    server: bytes


def make_keys(directory: Path) -> None:
    """Write both pairs into a new directory that only its owner may enter."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise ConfigError(f"OUT={directory} exists already: keys are never written over others") from None
    except OSError as error:
        raise ConfigError(f"OUT={directory} cannot be made: {error.strerror}") from None
    for owner in (SERVER, AGENTS):
        _, secret = zmq.auth.create_certificates(directory, owner)
        Path(secret).chmod(0o600)


def read_server_keys(directory: str) -> ServerKeys:
    _, secret = _read(directory, SERVER, SECRET)
    allowed, _ = _read(directory, AGENTS, PUBLIC)
    return ServerKeys(secret, z85.decode(allowed))


def read_agent_keys(directory: str) -> AgentKeys:
    public, secret = _read(directory, AGENTS, SECRET)
    server, _ = _read(directory, SERVER, PUBLIC)
    return AgentKeys(public, secret, server)


def _read(directory: str, owner: str, kind: str) -> tuple[bytes, bytes]:
    """The public key of a file, and the secret one if it is of that kind."""
    path = Path(directory).expanduser() / f"{owner}{kind}"
    try:
        public, secret = zmq.auth.load_certificate(path)
        for key in (public, secret) if kind == SECRET else (public,):
            if key is None or len(z85.decode(key)) != 32:
                raise ValueError("it holds no whole key")
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ConfigError(f"KEYS={directory}: {path} cannot be used ({error}); './run.sh keys' makes it") from None
    if kind == SECRET and path.stat().st_mode & OTHERS:
        log.warning("%s can be read by others: 'chmod 600 %s' keeps it secret", path, path)
    return public, secret or b""


def main(words: Iterable[str]) -> int:
    out = Path(KeysOptions(**read_words(KeysOptions, words)).out)
    make_keys(out.expanduser())
    print(
        f"Made {out}. The server needs {SERVER}{SECRET} and {AGENTS}{PUBLIC}; machines with agents need\n"
        f"{AGENTS}{SECRET} and {SERVER}{PUBLIC}. Copy just these there, over a connection that you trust, and\n"
        "name their directory on both sides:\n\n"
        f"  ./run.sh GAME=Pong LISTEN=tcp://0.0.0.0:5555 KEYS={out}\n"
        f"  ./run.sh agents SERVER=tcp://THE-SERVER:5555 KEYS={out}"
    )
    return 0
