"""The servers that a run loads.

Path: load_flags.py reads -server -> here -> cli/load.py.
Rule: `NAME=ADDRESS:PORT`; the default name is address and port, the default port is that of -p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hsdns.load.errors import LoadError
from hsdns.load.safety import check_target
from hsdns.wire import printable


class Target(NamedTuple):
    """A server; `host` is an address, not a name."""

    name: str
    host: str
    port: int


def read_targets(words: Sequence[str], port: int, owned: Sequence[str]) -> list[Target]:
    """Read the words of -server; raise LoadError, also for addresses that may not be the user's."""
    found: dict[str, Target] = {}
    for word in words:
        name, equals, place = word.rpartition("=")
        host, own_port = _host_and_port(place, port)
        check_target(host, owned)
        name = printable(name) if equals else place_to_text(host, own_port)
        if not name.strip():
            raise LoadError(
                f'-server: "{word}" has an empty name; write NAME=ADDRESS, or only ADDRESS'
            )
        if name in found:
            raise LoadError(
                f'-server: "{name}" is given twice; give each server a name of its own, as NAME=ADDRESS'
            )
        found[name] = Target(name, host, own_port)
    return list(found.values())


def place_to_text(host: str, port: int) -> str:
    """An address and a port as text."""
    return f"{host} port {port}"


def _host_and_port(place: str, port: int) -> tuple[str, int]:
    """An address with an optional port: 127.0.0.1:53, [::1]:53, ::1."""
    host, colon, digits = place.rpartition(":")
    has_port = colon and ((host.startswith("[") and host.endswith("]")) or ":" not in host)
    if not has_port:
        return place.removeprefix("[").removesuffix("]"), port
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65_536):
        raise LoadError(
            f'-server: "{digits}" in "{place}" is no port; write ADDRESS:PORT with one from 1 to 65535'
        )
    return host.removeprefix("[").removesuffix("]"), int(digits)
