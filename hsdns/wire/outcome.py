"""Classification of replies: positive, NODATA, referral, error.

Path: beside message.py; the `log` plugin selects by it what to log.
Source: CoreDNS 1.14.7 plugin/pkg/response typify.go; RFC 2308 section 2, RFC 4035 section 5.3.1 (signature times).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final

from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply, is_notify

_TRANSFERS: Final = frozenset({RRType.AXFR, RRType.IXFR})
_SIGNATURE_TIMES: Final = struct.Struct("!8xII")  # RFC 4034 section 3.1: expiration, inception


class Outcome(Enum):
    """Classes of replies."""

    POSITIVE = "positive"
    NODATA = "nodata"
    NXDOMAIN = "nxdomain"
    DELEGATION = "delegation"
    META = "meta"  # NOTIFY and zone transfers
    SERVER_ERROR = "server error"  # SERVFAIL and NOTIMP
    # Other rcodes, no reply, expired signatures, contradictory sections.
    OTHER_ERROR = "other error"


def outcome(query: Query, reply: Reply | None, wall: Callable[[], float]) -> Outcome:
    """Classify a reply, None if there is none; `wall` is called only for signatures."""
    if reply is None:
        return Outcome.OTHER_ERROR
    if is_notify(query) or query.qtype in _TRANSFERS:
        return Outcome.META
    if query.do and _is_expired(reply, wall):
        return Outcome.OTHER_ERROR
    rcode = reply.rcode
    if reply.answer and rcode == Rcode.NOERROR:
        return Outcome.POSITIVE
    if reply.answer and rcode == Rcode.NXDOMAIN:
        return Outcome.OTHER_ERROR
    if rcode == Rcode.NXDOMAIN:
        return Outcome.NXDOMAIN
    if rcode in (Rcode.SERVFAIL, Rcode.NOTIMP):
        return Outcome.SERVER_ERROR
    if rcode != Rcode.NOERROR:
        return Outcome.OTHER_ERROR
    types = {rr.rrtype for rr in reply.authority}
    if RRType.SOA in types:
        return Outcome.NODATA
    return Outcome.DELEGATION if RRType.NS in types else Outcome.POSITIVE


def _is_expired(reply: Reply, wall: Callable[[], float]) -> bool:
    """Whether any signature is outside its validity period, in the serial arithmetic of RFC 1982."""
    for section in (reply.answer, reply.authority, reply.additional):
        for rr in section:
            if rr.rrtype == RRType.RRSIG and len(rr.rdata) >= 18:
                expiration, inception = _SIGNATURE_TIMES.unpack_from(rr.rdata)
                now = int(wall())
                if (now - inception) % 2**32 >= 2**31 or (expiration - now) % 2**32 >= 2**31:
                    return True
    return False
