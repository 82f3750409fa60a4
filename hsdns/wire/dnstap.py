"""dnstap: what happened to DNS messages, as protobuf messages in frame streams; sans I/O.

Path: plugins/dnstap.py writes it, load/captures/dnstap.py reads it.
Source: https://dnstap.info, dnstap.proto; fstrm's frame streams: a frame has its length before it, a control frame four
zero octets before that.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from hsdns.wire.protobuf import field, fixed32

BEGIN: Final = bytes(4)  # the length of a control frame
CONTENT: Final = b"protobuf:dnstap.Dnstap"


class Control:
    """Types of control frames."""

    ACCEPT: Final = 1
    START: Final = 2
    STOP: Final = 3
    READY: Final = 4


class Kind:
    """Types of messages: who exchanged it with whom."""

    AUTH_QUERY: Final = 1
    CLIENT_QUERY: Final = 5
    CLIENT_RESPONSE: Final = 6
    FORWARDER_QUERY: Final = 7
    FORWARDER_RESPONSE: Final = 8


class Field:
    """Numbers of fields of a message."""

    TYPE: Final = 1
    FAMILY: Final = 2
    PROTOCOL: Final = 3
    QUERY_ADDRESS: Final = 4
    RESPONSE_ADDRESS: Final = 5
    QUERY_PORT: Final = 6
    RESPONSE_PORT: Final = 7
    QUERY_SECONDS: Final = 8
    QUERY_NANOSECONDS: Final = 9
    QUERY_MESSAGE: Final = 10
    RESPONSE_SECONDS: Final = 12
    RESPONSE_NANOSECONDS: Final = 13
    RESPONSE_MESSAGE: Final = 14


MESSAGE: Final = 14  # field of the outermost message
_IDENTITY, _VERSION, _EXTRA, _OUTER_TYPE = 1, 2, 3, 15
_FIXED_FIELDS: Final = frozenset({Field.QUERY_NANOSECONDS, Field.RESPONSE_NANOSECONDS})


def message(
    kind: int,
    protocol: str,
    *,
    client: tuple[str, int] | None = None,
    server: tuple[str, int] | None = None,
    asked: float,
    answered: float | None = None,
    octets: bytes | None = None,
) -> dict[int, int | bytes]:
    """The fields of a message.

    `client` and `server` have address and port, `asked` and `answered` are seconds since the epoch, `octets` the query,
    or once it is answered the response.
    """
    found: dict[int, int | bytes] = {
        Field.TYPE: kind,
        Field.PROTOCOL: 2 if protocol == "tcp" else 1,
    }
    for each, at, port in (
        (client, Field.QUERY_ADDRESS, Field.QUERY_PORT),
        (server, Field.RESPONSE_ADDRESS, Field.RESPONSE_PORT),
    ):
        if each is not None:
            address = ip_address(each[0].partition("%")[0]).packed
            found |= {Field.FAMILY: 1 if len(address) == 4 else 2, at: address, port: each[1]}
    found[Field.QUERY_SECONDS], found[Field.QUERY_NANOSECONDS] = _time(asked)
    if answered is not None:
        found[Field.RESPONSE_SECONDS], found[Field.RESPONSE_NANOSECONDS] = _time(answered)
    if octets is not None:
        found[Field.QUERY_MESSAGE if answered is None else Field.RESPONSE_MESSAGE] = octets
    return found


def frame(found: dict[int, int | bytes], identity: bytes, version: bytes, extra: bytes) -> bytes:
    """The frame of a message from a server."""
    outer: dict[int, int | bytes] = {_IDENTITY: identity, _VERSION: version}
    if extra:
        outer[_EXTRA] = extra
    octets = _protobuf(outer | {MESSAGE: _protobuf(found), _OUTER_TYPE: 1})
    return len(octets).to_bytes(4, "big") + octets


def control(kind: int) -> bytes:
    """A control frame, with the type of the content unless it is the last one."""
    octets = kind.to_bytes(4, "big")
    if kind != Control.STOP:
        octets += (1).to_bytes(4, "big") + len(CONTENT).to_bytes(4, "big") + CONTENT
    return BEGIN + len(octets).to_bytes(4, "big") + octets


def _time(seconds: float) -> tuple[int, int]:
    return divmod(int(seconds * 1e9), 1_000_000_000)


def _protobuf(found: dict[int, int | bytes]) -> bytes:
    parts = (
        fixed32(number, value)
        if number in _FIXED_FIELDS and isinstance(value, int)
        else field(number, value)
        for number, value in found.items()
    )
    return b"".join(parts)
