"""Rules for queries: name, type, class; and the rules for their replies.

Path: syntax.py makes them; plugins/rewrite.py applies them in the order of the Corefile.
Source: CoreDNS 1.14.7 plugin/rewrite name.go, type.go, class.go, ttl.go, rcode.go, cname_target.go.
Rule 1: each rule gets the query as changed by the rules before it.
Rule 2: a rule `is_pure` if it depends on the question only; replies can be cached only if all rules are.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hsdns.chain import Request
from hsdns.rewriting.answer import AliasRule, OwnerRule, RcodeRule, TtlRule, ValueRule
from hsdns.rewriting.draft import ReplyRule, to_name
from hsdns.rewriting.match import AffectedNames, Below, Matcher
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name


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
