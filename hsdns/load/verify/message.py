"""Reads the whole of a reply: its answer, and the first field in which it is no correct reply to its query.

Path: verifier.py, propagation.py, cli/wait.py -> here -> judge.py compares the answer with what was true.
Rule 1: required is what stub resolvers or the standards require.  glibc ignores records whose owner is not the name
        that it expects after the CNAMEs so far; glibc and Go take a reply without records, AA and RA for a lame one.
Rule 2: correct servers differ in order, case of names, compression, TTLs up to `most_ttl`, options, AD, the weight of
        SRV, and in what authority and additional section have beyond the SOA of a negative reply.
Rule 3: a reply to another question, or with QR 0, is none to its query; the sender ignores it, as resolvers do.
Source: RFC 1035 section 4.1, RFC 2181 sections 5 and 8, RFC 2308 sections 2 and 3, RFC 6891 section 6.1.1.
"""

from __future__ import annotations

from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final, NamedTuple

from hsdns.load.verify.judge import ADDITIONAL, Answer, answer_of
from hsdns.wire.decode import HEADER_LEN, BadReply, WrongQuestion, decode_reply
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RD, Query, Reply
from hsdns.wire.name import Name, after_name
from hsdns.wire.rdata import RECORD_HEAD

MOST_TTL: Final = 3600  # seconds: the most that a kubernetes block can set

# Names of fields; judge.py has more.
MESSAGE: Final = "message"  # it cannot be decoded, or its counts do not agree with its length
OPCODE: Final = "opcode"
FLAGS: Final = "flags"  # RD is not that of the query, or Z is not 0
AUTHORITATIVE: Final = "aa"  # AA and RA are 0
OPT: Final = "opt"
OWNER: Final = "owner"
CLASS: Final = "class"
TTL: Final = "ttl"
DUPLICATE: Final = "duplicate"
SOA: Final = "soa"
AUTHORITY: Final = "authority"

_Z: Final = 0x0040
_OPCODE: Final = 0x7800
_OF_ZONES: Final = (RRType.NS, RRType.SOA)
_OF_HOSTS: Final = (RRType.A, RRType.AAAA, RRType.CNAME, RRType.PTR, RRType.SRV, RRType.TXT)
# Octets before the name in RDATA of types whose names additional records are about.
_BEFORE_NAME: Final = {RRType.SRV: 6, RRType.MX: 2, RRType.NS: 0, RRType.PTR: 0}


class Reading(NamedTuple):
    """A reply as read: its answer, and the wrong field, "" if none is wrong."""

    answer: Answer
    field: str = ""


def read(content: bytes, query: Query, most_ttl: int = MOST_TTL) -> Reading | None:
    """Read a reply without its ID; None if it is none to the query.  `most_ttl` is the highest right TTL in seconds."""
    wire, flags = b"\0\0" + content, content[0] << 8 | content[1]
    try:
        reply = decode_reply(wire, query)
    except WrongQuestion:
        return None
    except BadReply:
        return Reading(Answer(flags & 15), MESSAGE)
    answer = answer_of(reply.rcode, reply.answer, reply.additional)
    opts = _opts(wire)
    if opts is None:
        return Reading(answer, MESSAGE)
    if (flags ^ query.flags) & _OPCODE:
        return Reading(answer, OPCODE)
    if (flags ^ query.flags) & RD or flags & _Z:
        return Reading(answer, FLAGS)
    if opts and (query.edns is None or opts != [(2, b"\0", 0)]):
        return Reading(answer, OPT)
    return Reading(answer, wrong_field(reply, query, most_ttl))


def _opts(wire: bytes) -> list[tuple[int, bytes, int]] | None:
    """Section, owner and version of each OPT record; None if the counts do not agree with the length of the message."""
    found, at = [], after_name(wire, HEADER_LEN) + 4
    try:
        for section, cell in enumerate((6, 8, 10)):
            for _ in range(wire[cell] << 8 | wire[cell + 1]):
                owner, at = at, after_name(wire, at)
                rrtype, _, ttl, length = RECORD_HEAD.unpack_from(wire, at)
                if rrtype == RRType.OPT:
                    found.append((section, wire[owner:at], ttl >> 16 & 255))
                at += RECORD_HEAD.size + length
    except (IndexError, StructError):
        return None
    return found if at == len(wire) else None


def is_usable(reply: Reply, query: Query) -> bool:
    """Whether a stub resolver takes the records of a reply: they have the names and the class that it expects."""
    return wrong_field(reply, query) not in (CLASS, OWNER)


def wrong_field(reply: Reply, query: Query, most_ttl: int = MOST_TTL) -> str:
    """The first wrong field of a reply to the question of a query, "" if none is wrong."""
    answer, authority = reply.answer, reply.authority
    if any(each.rrclass != RRClass.IN for each in (*answer, *authority, *reply.additional)):
        return CLASS
    name, is_positive = query.qname, False
    names, ttls = {name.lower}, set[tuple[bytes, int, int]]()
    for owner, rrtype, ttl, rdata, _ in answer:
        if owner.lower != name.lower:
            return OWNER
        ttls.add((owner.lower, rrtype, ttl))
        if query.qtype in (rrtype, RRType.ANY):
            is_positive = True
        elif rrtype == RRType.CNAME:
            name = Name(rdata)
            names.add(name.lower)
    if not (reply.aa or reply.ra):
        return AUTHORITATIVE
    if len({each[:2] for each in ttls}) < len(ttls) or any(
        each.ttl > most_ttl for each in (*answer, *authority)
    ):
        return TTL
    if len({each[1::2] for each in answer}) < len(answer):  # by type and RDATA
        return DUPLICATE
    soas = [each for each in authority if each.rrtype == RRType.SOA]
    if not is_positive and (len(soas) != 1 or not name.is_at_or_below(soas[0].owner)):
        return SOA
    if (is_positive and soas) or any(
        each.rrtype in _OF_HOSTS
        or (each.rrtype in _OF_ZONES and not name.is_at_or_below(each.owner))
        for each in authority
    ):
        return AUTHORITY
    names |= {
        each.rdata[_BEFORE_NAME[each.rrtype] :].lower()
        for each in (*answer, *authority)
        if each.rrtype in _BEFORE_NAME
    }
    return "" if names >= {each.owner.lower for each in reply.additional} else ADDITIONAL
