"""The benchmark's DNS client: queries, addresses from replies, and a TCP connection.

Path: latency.py, churn.py, queries.py -> here -> hsdns.wire.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address
from typing import Self

from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name

ZONE = "cluster.local"


def service_name(namespace: str, service: str) -> str:
    """The name of a Service."""
    return f"{service}.{namespace}.svc.{ZONE}"


def question(name: str) -> bytes:
    """A query for the A records of a name, without its two octets of ID."""
    return encode_query(Query.ask(Name.from_text(name), RRType.A), 0)[2:]


def a_record_of(address: str) -> bytes:
    """The octets of an A record with this address in a reply: RDLENGTH and RDATA."""
    return b"\0\4" + IPv4Address(address).packed


def addresses(name: str, reply: bytes) -> frozenset[str]:
    """The addresses of the A records of a reply; raise BadReply if it is not a reply to this question."""
    query = Query.ask(Name.from_text(name), RRType.A)
    records = decode_reply(reply, query).answer
    return frozenset(
        str(IPv4Address(record.rdata)) for record in records if record.rrtype == RRType.A
    )


class TcpClient:
    """A TCP connection for one query at a time; a context manager."""

    def __init__(self, port: int, timeout: float = 10.0) -> None:
        self._address = ("127.0.0.1", port)
        self._timeout = timeout
        self._sock = socket.create_connection(self._address, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._sock.close()

    def ask(self, name: str) -> frozenset[str]:
        """Query the addresses of a name; reconnect once if the server has closed the connection."""
        message = b"\0\1" + question(name)
        try:
            reply = self._exchange(message)
        except (EOFError, ConnectionError):
            self._sock.close()
            self._sock = socket.create_connection(self._address, self._timeout)
            reply = self._exchange(message)
        return addresses(name, reply)

    def _exchange(self, message: bytes) -> bytes:
        self._sock.sendall(len(message).to_bytes(2, "big") + message)
        return self._read(int.from_bytes(self._read(2), "big"))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._sock.recv(size - len(data))
            if not piece:
                raise EOFError("the server ended the connection")
            data += piece
        return data
