"""Runs a user's handler in tests, without a server: reads its options, and gets its replies.

Path: imported by users' tests, never by the server; docs/plugins/python.md shows how.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hsdns.chain import Endpoint, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import Directive, Line, Position, Token
from hsdns.plugins.python import Options, UserHandler, fault
from hsdns.wire.iana import Rcode, type_from_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

PASSED_ON = Reply(rcode=Rcode.REFUSED)  # the result of `next`, unless a test gives another one


def options(
    *args: str, lines: Sequence[Sequence[str]] = (), zones: Sequence[str] = (".",)
) -> Options:
    """Return the options of a directive with these arguments, in a block with these zones; `lines` are its body."""

    def token(text: str) -> Token:
        return Token(text, Position("Corefile", 1, 1))

    body = tuple(Line(token(name), tuple(token(word) for word in words)) for name, *words in lines)
    words = tuple(token(word) for word in args)
    directive = Directive(token("python"), (token("module:Class"), *words), body or None)
    names = zones_from_args([token(zone) for zone in zones])
    return Options(tuple(args), tuple(tuple(line) for line in lines), names, directive)


def ask(handler: UserHandler, qname: str, qtype: str = "A", *, below: Reply = PASSED_ON) -> Reply:
    """Return the reply to a query; `below` is that of the plugins after it.

    Raises what the handler raises, and AssertionError if the server could not send the reply.
    """
    nowhere = Endpoint("127.0.0.1", 0)
    query = Query.ask(Name.from_text(qname), type_from_text(qtype))
    request = Request(query, nowhere, nowhere, "udp", "dns://:53", Name.from_text("."), 0.0)

    async def following(request: Request) -> Reply:
        return below

    async def call() -> Reply:
        return await handler.handle(request, following)

    reply = asyncio.run(call())
    wrong = fault(reply)
    if wrong:
        raise AssertionError(f"{type(handler).__name__} {wrong}")
    return reply
