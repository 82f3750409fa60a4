"""The compared content of a reply: the rcode, and type and RDATA of each record of its answer section.

Path: verifier.py -> here -> judge.py; truth.py makes the same from right answers.
Rule 1: names in RDATA are in lower case, and the weight of SRV is omitted: no specification defines it.
Rule 2: nearly every reply repeats the question octet for octet, and its records have a pointer to it as their owner and
        no compressed name in their RDATA.  Such a reply is read here without an object for each record, in a fifth of
        the time.  For any other, wire/decode.py decides whether it is a reply.
Rule 3: the fast method reads only the answer section, as stub resolvers do.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from hsdns.load.judge import Answer
from hsdns.load.questions import Question
from hsdns.wire.decode import HEADER_LEN, BadReply, decode_reply
from hsdns.wire.iana import RRType
from hsdns.wire.message import QR, RR
from hsdns.wire.name import MAX_LABEL_LEN, MAX_NAME_LEN

_NAMES: Final = (RRType.CNAME, RRType.PTR, RRType.SRV, RRType.NS)
_HEADER: Final = struct.Struct("!HHH")  # flags, questions, answers: the fields after the ID
_RECORD: Final = struct.Struct("!HHHIH")  # owner, type, class, TTL, RDLENGTH
_TO_QUESTION: Final = 0xC000 | HEADER_LEN
_LENGTHS: Final[dict[int, int]] = {RRType.A: 4, RRType.AAAA: 16}
# Octets before the name in RDATA.
_BEFORE: Final[dict[int, int]] = {RRType.SRV: 6, RRType.PTR: 0, RRType.CNAME: 0}


def answer_of(rcode: int, records: Sequence[RR]) -> Answer:
    """The answer in records."""
    found = []
    for record in records:
        rdata = record.rdata
        if record.rrtype in _NAMES:
            if record.rrtype == RRType.SRV:
                rdata = rdata[:2] + rdata[4:6] + rdata[6:].lower()
            else:
                rdata = rdata.lower()
        found.append((record.rrtype, rdata))
    return Answer(rcode, frozenset(found))


def read_answer(content: bytes, question: Question) -> Answer | None:
    """The answer in a reply without its ID; None if it is not a reply to the question."""
    found = _plain(content, question.section)
    if found is not None:
        return found
    try:
        reply = decode_reply(b"\0\0" + content, question.query())
    except BadReply:
        return None
    return answer_of(reply.rcode, reply.answer)


def _plain(content: bytes, section: bytes) -> Answer | None:
    """The answer in a reply of the common form of Rule 2, without its ID; None for any other."""
    at = HEADER_LEN - 2
    end = at + len(section)
    if content[at:end] != section:
        return None
    flags, questions, count = _HEADER.unpack_from(content)
    if questions != 1 or not flags & QR or not count:  # OPT may have the rest of the rcode
        return None
    found, unpack = [], _RECORD.unpack_from
    try:
        for _ in range(count):
            owner, rrtype, _, _, length = unpack(content, end)
            start = end + _RECORD.size
            end = start + length
            rdata = content[start:end]
            if owner != _TO_QUESTION or len(rdata) != length:
                return None
            if rrtype in _BEFORE:
                before = _BEFORE[rrtype]
                if not _is_name(rdata, before):
                    return None
                rdata = rdata[:2] + rdata[4:6] + rdata[6:].lower() if before else rdata.lower()
            elif _LENGTHS.get(rrtype) != length:
                return None
            found.append((rrtype, rdata))
    except struct.error:
        return None
    return Answer(flags & 15, frozenset(found))


def _is_name(rdata: bytes, at: int) -> bool:
    """Whether the rest of the RDATA is one uncompressed name."""
    if len(rdata) - at > MAX_NAME_LEN:
        return False
    try:
        while length := rdata[at]:
            if length > MAX_LABEL_LEN:
                return False
            at += 1 + length
    except IndexError:
        return False
    return at == len(rdata) - 1
