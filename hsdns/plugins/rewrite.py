"""Rewrites queries and the corresponding replies.

Path: step 5, after `log` and `prometheus`, which see the client's query, and before `acl`, `cache` and all plugins that
answer, which see the rewritten one.  rewriting/ has the rules.
Source: CoreDNS 1.14.7 plugin/rewrite.
Rule 1: the question of a reply is always the client's.
Rule 2: rules are applied in file order until one without `continue` matches; changes to the reply are applied in
        reverse order.
Rule 3: the server block is not selected again for the rewritten name.
Cacheable: unless there is an `edns0` rule, because all others depend on the question alone; names_answered_first()
        returns all names whose negative replies they may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

from hsdns.chain import Next, Request, all_names
from hsdns.corefile.tree import Directive, Token
from hsdns.plugin import Block, Plugin
from hsdns.rewriting.option import RewriteOption, reverted
from hsdns.rewriting.rule import Draft, InvalidName, ReplyRule, Rule, TtlRule, rewrite
from hsdns.rewriting.syntax import read_rule
from hsdns.wire.edns import ECHOED
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name


class Rewrite(Plugin):
    """Applies the rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.cacheable = all(rule.is_pure for rule in rules)
        options = [rule for rule in rules if isinstance(rule, RewriteOption)]
        self._has_options = bool(options)
        self._echoed = ECHOED | {rule.code for rule in options if rule.echoed}

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all `rewrite` of the block; each is a rule."""
        return cls(
            [
                read_rule(_words(directive), directive.name.position, block.warn)
                for directive in directives
            ]
        )

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return the names that any rule may match."""
        return all_names(rule.affected_names(zone) for rule in self.rules)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Rewrite the query, pass it on, and rewrite the reply."""
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
            if request.dependencies is not None and any(isinstance(rule, TtlRule) for rule in undo):
                # The range applies to each remaining TTL, which the answer table counts down by itself.
                request.dependencies.cached = None
            if not reply.written and (undo or stopped):
                # With an OPT record, as in CoreDNS: `nsid` adds to it, and `log` includes it in the size.
                reply = reply.replace(written=True, edns_options=_shown_options(query))
            if undo and reply.written and not reply.dropped:
                reply = await self._undo(below, reply, undo)
        except InvalidName as bad:
            reply = unwritten(Rcode.SERVFAIL, f"invalid name after rewrite: {bad.text}")
        if self._has_options and reply.edns is None and query.edns is not None:
            reply = reply.replace(edns=reverted(query.edns, tuple(undo)))
        return reply

    def _with_echoes(self, query: Query) -> Query:
        """Return the query with those options marked that the reply echoes."""
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
        """Resolve the new target of a CNAME through this server, with the client's EDNS."""
        found = await self._runtime.resolve(below.nested(qname, below.query.qtype))
        return None if found.dropped else found


def _shown_options(query: Query) -> tuple[tuple[int, bytes], ...] | None:
    """Return the options that a reply echoes; None if the query has no OPT record."""
    edns = query.edns
    if edns is None:
        return None
    return tuple(option for option in edns.options if option[0] in edns.echoed)


def _rewritten(
    following: Iterator[tuple[RR, ...]], undo: Sequence[ReplyRule]
) -> Iterator[tuple[RR, ...]]:
    """Rewrite the later messages of a zone transfer; no CNAME target is resolved for them."""
    for answer in following:
        draft = Draft(Reply(answer=answer))
        for _ in rewrite(draft, undo):
            pass
        yield draft.to_reply().answer


def _words(directive: Directive) -> list[Token]:
    """Return the words of a rule: those of the line and, if it has at most one, those of the body."""
    words = list(directive.args)
    if len(words) < 2:
        for line in directive.lines:
            words += [line.name, *line.without_brace.args]
    elif directive.body is not None:
        extra = directive.lines[0].name if directive.lines else directive.name
        raise extra.error(
            "a rule of rewrite is written on one line or in a body, not both; "
            + (f'found "{extra.text}" in the body' if directive.lines else "remove its braces")
        )
    return words
