"""Extended DNS Errors (RFC 8914).

Path: step 5; a handler adds one to the reply.
Source: for with_extended_error() CoreDNS 1.14.7 plugin/template, miekg/dns SetEdns0: the reply has an OPT record with
DO and size 4096, even if the query has none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hsdns.wire.edns import Edns
from hsdns.wire.iana import OptCode
from hsdns.wire.message import Query, Reply

PAYLOAD_SIZE: Final = 4096


class InfoCode:
    """The INFO-CODEs that hsdns has reasons for (RFC 8914 section 4)."""

    OTHER: Final = 0
    STALE_ANSWER: Final = 3
    NOT_READY: Final = 14
    STALE_NXDOMAIN: Final = 19
    NOT_SUPPORTED: Final = 21


def to_option(code: int, text: str) -> bytes:
    """Return the EDNS option of an error in wire form, for Reply.extended_errors; its EXTRA-TEXT is UTF-8."""
    data = code.to_bytes(2, "big") + text.encode()
    return OptCode.EDE.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def with_extended_error(query: Query, reply: Reply, code: int, text: str = "") -> Reply:
    """Return the reply with this error as the only option of its OPT record."""
    edns = replace(query.edns, do=True) if query.edns is not None else Edns(PAYLOAD_SIZE, do=True)
    return reply.replace(
        edns=edns, edns_options=((OptCode.EDE, code.to_bytes(2, "big") + text.encode()),)
    )
