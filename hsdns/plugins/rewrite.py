"""Change queries before they are answered, and make their replies fit what was asked.

Path: step 5, above `acl`, `cache` and all that answers, which see the changed query, and below `log` and
`prometheus`, which see the client's.  rewriting/ has the rules.
Source: CoreDNS 1.14.7 plugin/rewrite.
Rule 1: the question of a reply is always the client's.
Rule 2: rules are followed in the order of the file until one that stops was about the query; what they want done to
        the reply is done in the opposite order.
Rule 3: a block is not chosen anew for the changed name: what answers stands in the same block.
Rule 4: cacheable, unless there is an `edns0` rule: all others depend on the question alone, and claimed() names all
        whose negative answers they may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.corefile.tree import CorefileError, Directive, Token
from hsdns.rewriting.draft import Draft, InvalidName, ReplyRule, rewrite
from hsdns.rewriting.option import RewriteOption, reverted
from hsdns.rewriting.rule import Rule
from hsdns.rewriting.syntax import read_rule
from hsdns.wire.edns import ECHOED
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name


class Rewrite(Handler):
    """Follows rules."""

    name: ClassVar[str] = "rewrite"

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.cacheable = all(rule.is_pure for rule in rules)
        options = [rule for rule in rules if isinstance(rule, RewriteOption)]
        self._has_options = bool(options)
        self._echoed = ECHOED | {rule.code for rule in options if rule.echoed}
        self._runtime: Runtime

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all `rewrite` of the block, a rule each."""
        return cls(
            [
                read_rule(_words(directive), directive.name.position, block.warn)
                for directive in directives
            ]
        )

    async def start(self, runtime: Runtime) -> None:
        """Take the way to this server's own answers, for `cname` rules."""
        self._runtime = runtime

    def claimed(self, zone: Name) -> tuple[Name, ...] | None:
        """The names that any rule is about."""
        found: list[Name] = []
        for rule in self.rules:
            names = rule.affected_names(zone)
            if names is None:
                return None
            found += names
        return tuple(found)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Change the query, pass it on, and change the reply."""
        query = self._with_echoes(request.query)
        undo: list[ReplyRule] = []
        stopped = False
        try:
            for rule in self.rules:
                step = rule.apply(query, request)
                query = self._with_echoes(step.query)
                if step.is_done:
                    undo += step.undo
                    if rule.stops:
                        stopped = True
                        break
            below = request if query is request.query else request.replace(query=query)
            reply = await next(below)
            if not reply.written and (undo or stopped):
                # With its OPT record, as in CoreDNS: `nsid` writes into that, and `log` counts it.
                reply = reply.replace(written=True, edns_options=_shown_options(query))
            if undo and reply.written and not reply.dropped:
                reply = await self._undo(below, reply, undo)
        except InvalidName as bad:
            reply = unwritten(Rcode.SERVFAIL, f"invalid name after rewrite: {bad.text}")
        if self._has_options and reply.edns is None and query.edns is not None:
            reply = reply.replace(edns=reverted(query.edns, tuple(undo)))
        return reply

    def _with_echoes(self, query: Query) -> Query:
        """The query with the options marked that its reply is to show."""
        edns = query.edns
        if edns is None or not self._has_options or edns.echoed == self._echoed:
            return query
        return query.replace(edns=replace(edns, echoed=self._echoed))

    async def _undo(self, below: Request, reply: Reply, undo: Sequence[ReplyRule]) -> Reply:
        draft = Draft(reply)
        steps = rewrite(draft, undo)
        found: Reply | None = None
        try:
            wanted = steps.send(None)
            while True:
                found = await self._lookup(below, wanted)
                wanted = steps.send(found)
        except StopIteration:
            pass
        done = draft.to_reply()
        if reply.following is None:
            return done
        return done.replace(following=_rewritten(reply.following, undo))

    async def _lookup(self, below: Request, qname: Name) -> Reply | None:
        """Ask this server for the new target of a CNAME, with the client's own EDNS."""
        query = below.query
        if below.reads is not None:
            below.reads.spoil()  # what is there changes without telling
        asked = Query.ask(qname, query.qtype, query_id=query.id, flags=query.flags, edns=query.edns)
        found = await self._runtime.resolve(below.replace(query=asked, depth=below.depth + 1))
        return None if found.dropped else found


def _shown_options(query: Query) -> tuple[tuple[int, bytes], ...] | None:
    """The options that a reply sends back; None where the query has no OPT record."""
    edns = query.edns
    if edns is None:
        return None
    return tuple(option for option in edns.options if option[0] in edns.echoed)


def _rewritten(
    following: Iterator[tuple[RR, ...]], undo: Sequence[ReplyRule]
) -> Iterator[tuple[RR, ...]]:
    """The later messages of a zone transfer, which holds no alias that would have to be looked up."""
    for answer in following:
        draft = Draft(Reply(answer=answer))
        for _ in rewrite(draft, undo):
            pass
        yield draft.to_reply().answer


def _words(directive: Directive) -> list[Token]:
    """The words of a rule: those of the line and, where that has one at most, those of the body."""
    words = list(directive.args)
    if len(words) < 2:
        for line in directive.lines:
            words += [line.name, *line.args]
    elif directive.lines:
        extra = directive.lines[0].name
        raise CorefileError(
            extra.position,
            f'a rule of rewrite stands either on one line or in a body, found "{extra.text}" in a body as well',
        )
    return words
