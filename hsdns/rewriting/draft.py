"""Draft of a reply, to which rules are applied record by record.

Path: plugins/rewrite.py -> rewrite() -> the rules of answer.py and option.py, in reverse order.
Source: CoreDNS 1.14.7 plugin/rewrite reverter.go.
Rule 1: each rule is applied to each record of the authority, answer and additional sections, in this order.  If there
        are none, rules for the whole message are applied once.
Rule 2: no I/O: a rule that needs another reply yields the name to look up, and is sent the reply.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Protocol

from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

Lookup = Generator[Name, Reply | None, None]  # yields the name to look up; is sent the reply


class InvalidName(ValueError):
    """The result of a rule is not a domain name."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def to_name(text: str) -> Name:
    """Parse the name that a rule made; raise InvalidName."""
    try:
        return Name.from_text(text)
    except ValueError:
        raise InvalidName(text) from None


class Record:
    """A mutable record; it may be both in the section that is being iterated and in the one that replaces it."""

    __slots__ = ("owner", "rdata", "rrclass", "rrtype", "ttl")

    def __init__(self, rr: RR) -> None:
        self.owner, self.rrtype, self.ttl, self.rdata, self.rrclass = rr

    def to_rr(self) -> RR:
        """Return the record as it is now."""
        return RR(self.owner, self.rrtype, self.ttl, self.rdata, self.rrclass)


class ReplyRule(Protocol):
    """A rule for replies."""

    is_about_message: bool  # whether it is also applied to a reply without records

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Change the draft or the record; return a generator if it must look up a name."""


class Draft:
    """The parts of a reply that rules may change; `options` are those of its own OPT record, None without one."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.rcode, self.tc = reply.rcode, reply.tc
        self.answer = [Record(rr) for rr in reply.answer]
        self.authority = [Record(rr) for rr in reply.authority]
        self.additional = [Record(rr) for rr in reply.additional]
        self.options = None if reply.edns_options is None else list(reply.edns_options)

    def to_reply(self) -> Reply:
        """Return the reply as it is now."""
        return self._reply.replace(
            rcode=self.rcode,
            tc=self.tc,
            answer=_to_rrs(self.answer),
            authority=_to_rrs(self.authority),
            additional=_to_rrs(self.additional),
            edns_options=None if self.options is None else tuple(self.options),
        )


def rewrite(draft: Draft, rules: Sequence[ReplyRule]) -> Lookup:
    """Apply the rules, the last one first."""
    backwards = tuple(reversed(rules))
    walked: list[Record | None] = [*draft.authority, *draft.answer, *draft.additional]
    if draft.options is not None:
        # The OPT record, which only rules for the message see.
        walked.append(None)
    for record in walked or [None]:
        for rule in backwards:
            if record is None and not rule.is_about_message:
                continue
            lookup = rule.apply(draft, record)
            if lookup is not None:
                yield from lookup


def _to_rrs(records: Iterable[Record]) -> tuple[RR, ...]:
    return tuple(record.to_rr() for record in records)
