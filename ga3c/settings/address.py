"""Addresses of the network, as they are written, and which of them others can reach."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from ga3c.settings.declare import ConfigError


class Address(NamedTuple):
    host: str
    port: str

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:  # a name or all interfaces
            return False

    @property
    def is_ipv6(self) -> bool:
        return self.host.startswith("[")

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}"


def parse_address(key: str, text: str) -> Address:
    """``tcp://host:port``; an IPv6 address stands in brackets."""
    match = re.fullmatch(r"tcp://(\[[0-9a-fA-F:.%\w]+\]|[^\s:/\[\]]+):(\d+|\*)", text)
    if match is None or (match[2] != "*" and int(match[2]) > 65535):
        raise ConfigError(f"{key}={text} is no address: write tcp://host:port, for example tcp://192.168.0.7:5555")
    return Address("127.0.0.1" if match[1] == "localhost" else match[1], match[2])


def check_listen(listen: str, keys: str) -> None:
    """Refuse an address that others can reach, unless there are keys to tell them apart."""
    if not parse_address("LISTEN", listen).is_loopback and not keys:
        raise ConfigError(
            f"LISTEN={listen} can be reached from other machines, so it needs keys: './run.sh keys OUT=keys' makes "
            "them, KEYS=keys names them (without keys, only an address as tcp://127.0.0.1:5555 may be listened at)"
        )
