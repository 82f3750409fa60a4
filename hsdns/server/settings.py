"""The settings of a listener's sockets and connections, from the plugins of its blocks.

Path: listeners.py reads them when it opens a listener, and again when a reload changes the listener's blocks.
Source: CoreDNS 1.14.7 core/dnsserver: of several blocks at one address, the last one with a value applies for times,
the first block for numbers.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from hsdns.assemble import ServedAddress
from hsdns.limits import usable_cpus
from hsdns.plugin import Plugin
from hsdns.plugins.https import DEFAULT_CONNECTIONS, Https
from hsdns.plugins.multisocket import Multisocket
from hsdns.plugins.timeouts import UNLIMITED, Timeouts


class Limits(NamedTuple):
    """The limits of a connection, times in seconds; the defaults are CoreDNS's."""

    read: float = 3.0  # for the first message, and for the rest of a message that has begun
    write: float = 5.0  # for a client to read its replies
    idle: float = 10.0  # between messages
    max_queries: int = UNLIMITED


DEFAULT_LIMITS: Final = Limits()


class Settings(NamedTuple):
    """All settings; `workers` is None if the command line decides, `max_connections` 0 for any number."""

    limits: Limits = DEFAULT_LIMITS
    tls: ssl.SSLContext | None = None
    workers: int | None = None
    max_connections: int = 0


DEFAULT_SETTINGS: Final = Settings()


def settings_of(listener: ServedAddress) -> Settings:
    """Read the settings from a listener's blocks."""
    blocks = [block.plugins for blocks in listener.served.values() for block in blocks]
    plugins = [plugin for block in blocks for plugin in block]
    workers = None
    for plugin in blocks[0]:
        if isinstance(plugin, Multisocket):
            workers = plugin.sockets or usable_cpus()
    tls = listener.find_tls() if listener.listen.scheme != "dns" else None
    return Settings(
        _limits(plugins),
        tls.context if tls is not None else None,
        workers,
        _max_connections(blocks[0]) if listener.listen.scheme == "https" else 0,
    )


def _limits(plugins: list[Plugin]) -> Limits:
    limits = DEFAULT_LIMITS
    for plugin in plugins:
        if isinstance(plugin, Timeouts):
            limits = Limits(
                plugin.read or limits.read,
                plugin.write or limits.write,
                plugin.idle or limits.idle,
                plugin.max_queries or limits.max_queries,
            )
    return limits


def _max_connections(plugins: list[Plugin]) -> int:
    return next(
        (plugin.max_connections for plugin in plugins if isinstance(plugin, Https)),
        DEFAULT_CONNECTIONS,
    )
