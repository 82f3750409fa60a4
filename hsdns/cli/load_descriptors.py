"""Checks that a process may have the descriptors that a load needs, for UDP sockets (-sockets) and for connections.

Path: cli/load.py -> here -> descriptor_limit.py.
Rule: the soft limit is raised first; the sending process inherits it.
"""

from __future__ import annotations

from typing import Final

from hsdns.cli.flags import FlagError
from hsdns.descriptor_limit import descriptor_limit, raise_limit
from hsdns.load.stream_plan import StreamPlan

SPARE: Final = 32  # descriptors for everything else


def allow_sockets(sockets: int, connections: int = 0) -> None:
    """Raise the limit of descriptors for sockets and connections; raise FlagError if it is too low."""
    beside = f" and {connections} connections" if connections else ""
    _allow(sockets + connections, f"-sockets: {sockets} sockets{beside}", "ask from fewer")


def allow_connections(streams: StreamPlan, fastest: float, timeout: float) -> None:
    """Raise the limit of descriptors for connections; raise FlagError if it is too low; `timeout` in seconds."""
    needed = descriptors_needed(streams, fastest, timeout)
    _allow(needed, f"{needed} connections", "lower -connections, -idle or -rate")


def descriptors_needed(streams: StreamPlan, fastest: float, timeout: float) -> int:
    """How many connections may be open at once, including idle ones of earlier clients; times in seconds."""
    if not streams.queries or streams.idle <= 0:
        return streams.connections
    lingering = fastest / streams.queries * (streams.idle / 1e9 + timeout)
    return streams.connections + int(lingering) + 1


def _allow(needed: int, what: str, remedy: str) -> None:
    raise_limit()
    limit = descriptor_limit()
    if needed + SPARE > limit:
        raise FlagError(
            f"{what} may be open at once, and a process here may have {limit} descriptors (ulimit -Hn); "
            f"raise the limit, or {remedy}"
        )
