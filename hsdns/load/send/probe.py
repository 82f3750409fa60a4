"""One query before the load, over UDP or over a connection, to check that there is a DNS server.

Path: load/cli/load.py -> here -> sockets.py for connections.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from selectors import DefaultSelector
from typing import Final

import msgspec

from hsdns.load.counters import CLOSED, RESET, SILENT
from hsdns.load.errors import LoadError
from hsdns.load.outcome import NOT_SENT, WHY_UNMATCHED
from hsdns.load.plan import TCP, TRANSPORTS, StreamPlan, place_to_text
from hsdns.load.send.loop import Query as Sent
from hsdns.load.send.sockets import Address, open_pool
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query, Reply

TRIES: Final = 3
EACH: Final = 1.0  # seconds for a reply
PAUSE: Final = 0.1  # seconds between two tries
_ID: Final = 0x4C44


class NoReply(Exception):
    """A try without a reply; the message is a clause for the operator."""


def find_target(host: str, port: int) -> tuple[int, Address]:
    """Address family and socket address; raise LoadError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
    except OSError as error:
        raise LoadError(f'"{host}" is not an address this machine can send to: {error}') from None
    return family, (str(address[0]), *(int(each) for each in address[1:]))


def probe(
    family: int,
    address: Address,
    query: Query,
    wait: float,
    is_ready: Callable[[Reply], bool] = lambda reply: True,
    streams: StreamPlan | None = None,
    more: str = " and -p, or raise --wait",
) -> Reply:
    """Send a query by the load's transport until a reply is ready, for `wait` seconds, but at least TRIES times.

    Raise LoadError; `more` ends its advice.
    """
    target = place_to_text(str(address[0]), int(address[1]))
    deadline, tries, why = time.monotonic() + wait, 0, ""
    # One socket for all tries: a reply that comes late is one to a later try.
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.settimeout(EACH)
        is_udp = streams is None or streams.for_truncated
        try:
            if is_udp:
                udp.connect(address)
        except OSError as error:
            raise LoadError(f"{target} cannot be reached: {error.strerror}") from None
        while tries < TRIES or time.monotonic() < deadline:
            if tries:
                time.sleep(PAUSE)
            tries += 1
            try:
                if streams is None or is_udp:
                    message = _ask_over_udp(udp, query, target)
                else:
                    message = _ask_over_streams(streams, family, address, query, target)
                reply = decode_reply(message, query)
            except NoReply as error:
                why = str(error)
            except BadReply as error:
                raise LoadError(f"what answers at {target} is not a DNS server: {error}") from None
            else:
                if is_ready(reply):
                    return reply
                why = f"{target} answers, but not with the names of this cluster ({query.qname.to_text()})"
    raise LoadError(f"{why}; check --server{more}")


def _ask_over_udp(udp: socket.socket, query: Query, target: str) -> bytes:
    """Return a message; raise NoReply."""
    try:
        udp.send(encode_query(query, _ID))
        return udp.recv(65_535)
    except TimeoutError:
        raise NoReply(f"no reply came from {target} to {query.qname.to_text()}") from None
    except ConnectionRefusedError:
        raise NoReply(f"nothing listens on UDP at {target}") from None
    except OSError as error:
        raise NoReply(f"{target} cannot be reached: {error.strerror}") from None


REFUSED: Final = "connection refused"


def _ask_over_streams(
    plan: StreamPlan, family: int, address: Address, query: Query, target: str
) -> bytes:
    """Return a message; raise NoReply, or LoadError if another try is in vain."""
    over, qname = f"over {TRANSPORTS[plan.transport]}", query.qname.to_text()
    replies: list[bytes] = []
    why = ""

    def ended(query: Sent, message: bytes, received: int) -> None:
        nonlocal why
        replies.append(message)
        why = "this machine cannot open a connection" if received == NOT_SENT else ""

    only = msgspec.structs.replace(plan, connections=1, queries=0)
    timeout = round(EACH * (1 if plan.transport == TCP else 2) * 1e9)
    selector = DefaultSelector()
    pool = open_pool(only, selector, family, address, timeout, ended, time.monotonic_ns)
    odd: list[int] = []
    pool.unmatched = lambda why, at: odd.append(why)
    pool.ask(Sent(encode_query(query, 0)[2:], 0, 0, time.monotonic_ns()))
    while pool.waits and not odd:
        pool.flush()
        for key, events in selector.select(0.01):
            key.data(events)
        pool.expire(time.monotonic_ns())
    counts = pool.counts
    why = next(iter((*counts.without_answer, *counts.not_opened, *counts.ended)), why)
    pool.close()
    selector.close()
    if odd:
        raise LoadError(f"what answers at {target} is not a DNS server: {WHY_UNMATCHED[odd[0]]}")
    if any(replies):
        return replies[0]
    if why.startswith("TLS: "):
        raise LoadError(
            f"{target} {over}: {why.removeprefix('TLS: ')}; check --tls-ca and --tls-name, or use --tls-insecure"
        )
    if why.startswith("HTTP "):
        raise LoadError(f"{target} {over} answers with {why}; check --doh-path and --doh-method")
    if why == REFUSED:
        raise NoReply(f"nothing listens on TCP at {target}")
    if why in (CLOSED, RESET):
        raise NoReply(f"{target} ends connections {over} without a reply to {qname}")
    if why in ("", SILENT):
        raise NoReply(f"no reply came from {target} {over} to {qname}")
    raise NoReply(f"{target} {over}: {why}")
