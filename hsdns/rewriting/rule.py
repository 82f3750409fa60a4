"""Rules for queries: name, type, class; and the rules for their replies.

Path: syntax.py makes them; plugins/rewrite.py applies them in the order of the Corefile.
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

from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from hsdns.chain import Request
from hsdns.corefile.properties import Match, Pattern
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import read_name

AffectedNames = tuple[Name, ...] | None  # matches are at or below these names; None: anywhere


class Matcher(Protocol):
    """One of the ways to match a name."""

    def matches(self, text: str) -> bool:
        """Whether the name matches."""

    def replace(self, text: str, to: str) -> str | None:
        """Return the replacement of a name, None if it does not match."""

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return where in a zone names may match."""


class Exact:
    """Matches the whole name."""

    def __init__(self, text: str) -> None:
        self._name = name_of(text)
        self.text = text if self._name is None else self._name.to_text()

    def matches(self, text: str) -> bool:
        """Compare."""
        return text == self.text

    def replace(self, text: str, to: str) -> str | None:
        """Replace the name."""
        return to if text == self.text else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the name, if it is in the zone."""
        name = self._name
        return (name,) if name is not None and name.is_at_or_below(zone) else ()


class Prefix:
    """Matches the beginning of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the beginning."""
        return text.startswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the beginning."""
        return to + text[len(self.text) :] if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Suffix:
    """Matches the end of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the end."""
        return text.endswith(self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the name after the first dot, because the text before it may be the end of a label."""
        parent = name_of(self.text.partition(".")[2])
        if "\\" in self.text or parent is None or zone.is_at_or_below(parent):
            return None
        return (parent,) if parent.is_at_or_below(zone) else ()


class Substring:
    """Matches any part of a name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Search the text."""
        return self.text in text

    def replace(self, text: str, to: str) -> str | None:
        """Replace all occurrences."""
        return text.replace(self.text, to) if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Regex:
    """Matches by a regular expression."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def matches(self, text: str) -> bool:
        """Search."""
        return self._pattern.search(text) is not None

    def replace(self, text: str, to: str) -> str | None:
        """Replace the whole name by `to`, with `{0}` to `{n}` replaced by the groups."""
        found = self._pattern.search(text)
        return None if found is None else _substitute_groups(to, found)

    def affected_names(self, zone: Name) -> AffectedNames:
        """Anywhere."""
        return None


class Below:
    """Matches a name and all names below it; used by `answer auto` for names in replies."""

    def __init__(self, text: str) -> None:
        self.text = text

    def matches(self, text: str) -> bool:
        """Compare the end, by labels."""
        return text == self.text or text.endswith("." + self.text)

    def replace(self, text: str, to: str) -> str | None:
        """Replace the end."""
        return text[: len(text) - len(self.text)] + to if self.matches(text) else None

    def affected_names(self, zone: Name) -> AffectedNames:
        """Raise AssertionError: it is used for replies only."""
        return None


def name_of(text: str) -> Name | None:
    """Parse a name; return None if it is invalid."""
    try:
        return Name.from_text(text).lowered()
    except ValueError:
        return None


def _substitute_groups(to: str, found: Match) -> str:
    # One after the other, as in CoreDNS: the text of a group may itself contain `{2}`.
    for number, value in enumerate((found.group(0), *found.groups())):
        to = to.replace(f"{{{number}}}", value or "")
    return to


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


class OwnerRule:
    """Rewrites owners that match."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Rewrite the owner."""
        assert record is not None, "it is not about the message"
        text = record.owner.to_text()
        new = self._matcher.replace(text, self._to)
        if new is not None and new != text:
            record.owner = to_name(new)
        return None


class ValueRule:
    """Rewrites names in RDATA that match."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Rewrite the name."""
        assert record is not None, "it is not about the message"
        at = _value_at(record)
        if at is None:
            return None
        name, end = read_name(record.rdata, at)
        text = name.to_text()
        new = self._matcher.replace(text, self._to)
        if new is not None and new != text:
            record.rdata = record.rdata[:at] + to_name(new).wire + record.rdata[end:]
        return None


class TtlRule:
    """Limits TTLs to a range in seconds."""

    is_about_message = False

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Limit the TTL."""
        assert record is not None, "it is not about the message"
        record.ttl = min(max(record.ttl, self.low), self.high)
        return None


class RcodeRule:
    """Replaces an rcode by another."""

    is_about_message = True

    def __init__(self, old: int, new: int) -> None:
        self.old, self.new = old, new

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Replace the rcode.

        It is applied again for each record, as in CoreDNS: with rules that chain (A to B, B to C) the number of records
        determines how many of them take effect.
        """
        if draft.rcode == self.old:
            draft.rcode = self.new
        return None


class AliasRule:
    """Changes the target of a CNAME, and replaces the records after it by those of the new target."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Change the target if it matches."""
        assert record is not None, "it is not about the message"
        if record.rrtype != RRType.CNAME:
            return None
        target, _ = read_name(record.rdata, 0)
        new = self._matcher.replace(target.to_text(), self._to)
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
        draft.answer = [*answer, *(Record(rr) for rr in found.answer)]
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


class Rule(Protocol):
    """A rule; with `stops` no later rule is applied after it matched."""

    stops: bool
    is_pure: bool

    def apply(self, query: Query, request: Request) -> Step:
        """Return the query changed; `query` is the request's with all changes so far; raise InvalidName."""

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names in a zone whose answer it may change."""


class RewriteName:
    """Rewrites the name.

    `automatic`: the original name is restored in the reply, in addition to the rules in `undo`.
    """

    is_pure = True

    def __init__(
        self,
        matcher: Matcher,
        to: str,
        *,
        automatic: bool,
        undo: tuple[ReplyRule, ...] = (),
        stops: bool = True,
    ) -> None:
        self.stops = stops
        self._matcher, self._to, self._automatic, self._undo = matcher, to, automatic, undo

    def apply(self, query: Query, request: Request) -> Step:
        """Rewrite the name."""
        text = query.qname.lowered().to_text()
        new = self._matcher.replace(text, self._to)
        if new is None:
            return Step(query, is_done=False)
        qname = to_name(new)
        undo = self._undo
        if self._automatic:
            back = Below(qname.to_text())
            undo = (OwnerRule(back, text), ValueRule(back, text), *undo)
        return Step(_with_question(query, qname, query.qtype, query.qclass), undo)

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names that it matches."""
        return self._matcher.affected_names(zone)


class RewriteType:
    """Rewrites the type."""

    is_pure = True

    def __init__(self, old: int, new: int, *, stops: bool = True) -> None:
        self.stops, self.old, self.new = stops, old, new

    def apply(self, query: Query, request: Request) -> Step:
        """Rewrite the type."""
        if query.qtype != self.old:
            return Step(query, is_done=False)
        return Step(_with_question(query, query.qname, self.new, query.qclass))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return any name, unless it is about ANY, which is never answered without the chain."""
        return () if self.old == RRType.ANY else None


class RewriteClass:
    """Rewrites the class."""

    is_pure = True

    def __init__(self, old: int, new: int, *, stops: bool = True) -> None:
        self.stops, self.old, self.new = stops, old, new

    def apply(self, query: Query, request: Request) -> Step:
        """Rewrite the class."""
        if query.qclass != self.old:
            return Step(query, is_done=False)
        return Step(_with_question(query, query.qname, query.qtype, self.new))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return any name if it is about IN: other classes are never answered without the chain."""
        return None if self.old == RRClass.IN else ()


class RewriteReply:
    """Rewrites TTLs or the rcode of the replies for names that match."""

    is_pure = True

    def __init__(self, matcher: Matcher, undo: TtlRule | RcodeRule, *, stops: bool = True) -> None:
        self.stops = stops
        self._matcher, self._undo = matcher, undo

    def apply(self, query: Query, request: Request) -> Step:
        """Leave the query unchanged."""
        if not self._matcher.matches(query.qname.lowered().to_text()):
            return Step(query, is_done=False)
        return Step(query, (self._undo,))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return the names that it matches."""
        return self._matcher.affected_names(zone)


class RewriteAlias:
    """Rewrites the targets of CNAME records in any reply."""

    is_pure = True  # the lookup of the new target records its own dependencies

    def __init__(self, matcher: Matcher, to: str, *, stops: bool = True) -> None:
        self.stops = stops
        self._undo = AliasRule(matcher, to)

    def apply(self, query: Query, request: Request) -> Step:
        """Leave the query unchanged."""
        return Step(query, (self._undo,))

    def affected_names(self, zone: Name) -> AffectedNames:
        """Return no names: a name that does not exist has no CNAME record."""
        return ()


def _with_question(query: Query, qname: Name, qtype: int, qclass: int) -> Query:
    question = qname.wire + qtype.to_bytes(2, "big") + qclass.to_bytes(2, "big")
    return query.replace(qname=qname, qtype=qtype, qclass=qclass, question_wire=question)
