"""Assembles a load over connections from its plan, in the sending process.

Path: sender_process.py -> here -> stream_sender.py, pool.py, stream_links.py.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from hsdns.load.connection import Connection
from hsdns.load.falls import Falls
from hsdns.load.http2 import Http2Session
from hsdns.load.http2_requests import Requests
from hsdns.load.plan import Plan
from hsdns.load.pool import Hears, Pool
from hsdns.load.sender import Wire
from hsdns.load.session import FramedSession
from hsdns.load.stream_links import Links
from hsdns.load.stream_plan import DOH, StreamPlan, authority
from hsdns.load.stream_sender import StreamSender
from hsdns.load.telling import Telling
from hsdns.load.tls_layer import HTTP2, TlsLayer, client_context


def maker(plan: StreamPlan, address: tuple[str | int, ...]) -> Callable[[int], Connection]:
    """A function that makes connections by a plan; raise LoadError for unreadable certificates."""
    name = plan.tls_name or str(address[0]).partition("%")[0]
    is_doh = plan.transport == DOH
    protocol = HTTP2 if is_doh else ""
    context = (
        client_context(plan.tls_ca, insecure=plan.tls_insecure, protocol=protocol)
        if plan.is_encrypted
        else None
    )
    requests = Requests(authority(name, int(address[1])), plan.path, plan.method)

    def make(now: int) -> Connection:
        session = Http2Session(requests) if is_doh else FramedSession()
        tls = None if context is None else TlsLayer(context, name, protocol)
        return Connection(session, tls, plan.pipeline, plan.queries, now)

    return make


def make_pool(
    plan: StreamPlan, timeout: int, links: Links, hears: Hears, clock: Callable[[], int]
) -> Pool:
    """The connections of a plan; `timeout` in nanoseconds."""
    return Pool(plan, timeout, maker(plan, links.address), links.open, hears, clock)


class FallsOverTcp(Falls):
    """The retries over TCP of a plan, with sockets."""

    def __init__(self, plan: Plan, wires: Sequence[Wire], emit: Callable[[bytes], None]) -> None:
        assert plan.streams is not None, "the caller has looked"
        streams, timeout, clock = plan.streams, plan.timeout, time.monotonic_ns
        self._links = links = Links(plan.family, plan.address)

        def make(hears: Hears) -> Pool:
            return make_pool(streams, timeout, links, hears, clock)

        super().__init__(wires, make, emit, clock)

    def fileno(self) -> int:
        """The descriptor that is readable if a connection is ready."""
        return self._links.fileno()

    def turn(self) -> list[int]:
        """Do what is due; return the numbers of the wires that have a reply."""
        self._links.serve(self.pool.can_read, self.pool.can_write)
        return super().turn()

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._links.close()


def stream_sender(plan: Plan, stdin: int, emit: Callable[[bytes], None]) -> StreamSender:
    """The sender of a plan over connections; it ends when the descriptor `stdin` is closed."""
    assert plan.streams is not None, "the caller has looked"
    links = Links(plan.family, plan.address)
    telling = Telling(emit, replies=plan.replies, kinds=plan.kinds)
    pool = make_pool(plan.streams, plan.timeout, links, telling, time.monotonic_ns)
    watched = [stdin, links.fileno()]

    def wait(nanoseconds: int) -> bool:
        ready = select.select(watched, [], [], nanoseconds / 1e9)[0]
        if stdin in ready:
            return False
        if ready:
            links.serve(pool.can_read, pool.can_write)
        return True

    return StreamSender(
        pool,
        telling,
        plan.queries,
        plan.times(),
        plan.order(),
        clock=time.monotonic_ns,
        wait=wait,
    )
