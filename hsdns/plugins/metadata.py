"""Provides metadata about queries, under labels such as `kubernetes/namespace`, to other plugins.

Path: step 4, before the chain of the server block and before `view`; log, rewrite, template, view and python read it.
Source: CoreDNS 1.14.7 plugin/metadata.
Rule 1: a value is computed when it is read.  If two plugins provide a label, the later one in the chain takes effect.
Cacheable: yes, because it changes neither queries nor replies; plugins that read the values decide for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import no_body, only_once
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin
from hsdns.wire.message import Reply
from hsdns.wire.name import Name


@runtime_checkable
class MetadataProvider(Protocol):
    """A plugin that provides metadata about queries (CoreDNS: Provider)."""

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """Labels `PLUGIN/NAME` and functions for their values; called for every query."""


class Metadata(Plugin):
    """Collects values before a query enters the chain."""

    cacheable = True

    def __init__(self, zones: Sequence[Name]) -> None:
        self.zones = tuple(zones)
        self._providers: tuple[MetadataProvider, ...] = ()

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `metadata [ZONES...]`."""
        directive = only_once(directives)
        no_body(directive, may_be_empty=True)
        return cls(zones_from_args(directive.args) or block.zones)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the plugins of the chain that provide metadata."""
        self._providers = tuple(each for each in handlers if isinstance(each, MetadataProvider))

    def filter_request(self, request: Request) -> Request:
        """Add the metadata to the request; for a name outside the zones it is empty."""
        found: dict[str, Callable[[], str]] = {}
        if any(request.query.qname.is_at_or_below(zone) for zone in self.zones):
            for provider in self._providers:
                found.update(provider.metadata(request))
        return request.replace(metadata=found)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on."""
        return await next(request)

    recompute = handle  # this plugin only changes the reply
