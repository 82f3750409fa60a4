"""Questions and expected replies as scenarios write them, close to what dig prints.

Path: scenario.py reads `dig` fences with parse_questions(); the drivers send Question.wire() and hand what
comes back to Expectation.differences().
Rule 1: a section that is not named must be empty, and without an OPT line the reply must have no OPT.
Rule 2: everything that is written is compared: TTLs, the case of owners and of names in RDATA, flags;
        compression never.
Rule 3: the order of records counts only where a section says `ordered`; a word `*` in RDATA stands for any word.
dnspython is the client, because it shares no code with the server under test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype

SECTIONS = ("ANSWER", "AUTHORITY", "ADDITIONAL")
ORDERS = ("", "ordered", "part", "*")
_FLAGS = {
    "qr": 0x8000,
    "aa": 0x0400,
    "tc": 0x0200,
    "rd": 0x0100,
    "ra": 0x0080,
    "ad": 0x0020,
    "cd": 0x0010,
}
_DEFAULT_UDP_SIZE = 1232  # what dig sends since 9.18


class DigError(ValueError):
    """A `dig` fence that cannot be read; the message begins with its line."""


class Record(NamedTuple):
    """One resource record in presentation form."""

    owner: str
    ttl: int
    rrclass: str
    rrtype: str
    rdata: str

    def __str__(self) -> str:
        return " ".join(map(str, self))

    def like(self, pattern: Record) -> Record:
        """The record with the words that a pattern leaves open made `*`."""
        words, open_words = self.rdata.split(), pattern.rdata.split()
        if "*" not in open_words or len(words) != len(open_words):
            return self
        rdata = " ".join(
            "*" if left == "*" else word for word, left in zip(words, open_words, strict=True)
        )
        return pattern if self._replace(rdata=rdata) == pattern else self


class Section(NamedTuple):
    """Expected records; `order` is one of ORDERS: any, ordered, some of them but not all, whatever."""

    records: tuple[Record, ...] = ()
    order: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a reply must look like; `opt` is the text of its OPT line, None for no OPT."""

    rcode: str
    flags: frozenset[str]
    opt: str | None = None
    sections: dict[str, Section] = field(default_factory=dict)

    def differences(self, question: Question, wire: bytes) -> list[str]:
        """Compare with a reply; an empty list means it is as expected."""
        try:
            reply = dns.message.from_wire(wire, one_rr_per_rrset=True)
        except dns.exception.DNSException as error:
            return [f"the reply cannot be read: {error!r}: {wire.hex()}"]
        return [*self._header(question, reply), *self._sections(reply)]

    def _header(self, question: Question, reply: dns.message.Message) -> Iterator[str]:
        flags = frozenset(name for name, bit in _FLAGS.items() if reply.flags & bit)
        echoed = [(rrset.name.to_text(), rrset.rdclass, rrset.rdtype) for rrset in reply.question]
        asked = [(question.qname, question.qclass, question.qtype)]
        for what, expected, seen in (
            ("id", question.query_id, reply.id),
            ("opcode", question.opcode, dns.opcode.to_text(reply.opcode())),
            ("question", asked, echoed),
            ("status", self.rcode, dns.rcode.to_text(reply.rcode())),
            ("flags", " ".join(sorted(self.flags)), " ".join(sorted(flags))),
            ("OPT", self.opt, _opt_text(reply)),
        ):
            if expected != seen:
                yield f"{what}: expected {expected}, got {seen}"

    def _sections(self, reply: dns.message.Message) -> Iterator[str]:
        for name, rrsets in zip(SECTIONS, reply.sections[1:], strict=True):
            expected = self.sections.get(name, Section())
            seen = [
                Record(
                    rrset.name.to_text(),
                    rrset.ttl,
                    dns.rdataclass.to_text(rrset.rdclass),
                    dns.rdatatype.to_text(rrset.rdtype),
                    rrset[0].to_text(chunksize=0),
                )
                for rrset in rrsets
            ]
            if difference := _section_difference(expected, seen):
                yield f"{name}: {difference}"


@dataclass(frozen=True, slots=True)
class Question:
    """One `dig` line; `peer` is what CoreDNS answers instead, where `differs` gives the reason of a difference."""

    line: int
    text: str
    qname: str
    qtype: int
    qclass: int
    options: tuple[str, ...]
    expected: Expectation
    differs: str | None = None
    peer: Expectation | None = None

    @property
    def protocol(self) -> str:
        """`tcp` if the line says so, else `udp`."""
        return "tcp" if "tcp" in self.options else "udp"

    @property
    def opcode(self) -> str:
        """The opcode as text, QUERY unless the line says otherwise."""
        return next((word[7:] for word in self.options if word.startswith("opcode=")), "QUERY")

    @property
    def query_id(self) -> int:
        """The message ID, made of the line so that a failing run can be repeated."""
        return (self.line * 257 + len(self.text)) & 0xFFFF

    def wire(self) -> bytes:
        """Encode the query."""
        message = dns.message.Message(id=self.query_id)
        message.flags = dns.flags.RD
        message.set_opcode(dns.opcode.from_text(self.opcode))
        qname = dns.name.from_text(self.qname)
        message.find_rrset(
            message.question,
            qname,
            dns.rdataclass.RdataClass.make(self.qclass),
            dns.rdatatype.RdataType.make(self.qtype),
            create=True,
            force_unique=True,
        )
        size, version, ednsflags, edns = _DEFAULT_UDP_SIZE, 0, 0, False
        edns_options: list[dns.edns.Option] = []
        for word in self.options:
            name, _, value = word.partition("=")
            if name in ("tcp", "notcp", "opcode"):
                continue
            if name == "norec":
                message.flags &= ~dns.flags.RD
            elif name == "cd":
                message.flags |= dns.flags.CD
            elif name == "ad":
                message.flags |= dns.flags.AD
            elif name in ("edns", "bufsize", "dnssec", "opt"):
                edns = True
                if name == "edns":
                    version = int(value or 0)
                elif name == "bufsize":
                    size = int(value)
                elif name == "dnssec":
                    ednsflags = dns.flags.DO
                else:
                    code, _, data = value.partition(":")
                    edns_options.append(
                        dns.edns.GenericOption(dns.edns.OptionType.make(code), bytes.fromhex(data))
                    )
        if edns:
            message.use_edns(version, ednsflags, size, options=edns_options)
        return message.to_wire(max_size=65535)


_OPTIONS = re.compile(
    r"\+(tcp|notcp|norec|cd|ad|dnssec|edns(=\d+)?|bufsize=\d+|opt=\d+:([0-9a-f]{2})*|opcode=[A-Z]+)"
)


def parse_questions(text: str, first_line: int = 1) -> list[Question]:
    """Read a `dig` fence; raise DigError."""
    questions: list[Question] = []
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("dig ")]
    before = lines[: starts[0]] if starts else lines
    if any(line.strip() for line in before):
        raise DigError(
            f"{first_line}: a dig fence begins with a line `dig NAME [CLASS] TYPE [+OPTION...]`"
        )
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        questions.append(_question(lines[start:end], first_line + start))
    return questions


def _question(lines: list[str], at: int) -> Question:
    words = lines[0].split()[1:]
    options = [word for word in words if word.startswith("+")]
    for option in options:
        if not _OPTIONS.fullmatch(option):
            raise DigError(f"{at}: option {option} is not known")
    asked = [word for word in words if not word.startswith("+")]
    if len(asked) not in (2, 3):
        raise DigError(f"{at}: expected `dig NAME [CLASS] TYPE`, not {lines[0]!r}")
    blocks: list[list[tuple[int, str]]] = [[]]
    reason = None
    for number, line in enumerate(lines[1:], at + 1):
        if line.startswith("differs:"):
            reason = line.removeprefix("differs:").strip()
            blocks.append([])
        elif line.strip():
            blocks[-1].append((number, line.strip()))
    if len(blocks) > 2 or reason == "":
        raise DigError(f"{at}: one `differs: REASON` for a question")
    if not blocks[0]:
        raise DigError(f"{at}: no reply is expected; begin it with `;; RCODE FLAG...`")
    return Question(
        line=at,
        text=lines[0].removeprefix("dig "),
        qname=asked[0],
        qtype=int(dns.rdatatype.from_text(asked[-1])),
        qclass=int(dns.rdataclass.from_text(asked[1] if len(asked) == 3 else "IN")),
        options=tuple(option[1:] for option in options),
        expected=_expectation(blocks[0]),
        differs=reason,
        peer=_expectation(blocks[1]) if len(blocks) == 2 and blocks[1] else None,
    )


def _expectation(lines: list[tuple[int, str]]) -> Expectation:
    number, head = lines[0]
    words = head.removeprefix(";;").split()
    if not head.startswith(";;") or not words or not set(words[1:]) <= set(_FLAGS):
        raise DigError(f"{number}: expected `;; RCODE FLAG...`, not {head!r}")
    dns.rcode.from_text(words[0])
    found = Expectation(words[0], frozenset(words[1:]))
    section: str | None = None
    for number, line in lines[1:]:
        words = line.removeprefix(";;").split()
        if line.startswith(";; OPT "):
            found = replace(found, opt=" ".join(words[1:]))
        elif line.startswith(";;"):
            section, order = words[0], " ".join(words[1:])
            if section not in SECTIONS or order not in ORDERS or section in found.sections:
                raise DigError(f"{number}: expected one of {SECTIONS} once, with one of {ORDERS}")
            found.sections[section] = Section(order=order)
        elif section is None:
            raise DigError(f"{number}: a record before a section line")
        else:
            known = found.sections[section]
            found.sections[section] = known._replace(
                records=(*known.records, _record(number, line))
            )
    for section, expected in found.sections.items():
        if not expected.records and expected.order != "*":
            raise DigError(f"{number}: section {section} is named but has no records; remove it")
    return found


def _record(number: int, line: str) -> Record:
    try:
        owner, ttl, rrclass, rrtype, rdata = line.split(None, 4)
        words = rdata.split()
        text = (
            " ".join("0000" if word == "*" else word for word in words) if "*" in words else rdata
        )
        parsed = dns.rdata.from_text(rrclass, rrtype, text).to_text(chunksize=0)
        if "*" in words:
            known = zip(words, parsed.split(), strict=True)
            parsed = " ".join("*" if word == "*" else seen for word, seen in known)
        return Record(owner, int(ttl), rrclass, rrtype, parsed)
    except (ValueError, dns.exception.DNSException) as error:
        message = f"{number}: not a record `OWNER TTL CLASS TYPE RDATA`: {line!r}: {error}"
        raise DigError(message) from error


def _section_difference(expected: Section, seen: list[Record]) -> str | None:
    wanted = list(expected.records)
    for pattern in wanted:
        seen = [record.like(pattern) for record in seen]
    if expected.order == "*":
        return None
    if expected.order == "part":
        strangers = [record for record in seen if record not in wanted]
        if strangers or not 0 < len(seen) < len(wanted):
            return f"expected some but not all of\n{_listed(wanted)}got\n{_listed(seen)}"
        return None
    if expected.order != "ordered":
        wanted, seen = sorted(wanted), sorted(seen)
    if wanted == seen:
        return None
    return f"expected\n{_listed(wanted)}got\n{_listed(seen)}"


def _listed(records: Iterable[Record]) -> str:
    return "".join(f"    {record}\n" for record in records) or "    nothing\n"


def _opt_text(reply: dns.message.Message) -> str | None:
    """Write a reply's OPT as scenarios do: `size=1232 [version=N] [do] [CODE:HEX | EDE:CODE["TEXT"]...]`."""
    if reply.opt is None:
        return None
    words = [f"size={reply.payload}"]
    if reply.edns:
        words.append(f"version={reply.edns}")
    if reply.ednsflags & dns.flags.DO:
        words.append("do")
    for option in reply.options:
        if isinstance(option, dns.edns.EDEOption):
            words.append(f"EDE:{int(option.code)}" + (f'"{option.text}"' if option.text else ""))
            continue
        data = option.to_wire()
        words.append(f"{int(option.otype)}:{(data or b'').hex()}")
    return " ".join(words)
