"""One query before the load, over UDP or over a connection, to check that there is a DNS server.

Path: cli/load.py -> here -> sockets.py for connections.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Final

import msgspec

from hsdns.load.counters import CLOSED, RESET, SILENT
from hsdns.load.errors import LoadError
from hsdns.load.outcome import NOT_SENT
from hsdns.load.plan import TCP, TRANSPORTS, StreamPlan
from hsdns.load.send.loop import Query as Sent
from hsdns.load.send.sockets import Links, make_pool
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query, Reply

TRIES: Final = 3
EACH: Final = 1.0  # seconds for a reply
PAUSE: Final = 0.1  # seconds between two tries
_ID: Final = 0x4C44


class NoReply(Exception):
    """A try without a reply; the message is a clause for the operator."""


def find_target(host: str, port: int) -> tuple[int, tuple[str | int, ...]]:
    """Address family and socket address; raise LoadError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
    except OSError as error:
        raise LoadError(f'"{host}" is no address that this machine can send to: {error}') from None
    return family, (str(address[0]), *(int(each) for each in address[1:]))


def probe(
    family: int,
    address: tuple[str | int, ...],
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
) -> Reply:
    """Send the query over UDP as until_ready() does; raise LoadError."""
    target = f"{address[0]} port {address[1]}"
    wire = encode_query(query, _ID)
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(EACH)
        try:
            sock.connect(address)
        except OSError as error:
            raise LoadError(f"{target} cannot be reached: {error.strerror}") from None

        def ask() -> bytes:
            try:
                sock.send(wire)
                return sock.recv(65_535)
            except TimeoutError:
                raise NoReply(f"no reply came from {target} to {query.qname.to_text()}") from None
            except ConnectionRefusedError:
                raise NoReply(f"nothing listens on UDP at {target}") from None
            except OSError as error:
                raise NoReply(f"{target} cannot be reached: {error.strerror}") from None

        return until_ready(ask, target, query, wait, is_ready)


def until_ready(
    ask: Callable[[], bytes],
    target: str,
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool],
) -> Reply:
    """Send until a reply is ready, for `wait` seconds, but at least TRIES times; raise LoadError.

    `ask` returns a message, or raises NoReply if another try may succeed.
    """
    deadline, tries, why = time.monotonic() + wait, 0, ""
    while tries < TRIES or time.monotonic() < deadline:
        if tries:
            time.sleep(PAUSE)
        tries += 1
        try:
            reply = decode_reply(ask(), query)
        except NoReply as error:
            why = str(error)
        except BadReply as error:
            raise LoadError(f"what answers at {target} is no DNS server: {error}") from None
        else:
            if is_ready(reply):
                return reply
            why = f"{target} answers, but not with the names of this cluster ({query.qname.to_text()})"
    raise LoadError(f"{why}; check -server and -p, or give it more time with -wait")


REFUSED: Final = "connection refused"


def probe_over(
    streams: StreamPlan | None,
    family: int,
    address: tuple[str | int, ...],
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
) -> Reply:
    """Send the query by the load's transport; see probe()."""
    if streams is None or streams.for_truncated:
        return probe(family, address, query, wait, is_ready)
    return probe_streams(streams, family, address, query, wait, is_ready)


def probe_streams(
    plan: StreamPlan,
    family: int,
    address: tuple[str | int, ...],
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
) -> Reply:
    """Send the query over connections as until_ready() does; raise LoadError."""
    over = f"over {TRANSPORTS[plan.transport]}"
    target = f"{address[0]} port {address[1]}"
    qname = query.qname.to_text()

    def ask() -> bytes:
        result = _ask(plan, family, address, query)
        if result.message:
            return result.message
        if result.why.startswith("TLS: "):
            raise LoadError(
                f"{target} {over}: {result.why.removeprefix('TLS: ')}; check -tls-ca and -tls-name, "
                "or trust any certificate with -tls-insecure"
            )
        if result.why.startswith("HTTP "):
            raise LoadError(
                f"{target} {over} answers with {result.why}; check -doh-path and -doh-method"
            )
        if result.why == REFUSED:
            raise NoReply(f"nothing listens on TCP at {target}")
        if result.why in (CLOSED, RESET):
            raise NoReply(f"{target} ends connections {over} without a reply to {qname}")
        if result.why in ("", SILENT):
            raise NoReply(f"no reply came from {target} {over} to {qname}")
        raise NoReply(f"{target} {over}: {result.why}")

    return until_ready(ask, target, query, wait, is_ready)


class _Result:
    """The result of the query."""

    def __init__(self) -> None:
        self.message = b""
        self.why = ""

    def reply(self, query: Sent, message: bytes, now: int) -> None:
        """Store the reply."""
        self.message = message

    def without_reply(self, query: Sent, why: int) -> None:
        """Record that this machine could not send the query."""
        if why == NOT_SENT:
            self.why = "this machine cannot open a connection"


def _ask(plan: StreamPlan, family: int, address: tuple[str | int, ...], query: Query) -> _Result:
    result, links = _Result(), Links(family, address)
    only = msgspec.structs.replace(plan, connections=1, queries=0)
    timeout = round(EACH * (1 if plan.transport == TCP else 2) * 1e9)
    pool = make_pool(only, timeout, links, result, time.monotonic_ns)
    pool.ask(Sent(encode_query(query, 0)[2:], 0, 0, time.monotonic_ns()))
    while pool.waits:
        pool.flush()
        select.select([links.fileno()], [], [], 0.01)
        links.serve(pool.can_read, pool.can_write)
        pool.expire(time.monotonic_ns())
    counts = pool.counts
    result.why = next(iter((*counts.without_answer, *counts.not_opened, *counts.ended)), result.why)
    pool.close()
    links.close()
    return result
