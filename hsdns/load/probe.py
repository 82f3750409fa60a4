"""One query before the load, to see that there is a DNS server at all.

Path: cli/load.py -> here.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

from hsdns.load.errors import LoadError
from hsdns.wire.decode_reply import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query, Reply

TRIES: Final = 3
EACH: Final = 1.0  # seconds for a reply
PAUSE: Final = 0.1  # seconds between two tries where nothing listens
_ID: Final = 0x4C44


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
    """Ask until there is a reply that is ready, for `wait` seconds, but TRIES times at least; raise LoadError."""
    target = f"{address[0]} port {address[1]}"
    wire = encode_query(query, _ID)
    why = f"no reply came from {target}"
    deadline, tries = time.monotonic() + wait, 0
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(EACH)
        try:
            sock.connect(address)
        except OSError as error:
            raise LoadError(f"{target} cannot be reached: {error.strerror}") from None
        while tries < TRIES or time.monotonic() < deadline:
            tries += 1
            try:
                sock.send(wire)
                reply = decode_reply(sock.recv(65_535), query)
            except TimeoutError:
                why = f"no reply came from {target} to {query.qname.to_text()}"
            except ConnectionRefusedError:
                why = f"nothing listens on UDP at {target}"
                time.sleep(PAUSE)
            except OSError as error:
                why = f"{target} cannot be reached: {error.strerror}"
                time.sleep(PAUSE)
            except BadReply as error:
                raise LoadError(f"what answers at {target} is no DNS server: {error}") from None
            else:
                if is_ready(reply):
                    return reply
                why = f"{target} answers, but not with the names of this cluster ({query.qname.to_text()})"
                time.sleep(PAUSE)
    raise LoadError(f"{why}; check -server and -p, or give it more time with -wait")
