"""One question to a DNS server: the reply over UDP, or over TCP if it is truncated.

Path: the commands lookup, explain, wait, audit and doctor; fault_scenarios/memory_server.py -> here -> a server.
Rule: datagrams that are not a reply to the question are ignored until the timeout, as a resolver does (RFC 5452 section
      9.1).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, TypeVar

from hsdns.wire.decode import HEADER_LEN, BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query, Reply

_LONGEST: Final = 65_535
_TC: Final = 0x02  # in the third octet
S = TypeVar("S")
T = TypeVar("T")


class NoReply(Exception):
    """A server gave no reply; the message is a sentence about it."""


class Refused(NoReply):
    """The host reports that nothing listens there."""


def ask(
    host: str,
    port: int,
    query: Query,
    timeout: float,
    random: Random,
    tries: int = 1,
    *,
    is_tcp: bool = False,
) -> Reply:
    """The reply, within `timeout` seconds for each transport; raise NoReply.

    A datagram may be lost, so there may be several tries, but none after Refused.  With `is_tcp` it is over TCP alone.
    """
    wire = encode_query(query, random.randrange(1 << 16))
    while True:
        tries -= 1
        try:
            return decode_reply(exchange(host, port, wire, timeout, is_tcp=is_tcp), query)
        except Refused:
            raise
        except (BadReply, NoReply) as error:
            if not tries:
                raise NoReply(
                    str(error)
                    if isinstance(error, NoReply)
                    else f"what it sends is not a reply: {error}"
                ) from None


def exchange(host: str, port: int, wire: bytes, timeout: float, *, is_tcp: bool) -> bytes:
    """The octets of a whole reply, over TCP alone if `is_tcp`; raise NoReply."""
    octets = b"" if is_tcp else over_udp(host, port, wire, timeout)
    return over_tcp(host, port, wire, timeout) if is_tcp or octets[2] & _TC else octets


def ask_all(
    questions: Mapping[str, T], look: Callable[[T], S]
) -> tuple[list[S], dict[str, str | bool]]:
    """What `look` makes of each question until the server is silent; why it is, and whether the host has `refused`.

    The questions are by their names in a sentence.
    """
    found: list[S] = []
    for name, question in questions.items():
        try:
            found.append(look(question))
        except NoReply as error:
            silence = f"{error}, when queried for {name}"
            return found, {"silence": silence, "refused": isinstance(error, Refused)}
    return found, {"silence": "", "refused": False}


def over_udp(host: str, port: int, wire: bytes, timeout: float) -> bytes:
    """The octets of the reply to one datagram; raise NoReply."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + timeout
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((host, port))
            sock.send(wire)
            while (left := deadline - time.monotonic()) > 0:
                sock.settimeout(left)
                octets = sock.recv(_LONGEST)
                if len(octets) >= HEADER_LEN and octets[:2] == wire[:2]:
                    return octets
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        raise Refused(f"nothing listens on UDP at {host} port {port}") from None
    except OSError as error:
        raise NoReply(f"{host} port {port} cannot be reached: {error.strerror}") from None
    raise NoReply(f"no reply came from {host} port {port} within {timeout:g} s")


def over_tcp(host: str, port: int, wire: bytes, timeout: float) -> bytes:
    """The octets of the reply over a new connection; raise NoReply."""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(len(wire).to_bytes(2, "big") + wire)
            with connection.makefile("rb") as stream:
                length = int.from_bytes(stream.read(2), "big")
                octets = stream.read(length)
    except ConnectionRefusedError:
        raise Refused(f"nothing listens on TCP at {host} port {port}") from None
    except OSError as error:
        why = error.strerror or f"no reply within {timeout:g} s"
        raise NoReply(f"{host} port {port} does not answer over TCP: {why}") from None
    if len(octets) < max(length, 1):
        raise NoReply(f"{host} port {port} does not answer over TCP: the connection was closed")
    if len(octets) < HEADER_LEN or octets[:2] != wire[:2]:
        raise NoReply(f"{host} port {port} sent no DNS reply over TCP")
    return octets
