"""Reads dnstap: messages as servers such as CoreDNS, BIND, Knot DNS and Unbound log them, in a file of frame streams.

Path: ../replay.py -> here; wire/dnstap.py has the format.
Rule: what clients asked the server is used, CLIENT_QUERY and AUTH_QUERY; everything else is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

from hsdns.load.captures.file import Damaged, Read, read_whole
from hsdns.wire.dnstap import MESSAGE, Control, Field, Kind
from hsdns.wire.protobuf import fields

_STOP: Final = Control.STOP.to_bytes(4, "big")
_SECOND: Final = 1_000_000_000  # nanoseconds
_QUERIES: Final = (Kind.AUTH_QUERY, Kind.CLIENT_QUERY)


def read_dnstap(file: IO[bytes]) -> Iterator[Read[bytes] | None]:
    """The queries in order, with messages that may be empty, None for what is no query; raise Damaged, or OSError."""
    number = 1
    while head := file.read(4):
        where = f"frame {number}"
        length = int.from_bytes(head.ljust(4, b"\0"), "big")
        octets = read_whole(
            file, length or int.from_bytes(read_whole(file, 4, where), "big"), where
        )
        if not length:  # a control frame
            if octets[:4] == _STOP:
                return
            continue
        number += 1
        try:
            found = dict(fields(dict(fields(octets)).get(MESSAGE, b"")))
            seconds = found.get(Field.QUERY_SECONDS, 0)
            time = seconds * _SECOND + found.get(Field.QUERY_NANOSECONDS, 0)
            client = b"" + found.get(Field.QUERY_ADDRESS, b"")
            query = time, client, b"" + found.get(Field.QUERY_MESSAGE, b"")
        except (IndexError, TypeError):
            raise Damaged(f"is broken at {where}") from None
        yield query if found.get(Field.TYPE) in _QUERIES else None
