"""A reply in the making: what rules change of it, record by record.

Path: plugins/rewrite.py -> rewrite() -> the rules of answer.py and option.py, the last one of the block first.
Source: CoreDNS 1.14.7 plugin/rewrite reverter.go.
Rule 1: each rule sees each record of authority, answer and additional section, in this order.  Where there is no record
        at all, rules about the whole message are applied once, without one.
Rule 2: no IO: a rule that needs another answer yields the name, and is given the reply.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Protocol

from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

Lookup = Generator[Name, Reply | None, None]  # yields what to look up, takes what was found


class BadName(ValueError):
    """What a rule made is no domain name."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def to_name(text: str) -> Name:
    """Read a name that a rule made; raise BadName."""
    try:
        return Name.from_text(text)
    except ValueError:
        raise BadName(text) from None


class Record:
    """A record that can be changed; it may stand in a list that is being walked and in the one that replaces it."""

    __slots__ = ("owner", "rdata", "rrclass", "rrtype", "ttl")

    def __init__(self, rr: RR) -> None:
        self.owner, self.rrtype, self.ttl, self.rdata, self.rrclass = rr

    def to_rr(self) -> RR:
        """The record as it is now."""
        return RR(self.owner, self.rrtype, self.ttl, self.rdata, self.rrclass)


class ReplyRule(Protocol):
    """Something to be done to a reply."""

    is_about_message: bool  # whether it is applied also where there is no record

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Change the draft or the record; where it has to look something up, return how."""


class Draft:
    """What rules may change of a reply.  `options` are those of its own OPT record, None where it has none."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.rcode, self.tc = reply.rcode, reply.tc
        self.answer = [Record(rr) for rr in reply.answer]
        self.authority = [Record(rr) for rr in reply.authority]
        self.additional = [Record(rr) for rr in reply.additional]
        self.options = None if reply.edns_options is None else list(reply.edns_options)

    def to_reply(self) -> Reply:
        """The reply as it is now."""
        return self._reply.replace(
            rcode=self.rcode,
            tc=self.tc,
            answer=_to_rrs(self.answer),
            authority=_to_rrs(self.authority),
            additional=_to_rrs(self.additional),
            edns_options=None if self.options is None else tuple(self.options),
        )


def rewrite(draft: Draft, rules: Sequence[ReplyRule]) -> Lookup:
    """Apply rules, the last one first."""
    backwards = tuple(reversed(rules))
    walked: list[Record | None] = [*draft.authority, *draft.answer, *draft.additional]
    if draft.options is not None:
        walked.append(None)  # the OPT record, which no rule but those about the message cares for
    for record in walked or [None]:
        for rule in backwards:
            if record is None and not rule.is_about_message:
                continue
            lookup = rule.apply(draft, record)
            if lookup is not None:
                yield from lookup


def _to_rrs(records: Iterable[Record]) -> tuple[RR, ...]:
    return tuple(record.to_rr() for record in records)
