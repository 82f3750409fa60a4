"""Finds errors in a user's reply here, because the code that encodes it later does not know the handler.

Path: plugins/python, with the result of handle().
Rule: it rejects only replies that cannot be sent, and addresses of a wrong length, which no client can read.
"""

from __future__ import annotations

from typing import Final, cast

from hsdns.wire.iana import RRType, type_to_text
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

MAX_TTL: Final = (
    2**32 - 1
)  # the range of the field; clients treat more than 2**31 - 1 as 0 (RFC 2181 section 8)
MAX_RCODE: Final = 0xFFF  # with the extended bits of EDNS
MAX_LENGTH: Final = 0xFFFF  # octets of RDATA
_LENGTHS: Final[dict[int, int]] = {RRType.A: 4, RRType.AAAA: 16}


def fault(result: object) -> str:
    """Return the error in the result of a handler, as the end of a sentence; "" if there is none."""
    if not isinstance(result, Reply):
        return f"returned {type(result).__name__}, not a Reply"
    if not _is_number(result.rcode, MAX_RCODE):
        return f"returned a Reply with rcode {result.rcode!r}; write one such as Rcode.NXDOMAIN"
    for name in ("answer", "authority", "additional"):
        section = cast("object", getattr(result, name))
        if not isinstance(section, tuple | list) or isinstance(section, RR):
            return (
                f"returned a Reply whose {name} is {type(section).__name__}, not a tuple of records"
            )
        for number, record in enumerate(section):
            wrong = _fault_of_record(record)
            if wrong:
                return f"returned a Reply whose {name}[{number}] {wrong}"
    return ""


def ttl_fault(ttl: object) -> str:
    """Return the error in a TTL, "" if there is none."""
    if _is_number(ttl, MAX_TTL):
        return ""
    return f"has TTL {ttl!r}; a TTL is a whole number of seconds from 0 to {MAX_TTL}"


def _fault_of_record(record: object) -> str:
    if not isinstance(record, tuple) or len(record) != len(RR._fields):
        return f"is {type(record).__name__}, not a record; make one with record()"
    owner, rrtype, ttl, rdata, rrclass = record
    if not isinstance(owner, Name):
        return f"has the owner {owner!r}, not a Name; write Name.from_text(...)"
    if not _is_number(rrtype, 0xFFFF) or not _is_number(rrclass, 0xFFFF):
        return f"has type {rrtype!r} and class {rrclass!r}; both are numbers, such as RRType.A"
    if not isinstance(rdata, bytes | bytearray) or len(rdata) > MAX_LENGTH:
        return f"has rdata of {type(rdata).__name__}, not octets; make the record with record()"
    wanted = _LENGTHS.get(rrtype)
    if wanted is not None and len(rdata) != wanted:
        return (
            f"is of type {type_to_text(rrtype)}, whose address has {wanted} octets, and has {len(rdata)}; "
            "make the record with record()"
        )
    return ttl_fault(ttl)


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and 0 <= value <= most
