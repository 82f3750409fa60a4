"""Rules for queries: name, type, class; and the rules for their replies.

Path: plugins/rewrite.py makes them, and applies them in the order of the Corefile.
Source: CoreDNS 1.14.7 plugin/rewrite name.go, type.go, class.go, ttl.go, rcode.go, cname_target.go.
Rule 1: each rule gets the query as changed by the rules before it.
Rule 2: a rule `is_pure` if it depends on the question only; replies can be cached only if all rules are.

Matchers (whether a rule applies to a name, and what replaces it):
Rule 1: names are compared as text: presentation form with the final dot; qnames in lower case.
Rule 2: affected_names() must cover every name that matches: for other names of a zone, negative answers are given
        without the chain.

Draft of a reply, to which its rules are applied record by record:
Source: CoreDNS 1.14.7 plugin/rewrite reverter.go.
Rule 1: each rule is applied to each record of the authority, answer and additional sections, in this order.  If there
        are none, rules for the whole message are applied once.
Rule 2: no I/O: a rule that needs another reply yields the name to look up, and is sent the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from hsdns.chain import Request
from hsdns.corefile.properties import Pattern
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import read_name

AffectedNames = tuple[Name, ...] | None  # matches are at or below these names; None: anywhere


def _anywhere(zone: Name) -> AffectedNames:
    return None


class Matcher(NamedTuple):
    """A way to match a name.

    `replace` takes a name and what replaces the match, and returns the new name, None if the name does not match;
    `affected_names` returns where in a zone names may match.
    """

    replace: Callable[[str, str], str | None]
    affected_names: Callable[[Name], AffectedNames] = _anywhere

    def matches(self, text: str) -> bool:
        """Whether a name matches."""
        return self.replace(text, "") is not None


def exact(text: str) -> Matcher:
    """Match the whole name."""
    name = name_of(text)
    shown = text if name is None else name.to_text()
    return Matcher(
        lambda text, to: to if text == shown else None,
        lambda zone: (name,) if name is not None and name.is_at_or_below(zone) else (),
    )


def prefix(start: str) -> Matcher:
    """Match the beginning of a name."""
    return Matcher(lambda text, to: to + text[len(start) :] if text.startswith(start) else None)


def suffix(end: str) -> Matcher:
    """Match the end of a name: names below what follows the first dot, as the text before may be the end of a label."""
    parent = name_of(end.partition(".")[2])

    def affected_names(zone: Name) -> AffectedNames:
        if "\\" in end or parent is None or zone.is_at_or_below(parent):
            return None
        return (parent,) if parent.is_at_or_below(zone) else ()

    return Matcher(
        lambda text, to: text.removesuffix(end) + to if text.endswith(end) else None, affected_names
    )


def substring(part: str) -> Matcher:
    """Match any part of a name; all occurrences are replaced."""
    return Matcher(lambda text, to: text.replace(part, to) if part in text else None)


def regex(pattern: Pattern) -> Matcher:
    """Match by a regular expression; `{0}` to `{n}` in the new name are replaced by the groups."""

    def replace(text: str, to: str) -> str | None:
        found = pattern.search(text)
        if found is None:
            return None
        # One after the other, as in CoreDNS: the text of a group may itself contain `{2}`.
        for number, value in enumerate((found.group(0), *found.groups())):
            to = to.replace(f"{{{number}}}", value or "")
        return to

    return Matcher(replace)


def at_or_below(apex: str) -> Matcher:
    """Match a name and all names below it; used by `answer auto` for names in replies."""
    below = suffix(f".{apex}")
    return Matcher(lambda text, to: to if text == apex else below.replace(text, f".{to}"))


def name_of(text: str) -> Name | None:
    """Parse a name; return None if it is invalid."""
    try:
        return Name.from_text(text).lowered()
    except ValueError:
        return None


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


@dataclass(slots=True)
class Record:
    """A mutable record; it may be both in the section that is being iterated and in the one that replaces it."""

    owner: Name
    rrtype: int
    ttl: int
    rdata: bytes
    rrclass: int


class Draft:
    """The parts of a reply that rules may change; `options` are those of its own OPT record, None without one."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.rcode, self.tc = reply.rcode, reply.tc
        self.answer = [Record(*rr) for rr in reply.answer]
        self.authority = [Record(*rr) for rr in reply.authority]
        self.additional = [Record(*rr) for rr in reply.additional]
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


class ReplyRule:
    """A rule for replies, of which each kind has one of the two methods."""

    def change(self, draft: Draft, record: Record) -> Lookup | None:
        """Change a record; return a generator if it must look up a name."""

    def change_message(self, draft: Draft) -> None:
        """Change the reply itself.

        It is called again for each record, as in CoreDNS: with rules that chain (rcode A to B, B to C) the number of
        records determines how many of them take effect.
        """


def rewrite(draft: Draft, rules: Sequence[ReplyRule]) -> Lookup:
    """Apply the rules, the last one first."""
    backwards = tuple(reversed(rules))
    walked: list[Record | None] = [*draft.authority, *draft.answer, *draft.additional]
    if draft.options is not None or not walked:
        walked.append(None)  # the OPT record, or a reply without records
    for record in walked:
        for rule in backwards:
            rule.change_message(draft)
            lookup = None if record is None else rule.change(draft, record)
            if lookup is not None:
                yield from lookup


def _to_rrs(records: Iterable[Record]) -> tuple[RR, ...]:
    return tuple(
        RR(each.owner, each.rrtype, each.ttl, each.rdata, each.rrclass) for each in records
    )


# Octets before the name in RDATA to which `answer value` applies.
_VALUES: Final[dict[int, int]] = {
    RRType.NS: 0,
    RRType.CNAME: 0,
    RRType.SOA: 0,  # MNAME only, not RNAME
    RRType.PTR: 0,
    RRType.MX: 2,
    RRType.SRV: 6,
    RRType.DNAME: 0,
}
_NAPTR_FIXED_LEN: Final = 4
_NAPTR_STRINGS: Final = 3


@dataclass
class OwnerRule(ReplyRule):
    """Rewrites owners that match."""

    matcher: Matcher
    to: str

    def change(self, draft: Draft, record: Record) -> None:
        """Rewrite the owner."""
        record.owner = self._rewritten(record.owner)

    def _rewritten(self, name: Name) -> Name:
        text = name.to_text()
        new = self.matcher.replace(text, self.to)
        return name if new is None or new == text else to_name(new)


class ValueRule(OwnerRule):
    """Rewrites names in RDATA that match."""

    def change(self, draft: Draft, record: Record) -> None:
        """Rewrite the name."""
        at = _value_at(record)
        if at is not None:
            name, end = read_name(record.rdata, at)
            record.rdata = record.rdata[:at] + self._rewritten(name).wire + record.rdata[end:]


@dataclass
class TtlRule(ReplyRule):
    """Limits TTLs to a range in seconds."""

    low: int
    high: int

    def change(self, draft: Draft, record: Record) -> None:
        """Limit the TTL."""
        record.ttl = min(max(record.ttl, self.low), self.high)


@dataclass
class RcodeRule(ReplyRule):
    """Replaces an rcode by another."""

    old: int
    new: int

    def change_message(self, draft: Draft) -> None:
        """Replace the rcode."""
        if draft.rcode == self.old:
            draft.rcode = self.new


@dataclass
class AliasRule(ReplyRule):
    """Changes the target of a CNAME, and replaces the records after it by those of the new target."""

    matcher: Matcher
    to: str

    def change(self, draft: Draft, record: Record) -> Lookup | None:
        """Change the target if it matches."""
        if record.rrtype != RRType.CNAME:
            return None
        target, _ = read_name(record.rdata, 0)
        new = self.matcher.replace(target.to_text(), self.to)
        return None if new is None else self._replace_target(draft, target, to_name(new))

    @staticmethod
    def _replace_target(draft: Draft, old: Name, new: Name) -> Lookup:
        found = yield new
        if found is None:
            return
        answer = []
        for record in draft.answer:
            if record.rrtype != RRType.CNAME:
                continue
            answer.append(record)
            if record.rdata == old.wire:
                record.rdata = new.wire
                break
        draft.answer = [*answer, *(Record(*rr) for rr in found.answer)]
        draft.tc = found.tc


def _value_at(record: Record) -> int | None:
    """Return the offset of the name in RDATA, None if there is none."""
    if record.rrtype != RRType.NAPTR:
        return _VALUES.get(record.rrtype)
    at = _NAPTR_FIXED_LEN
    for _ in range(_NAPTR_STRINGS):
        at += 1 + record.rdata[at]
    return at


class Step(NamedTuple):
    """The result of a rule: the query, the rules for its reply (`undo`), and whether it matched (`is_done`)."""

    query: Query
    undo: tuple[ReplyRule, ...] = ()
    is_done: bool = True


class Rule:
    """A rule for queries; with `stops` no later rule is applied after it matched."""

    is_pure: ClassVar[bool] = True
    stops: bool

    def apply(self, query: Query, request: Request) -> Step:
        """Return the query changed; `query` is the request's with all changes so far; raise InvalidName."""
        raise NotImplementedError

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names in a zone whose answer it may change."""
        return None


@dataclass
class RewriteName(Rule):
    """Rewrites the name.

    `automatic`: the original name is restored in the reply, in addition to the rules in `undo`.
    """

    matcher: Matcher
    to: str
    automatic: bool
    undo: tuple[ReplyRule, ...] = ()
    stops: bool = True

    def apply(self, query: Query, request: Request) -> Step:
        """Rewrite the name."""
        text = query.qname.lowered().to_text()
        new = self.matcher.replace(text, self.to)
        if new is None:
            return Step(query, is_done=False)
        qname, undo = to_name(new), self.undo
        if self.automatic:
            back = at_or_below(qname.to_text())
            undo = (OwnerRule(back, text), ValueRule(back, text), *undo)
        return Step(_with_question(query.replace(qname=qname)), undo)

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names that it matches."""
        return self.matcher.affected_names(zone)


@dataclass
class RewriteNumber(Rule):
    """Rewrites the type or class: `field` is `qtype` or `qclass`."""

    field: str
    old: int
    new: int
    stops: bool = True

    def apply(self, query: Query, request: Request) -> Step:
        """Rewrite the number."""
        if getattr(query, self.field) != self.old:
            return Step(query, is_done=False)
        return Step(_with_question(query.replace(**{self.field: self.new})))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return any name, but none for ANY and for classes other than IN: the chain answers all their questions."""
        is_by_chain = self.old == RRType.ANY if self.field == "qtype" else self.old != RRClass.IN
        return () if is_by_chain else None


@dataclass
class RewriteReply(Rule):
    """Rewrites the replies for names that match; without a matcher, the CNAME records of all replies."""

    undo: ReplyRule
    matcher: Matcher | None = None
    stops: bool = True

    def apply(self, query: Query, request: Request) -> Step:
        """Leave the query unchanged."""
        text = query.qname.lowered().to_text()
        if self.matcher is not None and not self.matcher.matches(text):
            return Step(query, is_done=False)
        return Step(query, (self.undo,))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names that it matches; a name that does not exist has no CNAME record."""
        return () if self.matcher is None else self.matcher.affected_names(zone)


def _with_question(query: Query) -> Query:
    question = query.qname.wire + query.qtype.to_bytes(2, "big") + query.qclass.to_bytes(2, "big")
    return query.replace(question_wire=question)
