"""TSIG: authentication of messages with a shared secret (RFC 8945).

Path: plugins/tsig.py verifies queries and attaches the signer to replies; query.py calls it for each message.
The MACs are computed by dnspython.
Rule 1: a query is verified over its octets as received (Query.whole).
Rule 2: the error of an unknown key or a wrong MAC is unsigned, that of a wrong time is signed (sections 5.2.3 and
        5.3.2).
Rule 3: each message of a reply is signed; those after the first over the previous MAC and the time only
        (section 5.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
from dns.rdtypes.ANY.TSIG import TSIG

from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.name import Name, after_name
from hsdns.wire.rdata import RECORD_HEAD

FUDGE: Final = 300  # permitted clock difference in seconds (section 10)
NO_ERROR: Final = 0
BADSIG: Final = 16
BADKEY: Final = 17
BADTIME: Final = 18
# Without MD5, as in miekg/dns; truncated MACs are refused too.
ALGORITHMS: Final = frozenset(
    {
        dns.tsig.HMAC_SHA1,
        dns.tsig.HMAC_SHA224,
        dns.tsig.HMAC_SHA256,
        dns.tsig.HMAC_SHA384,
        dns.tsig.HMAC_SHA512,
    }
)
# dnspython has no types for these.
_validate: Final[Callable[..., Any]] = dns.tsig.validate
_sign: Final[Callable[..., tuple[TSIG, Any]]] = dns.tsig.sign
_TSIG: Final[Callable[..., TSIG]] = TSIG
_MAX_FIXED_LEN: Final = 10 + 16 + 64 + 6  # maximum length of the record without its two names


class BadRecord(ValueError):
    """A malformed TSIG record (FORMERR)."""


class Signature(NamedTuple):
    """The TSIG record at the end of a query, and its offset."""

    key: Name
    rdata: TSIG
    start: int


def read_signature(whole: bytes) -> Signature | None:
    """Return the TSIG record of a message, None if it has none; raise BadRecord."""
    if not whole:
        return None
    try:
        start = _last_record(whole)
        owner, length = dns.name.from_wire(whole, start)
        at = start + length
        rrtype, _, _, size = RECORD_HEAD.unpack_from(whole, at)
        if rrtype != RRType.TSIG:
            return None
        at += RECORD_HEAD.size
        rdata = dns.rdata.from_wire(dns.rdataclass.ANY, dns.rdatatype.TSIG, whole, at, size)
    except (dns.exception.DNSException, IndexError, struct.error) as error:
        raise BadRecord(str(error)) from None
    assert isinstance(rdata, TSIG), "record type TSIG"
    return Signature(Name(owner.to_wire() or b"\0").lowered(), rdata, start)


def verify(whole: bytes, found: Signature, secrets: Mapping[Name, bytes], now: int) -> int:
    """Verify a message; return NO_ERROR, BADKEY, BADSIG or BADTIME; `now` in seconds since the epoch."""
    secret = secrets.get(found.key)
    if secret is None:
        return BADKEY
    if found.rdata.algorithm not in ALGORITHMS:
        return BADSIG
    owner = dns.name.from_text(found.key.to_text())
    key = dns.tsig.Key(owner, secret, found.rdata.algorithm)
    rdata = found.rdata.replace(error=0)  # the error field of a query is ignored
    try:
        _validate(whole, key, owner, rdata, now, b"", found.start)
    except dns.tsig.BadTime:
        return BADTIME
    except dns.exception.DNSException:
        return BADSIG
    return NO_ERROR


class ReplySigner:
    """Signs the messages of one reply, in order (message.Signer).

    `error` is the result of verify(); `wall` returns seconds since the epoch.
    """

    def __init__(
        self,
        request: Signature,
        secret: bytes | None,
        error: int,
        wall: Callable[[], float],
    ) -> None:
        self._request = request
        self._secret = secret
        self._error = error
        self._wall = wall
        self._context: Any = None  # of dnspython: the MAC of the previous message
        self.room = (
            len(request.key.wire) + len(request.rdata.algorithm.to_wire() or b"") + _MAX_FIXED_LEN
        )

    def __call__(self, message: bytes) -> bytes:
        """Return the message with its TSIG record."""
        request, error, now = self._request.rdata, self._error, int(self._wall())
        is_late = error == BADTIME
        unsigned = _TSIG(
            dns.rdataclass.ANY,
            dns.rdatatype.TSIG,
            request.algorithm,
            0,
            FUDGE,
            b"",
            int.from_bytes(message[:2], "big"),
            error,
            now.to_bytes(6, "big") if is_late else b"",
        )
        rdata = unsigned
        if self._secret is not None and error in (NO_ERROR, BADTIME):
            owner = dns.name.from_text(self._request.key.to_text())
            key = dns.tsig.Key(owner, self._secret, request.algorithm)
            rdata, self._context = _sign(
                message,
                key,
                unsigned,
                request.time_signed if is_late else now,
                request.mac,
                self._context,
                multi=True,
            )
        body = rdata.to_wire() or b""
        count = int.from_bytes(message[10:12], "big") + 1
        record = (
            self._request.key.wire + RECORD_HEAD.pack(RRType.TSIG, RRClass.ANY, 0, len(body)) + body
        )
        return message[:10] + count.to_bytes(2, "big") + message[12:] + record


def _last_record(wire: bytes) -> int:
    """Return the offset of the last record of a message; raise IndexError."""
    at, start = after_name(wire, 12) + 4, 0
    for _ in range(sum(wire[cell] << 8 | wire[cell + 1] for cell in (6, 8, 10))):
        if at >= len(wire):
            break
        start = at
        at = after_name(wire, at) + RECORD_HEAD.size
        at += wire[at - 2] << 8 | wire[at - 1]
    if not start:
        raise IndexError("the message has no records")
    return start
