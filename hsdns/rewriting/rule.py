"""What rules do to queries: name, type, class; and what each wants done to the reply.

Path: syntax.py makes them, plugins/rewrite.py follows them in the order of the file.
Source: CoreDNS 1.14.7 plugin/rewrite name.go, type.go, class.go, ttl.go, rcode.go, cname_target.go.
Rule 1: a rule sees the query as the rules before it left it.
Rule 2: what depends on the question alone `is_pure`; only then replies may be kept.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hsdns.chain import Request
from hsdns.rewriting.answer import AliasRule, OwnerRule, RcodeRule, TtlRule, ValueRule
from hsdns.rewriting.draft import ReplyRule, to_name
from hsdns.rewriting.match import Below, Claims, Matcher
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name


class Step(NamedTuple):
    """What became of a query; `undo` is to be done to its reply.  `is_done`: the rule was about this query."""

    query: Query
    undo: tuple[ReplyRule, ...] = ()
    is_done: bool = True


class Rule(Protocol):
    """One rule; `stops`: no rule behind it is looked at where it was about the query."""

    stops: bool
    is_pure: bool

    def apply(self, query: Query, request: Request) -> Step:
        """Change a query, which is the request's as it is now; raise BadName."""

    def names_matched(self, zone: Name) -> Claims:
        """Names in a zone for which it may change what is answered."""


class RewriteName:
    """Asks for another name.

    `automatic`: the reply is led back to the name that was asked for; `undo` comes on top of that.
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
        """Ask for the other name."""
        text = query.qname.lowered().to_text()
        new = self._matcher.replace(text, self._to)
        if new is None:
            return Step(query, is_done=False)
        qname = to_name(new)
        undo = self._undo
        if self._automatic:
            back = Below(qname.to_text())
            undo = (OwnerRule(back, text), ValueRule(back, text), *undo)
        return Step(_ask(query, qname, query.qtype, query.qclass), undo)

    def names_matched(self, zone: Name) -> Claims:
        """Those that it matches."""
        return self._matcher.names_matched(zone)


class RewriteType:
    """Asks for another type."""

    is_pure = True

    def __init__(self, old: int, new: int, *, stops: bool = True) -> None:
        self.stops, self.old, self.new = stops, old, new

    def apply(self, query: Query, request: Request) -> Step:
        """Ask for the other type."""
        if query.qtype != self.old:
            return Step(query, is_done=False)
        return Step(_ask(query, query.qname, self.new, query.qclass))

    def names_matched(self, zone: Name) -> Claims:
        """All, but for ANY: nobody answers that without the chain."""
        return () if self.old == RRType.ANY else None


class RewriteClass:
    """Asks in another class."""

    is_pure = True

    def __init__(self, old: int, new: int, *, stops: bool = True) -> None:
        self.stops, self.old, self.new = stops, old, new

    def apply(self, query: Query, request: Request) -> Step:
        """Ask in the other class."""
        if query.qclass != self.old:
            return Step(query, is_done=False)
        return Step(_ask(query, query.qname, query.qtype, self.new))

    def names_matched(self, zone: Name) -> Claims:
        """All of class IN: nobody answers another one without the chain."""
        return None if self.old == RRClass.IN else ()


class RewriteReply:
    """Changes TTLs or the rcode of the replies about names that match."""

    is_pure = True

    def __init__(self, matcher: Matcher, undo: TtlRule | RcodeRule, *, stops: bool = True) -> None:
        self.stops = stops
        self._matcher, self._undo = matcher, undo

    def apply(self, query: Query, request: Request) -> Step:
        """Leave the query as it is."""
        if not self._matcher.matches(query.qname.lowered().to_text()):
            return Step(query, is_done=False)
        return Step(query, (self._undo,))

    def names_matched(self, zone: Name) -> Claims:
        """Those that it matches."""
        return self._matcher.names_matched(zone)


class RewriteAlias:
    """Leads CNAME records in any reply elsewhere."""

    is_pure = True  # what it looks up elsewhere, whoever looks takes note of

    def __init__(self, matcher: Matcher, to: str, *, stops: bool = True) -> None:
        self.stops = stops
        self._undo = AliasRule(matcher, to)

    def apply(self, query: Query, request: Request) -> Step:
        """Leave the query as it is."""
        return Step(query, (self._undo,))

    def names_matched(self, zone: Name) -> Claims:
        """None: a name that does not exist has no CNAME record."""
        return ()


def _ask(query: Query, qname: Name, qtype: int, qclass: int) -> Query:
    question = qname.wire + qtype.to_bytes(2, "big") + qclass.to_bytes(2, "big")
    return query.replace(qname=qname, qtype=qtype, qclass=qclass, question_wire=question)
