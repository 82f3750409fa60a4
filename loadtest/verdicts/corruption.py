"""Kinds of corruption of a reply, and of harmless differences between correct servers: corruptions.txt, harmless.txt.

Path: proxy.py, clean.py, tests/load/verify -> here.
Rule 1: a kind is a line `NAME: OF: STEPS => VERDICT`; OF says which replies have it (fits()), STEPS are separated by
        commas, and a step is a part of the message, a field or an action, and a value.
Rule 2: a message is written anew, without compression; only the steps about octets and counts make it inconsistent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from hsdns.wire.decode import HEADER_LEN, decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import QR, RR, Query
from hsdns.wire.name import Name, after_name

FOLDER: Final = Path(__file__).parent
SECTIONS: Final = ("an", "ns", "ar")
ROOT: Final = Name(b"\0")


class Kind(NamedTuple):
    """A kind: its name, the replies that have it, what is done to one, and the verdict on the result."""

    name: str
    of: str
    steps: tuple[tuple[str, ...], ...]
    verdict: str


def read_kinds(name: str) -> list[Kind]:
    """The kinds in a file."""
    found = []
    for line in (FOLDER / name).read_text().splitlines():
        if line and not line.startswith("#"):
            text, _, verdict = line.partition(" => ")
            title, of, steps = text.split(": ")
            found.append(
                Kind(title, of, tuple(tuple(each.split()) for each in steps.split(", ")), verdict)
            )
    return found


class Message:
    """A reply that can be altered; `counts` is what is added to the counts of the four sections."""

    def __init__(self, wire: bytes, query: Query) -> None:
        reply = decode_reply(wire, query)
        self.id, self.flags = int.from_bytes(wire[:2], "big"), int.from_bytes(wire[2:4], "big")
        at = after_name(wire, HEADER_LEN) + 4
        self.questions = [bytearray(wire[HEADER_LEN:at])]
        self.sections = {"an": [*reply.answer], "ns": [*reply.authority], "ar": [*reply.additional]}
        self.counts = [0, 0, 0, 0]
        self.more, self.cut = b"", 0
        if reply.edns_options is not None:
            edns = query.edns or Edns(1232)
            self.sections["ar"].append(RR(ROOT, RRType.OPT, 0x8000 if edns.do else 0, b"", 1232))

    @property
    def octets(self) -> bytes:
        """The message on the wire."""
        parts: list[bytes | bytearray] = [*self.questions]
        lengths = [len(self.questions), *(len(each) for each in self.sections.values())]
        for owner, rrtype, ttl, rdata, rrclass in (
            each for part in self.sections.values() for each in part
        ):
            head = (rrtype, 2), (rrclass, 2), (ttl, 4), (len(rdata), 2)
            parts.append(
                owner.wire + b"".join(number.to_bytes(size, "big") for number, size in head) + rdata
            )
        counts = (length + more for length, more in zip(lengths, self.counts, strict=True))
        words = (self.id, self.flags, *counts)
        header = b"".join((word & 0xFFFF).to_bytes(2, "big") for word in words)
        found = header + b"".join(parts) + self.more
        return found[: len(found) - self.cut]

    def step(self, part: str, action: str, *values: str) -> None:
        """Do a step."""
        value = values[0] if values else ""
        if part in ("id", "flags"):
            setattr(self, part, getattr(self, part) ^ int(action, 16))
        elif part == "rcode":
            self.flags = self.flags & ~15 | int(action)
        elif part == "count":
            self.counts["qd an ns ar".split().index(action)] += int(value)
        elif part == "octets" and action.startswith("+"):
            self.more = bytes.fromhex(action[1:])
        elif part == "octets":
            self.cut = -int(action)
        elif part == "qd":
            self._question(action)
        else:
            self._records(part, action, values)

    def _question(self, action: str) -> None:
        if action == "drop":
            self.questions.clear()
        elif action == "again":
            self.questions.append(self.questions[0])
        else:  # an octet from the end, and its value
            at, value = action.split("=")
            self.questions[0][int(at)] = int(value)

    def _records(self, part: str, action: str, values: tuple[str, ...]) -> None:
        section = self.sections[part[:2]]
        if action == "add":
            owner, rrtype, ttl, rdata = values
            section.append(
                RR(self._name(owner), int(rrtype), int(ttl), bytes.fromhex(rdata.strip("-")))
            )
            return
        if action == "turn":
            section.append(section.pop(0))
            return
        for number in self._numbers(part, len(section)):
            record = section[number]
            if action == "again":
                section.append(record)
            elif action == "to":
                self.sections[values[0]].insert(0, record)
            elif action != "drop":
                section[number] = self._altered(record, action, values[0])
        if action in ("drop", "to"):
            for number in reversed(self._numbers(part, len(section))):
                del section[number]

    def _numbers(self, part: str, length: int) -> list[int]:
        where = part[2:]
        if where == "opt":
            return [at for at in range(length) if self.sections[part[:2]][at].rrtype == RRType.OPT]
        if where == "*":
            return [at for at in range(length) if self.sections[part[:2]][at].rrtype != RRType.OPT]
        return [int(where or 0)] if length > int(where or 0) else []

    def _altered(self, record: RR, action: str, value: str) -> RR:
        if action == "owner":
            return record._replace(owner=self._name(value))
        if action == "ttl":
            return record._replace(ttl=int(value, 0))
        if action == "type":
            return record._replace(rrtype=int(value))
        if action == "class":
            return record._replace(rrclass=int(value))
        if action == "weight":
            return record._replace(rdata=record.rdata[:2] + bytes(2) + record.rdata[4:])
        if action == "serial":
            return record._replace(rdata=record.rdata[:-20] + bytes(4) + record.rdata[-16:])
        at, _, octets = value.partition("^")  # RDATA: octets there are changed
        data, start = bytearray(record.rdata), int(at)
        if not octets:  # or cut
            return record._replace(rdata=bytes(data[:start]))
        for number, each in enumerate(bytes.fromhex(octets)):
            data[start + number] ^= each
        return record._replace(rdata=bytes(data))

    def _name(self, text: str) -> Name:
        qname = Name(bytes(self.questions[0][:-4]))
        if text == "UPPER":
            return Name(qname.wire.upper())
        if text == "PARENT":
            return Name(qname.wire[1 + qname.wire[0] :])
        return qname if text == "QNAME" else Name.from_text(text)


def fits(kind: Kind, wire: bytes, query: Query) -> bool:
    """Whether a reply to a query is one of those that have a kind."""
    rcode, answers, others = wire[3] & 15, wire[6] << 8 | wire[7], wire[10] << 8 | wire[11]
    of = {
        "any": True,
        "plain": query.edns is None and answers > 0,
        "answer": answers > 0,
        "addresses": query.qtype == RRType.A and answers > 1,
        "srv": query.qtype == RRType.SRV and answers > 0 and others > 1,
        "ptr": query.qtype == RRType.PTR and answers > 0,
        "edns": query.edns is not None and answers > 0,
        "none": rcode == 3,
        "empty": rcode == 0 and not answers,
        "negative": not answers,
    }
    return bool(wire[2] & QR >> 8) and rcode in (0, 3) and of[kind.of]


def alter(kind: Kind, wire: bytes, query: Query) -> bytes:
    """A reply with a kind of corruption."""
    message = Message(wire, query)
    for step in kind.steps:
        message.step(*step)
    return message.octets
