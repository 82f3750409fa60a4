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

from typing import Final, NamedTuple

from hsdns.load.verify.judge import ADDITIONAL, Answer, answer_of
from hsdns.wire.decode import BadReply, WrongQuestion, decode_whole
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RD, RR, Query, Reply
from hsdns.wire.name import Name

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
    """Read a reply without its ID; None if it is none to the query.  `most_ttl` is the highest TTL in seconds."""
    flags = content[0] << 8 | content[1]
    try:
        reply, opts, agrees = decode_whole(b"\0\0" + content, query)
    except WrongQuestion:
        return None
    except BadReply:
        return Reading(Answer(flags & 15), MESSAGE)
    field = ""
    if not agrees:
        field = MESSAGE
    elif (flags ^ query.flags) & _OPCODE:
        field = OPCODE
    elif (flags ^ query.flags) & RD or flags & _Z:
        field = FLAGS
    elif opts and (query.edns is None or len(opts) > 1 or not _is_right_opt(*opts[0])):
        field = OPT
    answer = answer_of(reply.rcode, reply.answer, reply.additional)
    return Reading(answer, field or wrong_field(reply, query, most_ttl))


def _is_right_opt(section: int, record: RR) -> bool:
    """Whether it is in the additional section, for the root, and of version 0."""
    return section == 2 and len(record.owner.wire) == 1 and not record.ttl >> 16 & 255


def is_usable(reply: Reply, query: Query) -> bool:
    """Whether a stub resolver takes the records of a reply: they have the names and the class that it expects."""
    return wrong_field(reply, query) not in (CLASS, OWNER)


def wrong_field(reply: Reply, query: Query, most_ttl: int = MOST_TTL) -> str:
    """The first wrong field of a reply to the question of a query, "" if none is wrong."""
    answer, authority, qtype = reply.answer, reply.authority, query.qtype
    name, is_positive, is_long = query.qname, False, False
    names, ttls = {name.lower}, dict[int, int]()
    for owner, rrtype, ttl, rdata, rrclass in answer:
        if rrclass != RRClass.IN:
            return CLASS
        if owner is not name and owner.lower != name.lower:
            return OWNER
        is_long = is_long or ttl > most_ttl or ttls.setdefault(rrtype, ttl) != ttl
        if qtype in (rrtype, RRType.ANY):
            is_positive = True
        elif rrtype == RRType.CNAME:
            name = Name(rdata)
            names.add(name.lower)
            ttls.clear()  # of the next name
    if not (reply.aa or reply.ra):
        return AUTHORITATIVE
    for each in authority:
        if each.rrclass != RRClass.IN:
            return CLASS
        is_long = is_long or each.ttl > most_ttl
    if is_long:
        return TTL
    if len(answer) > 1 and len({each[1::2] for each in answer}) < len(answer):  # by type and RDATA
        return DUPLICATE
    if not (is_positive and not authority and not reply.additional):
        return _beside(reply, name, names, is_positive=is_positive)
    return ""


def _beside(reply: Reply, name: Name, names: set[bytes], *, is_positive: bool) -> str:
    """The first wrong field beside the answer, whose last name is `name`."""
    authority = reply.authority
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
        for each in (*reply.answer, *authority)
        if each.rrtype in _BEFORE_NAME
    }
    for each in reply.additional:
        if each.rrclass != RRClass.IN:
            return CLASS
        if each.owner.lower not in names:
            return ADDITIONAL
    return ""
