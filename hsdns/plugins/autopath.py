"""Completes search paths on the server: answers the first query of a client's search list with the name that exists.

Path: step 5, before `cache`: each candidate name is passed on to the plugins after it.
Source: CoreDNS 1.14.7 plugin/autopath.
Rule 1: only a name below the first domain of the search list is completed; the labels before that domain are the name
        that the client's program looked up.  The list ends with the root, for that name itself.
Rule 2: the first reply that is not NXDOMAIN is used, with a CNAME from the query name to the name found; if all are
        NXDOMAIN, the first reply is returned and the client continues with its list.
Rule 3: the search list comes from a plugin of the block with a method `search_path`, or from a file for all clients.
Cacheable: no, the answer depends on the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import no_body, only_once
from hsdns.corefile.tree import Directive, Token
from hsdns.metrics import Counter
from hsdns.plugin import Block, Plugin, Runtime, catch_up
from hsdns.upstream.target import search_list
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import MAX_NAME_LEN, ROOT, Name


@runtime_checkable
class SearchPaths(Protocol):
    """A plugin that knows its clients' search lists."""

    def search_path(self, request: Request) -> tuple[Name, ...] | None:
        """The search list of the client, the root last; None if its names are not completed."""


class Autopath(Plugin):
    """Completes names with a search list."""

    def __init__(
        self, zones: tuple[Name, ...], origin: Token, search: tuple[Name, ...] | None, block: Block
    ) -> None:
        """Take the search list, or None if `origin` names a plugin: `@kubernetes`."""
        self.zones = zones
        self._origin = origin
        self._search = search
        self._paths: SearchPaths | None = None
        self._warn = block.warn
        self._successes: Counter

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `autopath [ZONE...] RESOLV-CONF|@PLUGIN`."""
        directive = only_once(directives)
        no_body(directive)
        if not directive.args:
            raise directive.error(
                "autopath needs @kubernetes, or a file such as /etc/resolv.conf with the search list of all clients"
            )
        *zones, origin = directive.args
        search = None if origin.text.startswith("@") else (*_read(origin), ROOT)
        return cls(zones_from_args(tuple(zones)) or block.zones, origin, search, block)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the plugin that knows the clients' search lists; without it log a warning and complete no names."""
        if self._search is not None:
            return
        wanted = self._origin.text[1:]
        for handler in handlers:
            if handler.name == wanted:
                if not isinstance(handler, SearchPaths):
                    raise self._origin.error(
                        f"{wanted} has no search lists; write a plugin that has, such as @kubernetes, "
                        "or a file such as /etc/resolv.conf"
                    )
                self._paths = handler
                return
        self._warn(
            f"{self._origin.position}: there is no plugin {wanted} in this server block, so autopath has no effect"
        )

    async def start(self, runtime: Runtime) -> None:
        """Create the metric."""
        self._runtime = runtime
        self._successes = runtime.metrics.counter("coredns_autopath_success_total", ("server",))

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Try the names of the search list, or pass on."""
        query = request.query
        if not any(query.qname.is_at_or_below(zone) for zone in self.zones):
            return await next(request)
        search = self._search
        if self._paths is not None:
            await catch_up(self._runtime, request.now)
            search = self._paths.search_path(request)
        if not search or query.qname == search[0] or not query.qname.is_at_or_below(search[0]):
            return await next(request)
        first = None
        own = query.qname.wire[: len(query.qname.wire) - len(search[0].wire)]
        for domain in search:
            if len(own) + len(domain.wire) > MAX_NAME_LEN:
                continue
            tried = Name(own + domain.wire)
            reply = await next(request.replace(query=_renamed(query, tried)))
            if reply.error is not None or reply.dropped:
                return reply
            first = first or reply
            if reply.written and reply.rcode != Rcode.NXDOMAIN:
                self._successes.inc((request.server,))
                if tried == query.qname:
                    return reply
                return reply.replace(answer=_with_cname(query.qname, reply.answer))
        assert first is not None, "the name of the query itself fits"
        return first


def _read(origin: Token) -> tuple[Name, ...]:
    try:
        with open(origin.text, encoding="utf-8", errors="replace") as file:
            return search_list(file.read())
    except OSError as error:
        raise origin.error(
            f'cannot read the search list in "{origin.text}": {error.strerror}'
        ) from error


def _renamed(query: Query, qname: Name) -> Query:
    question = qname.wire + query.question_wire[-4:]
    return query.replace(qname=qname, question_wire=question)


def _with_cname(qname: Name, answer: tuple[RR, ...]) -> tuple[RR, ...]:
    """The records after a CNAME from the query name to the first other owner name among them."""
    for rr in answer:
        if rr.owner != qname:
            return (RR(qname, RRType.CNAME, rr.ttl, rr.owner.wire), *answer)
    return answer
