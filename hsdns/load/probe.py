"""One query before the load, to check that there is a DNS server.

Path: cli/load.py -> here.  stream_probe.py does the same over connections.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

from hsdns.load.errors import LoadError
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
