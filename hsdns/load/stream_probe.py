"""One query over a connection before the load, to check that there is a DNS server.

Path: cli/load.py -> here -> stream_process.py.  probe.py does the same over UDP.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Final

import msgspec

from hsdns.load import probe
from hsdns.load.asked import Asked
from hsdns.load.connection_facts import AT_END, CLOSED, RESET, SILENT, Fact
from hsdns.load.errors import LoadError
from hsdns.load.outcome import NOT_SENT
from hsdns.load.stream_links import Links
from hsdns.load.stream_plan import TCP, TRANSPORTS, StreamPlan
from hsdns.load.stream_process import make_pool
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query, Reply

REFUSED: Final = "connection refused"


def probe_over(
    streams: StreamPlan | None,
    family: int,
    address: tuple[str | int, ...],
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
) -> Reply:
    """Send the query by the load's transport; see probe.probe()."""
    if streams is None or streams.for_truncated:
        return probe.probe(family, address, query, wait, is_ready)
    return probe_streams(streams, family, address, query, wait, is_ready)


def probe_streams(
    plan: StreamPlan,
    family: int,
    address: tuple[str | int, ...],
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
) -> Reply:
    """Send the query over connections as probe.until_ready() does; raise LoadError."""
    over = f"over {TRANSPORTS[plan.transport]}"
    target = f"{address[0]} port {address[1]}"
    qname = query.qname.to_text()

    def ask() -> bytes:
        ear = _ask(plan, family, address, query)
        if ear.message:
            return ear.message
        if ear.why.startswith("TLS: "):
            raise LoadError(
                f"{target} {over}: {ear.why.removeprefix('TLS: ')}; check -tls-ca and -tls-name, "
                "or trust any certificate with -tls-insecure"
            )
        if ear.why.startswith("HTTP "):
            raise LoadError(
                f"{target} {over} answers with {ear.why}; check -doh-path and -doh-method"
            )
        if ear.why == REFUSED:
            raise probe.NoReply(f"nothing listens on TCP at {target}")
        if ear.why in (CLOSED, RESET):
            raise probe.NoReply(f"{target} ends connections {over} without a reply to {qname}")
        if ear.why in ("", SILENT):
            raise probe.NoReply(f"no reply came from {target} {over} to {qname}")
        raise probe.NoReply(f"{target} {over}: {ear.why}")

    return probe.until_ready(ask, target, query, wait, is_ready)


class _Ear:
    """Stores the result of the query."""

    def __init__(self) -> None:
        self.message = b""
        self.why = ""

    def fact(self, fact: Fact) -> None:
        """Store the last reason."""
        if fact.why != AT_END:
            self.why = fact.why or self.why

    def reply(self, asked: Asked, message: bytes, now: int) -> None:
        """Store the reply."""
        self.message = message

    def without_reply(self, asked: Asked, why: int) -> None:
        """Record that this machine could not send the query."""
        if why == NOT_SENT:
            self.why = "this machine cannot open a connection"


def _ask(plan: StreamPlan, family: int, address: tuple[str | int, ...], query: Query) -> _Ear:
    ear, links = _Ear(), Links(family, address)
    only = msgspec.structs.replace(plan, connections=1, queries=0)
    timeout = round(probe.EACH * (1 if plan.transport == TCP else 2) * 1e9)
    pool = make_pool(only, timeout, links, ear, time.monotonic_ns)
    pool.ask(Asked(encode_query(query, 0)[2:], 0, 0, time.monotonic_ns()))
    while pool.waits:
        pool.flush()
        select.select([links.fileno()], [], [], 0.01)
        links.serve(pool.can_read, pool.can_write)
        pool.tick(time.monotonic_ns())
    pool.close()
    links.close()
    return ear
