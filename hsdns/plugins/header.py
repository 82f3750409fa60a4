"""Sets or clears flags in query and reply headers.

Path: step 5, directly after `cache` and before all plugins that answer.
Source: CoreDNS 1.14.7 plugin/header.
Rule 1: rules are applied in file order, so the last rule for a flag takes effect.
Rule 2: the RD flag of a reply is that of the query as modified by the rules.  Response rules are applied after that,
        and only to replies that a handler has generated.
Cacheable: unless a rule is for RD, which the answer table copies from each query; AA and RA are stored with the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property, no_arguments, read_properties
from hsdns.corefile.tree import Directive, Line
from hsdns.plugin import Block, Plugin
from hsdns.wire.message import AA, RA, RD, Reply, is_notify

_ACTIONS: Final = ("set", "clear")
_FLAGS: Final = {"aa": AA, "ra": RA, "rd": RD}


class Change(NamedTuple):
    """Header bits to set or to clear."""

    bits: int
    is_set: bool

    def apply(self, flags: int) -> int:
        """Return the flags after the change."""
        return flags | self.bits if self.is_set else flags & ~self.bits


def read_change(line: Line) -> Change:
    """Read `set|clear FLAG...`, in upper or lower case."""
    if len(line.args) < 2:
        raise line.error(
            f'"{line.name.text}" of header takes "set" or "clear" followed by flags (aa, ra, rd), found '
            f"{len(line.args)} arguments"
        )
    action = line.args[0].one_of(_ACTIONS, ignore_case=True)
    bits = 0
    for token in line.args[1:]:
        bits |= _FLAGS[token.one_of(_FLAGS, ignore_case=True)]
    return Change(bits, action == "set")


class Header(Plugin):
    """Changes the flags of queries and replies."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "query": Property(read_change, syntax="set|clear FLAG...", repeat="collect"),
        "response": Property(read_change, syntax="set|clear FLAG...", repeat="collect"),
    }

    def __init__(self, query: Sequence[Change], response: Sequence[Change]) -> None:
        self._query, self._response = tuple(query), tuple(response)
        self._touches_rd = any(change.bits & RD for change in self._query)
        self.cacheable = not any(change.bits & RD for change in (*query, *response))

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the rules of all `header` directives of the block."""
        for directive in directives:
            no_arguments(directive)
        options = read_properties([_in_lower_case(each) for each in directives], cls.PROPERTIES)
        if not options["query"] and not options["response"]:
            raise directives[0].name.error(
                'header has no rule; add one such as "response set ra", or remove it'
            )
        return cls(options["query"], options["response"])

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Change the query's flags, pass it on, and change the reply's flags."""
        query = request.query
        flags = query.flags
        for change in self._query:
            flags = change.apply(flags)
        if flags != query.flags:
            request = request.replace(query=query.replace(flags=flags))
        reply = await next(request)
        if self._touches_rd and reply.rd is None and not is_notify(query):
            reply = reply.replace(rd=bool(flags & RD))
        if not reply.written or reply.dropped:
            return reply
        for change in self._response:
            names = (name for name, bit in _FLAGS.items() if change.bits & bit)
            reply = reply.replace(**dict.fromkeys(names, change.is_set))
        return reply

    recompute = handle  # this plugin only changes the reply


def _in_lower_case(directive: Directive) -> Directive:
    """Return the directive with its property names in lower case: `Query SET AA` is valid, too."""
    lines = tuple(
        Line(line.name._replace(text=line.name.text.lower()), line.args) for line in directive.lines
    )
    return directive._replace(body=lines)
