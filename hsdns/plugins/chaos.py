"""Answers queries in class CH for version, authors and host name.

Path: step 5, before all plugins that answer, after `log`.  A block with `chaos` lets classes other than IN reach every
block of the listener (assemble.py, OPEN_CLASSES).
Source: CoreDNS 1.14.7 plugin/chaos; RFC 4892.
Rule 1: only TXT questions in class CH for five names are answered, with AA clear and TTL 0.
Rule 2: the authors are shuffled each time, with the runtime's random generator.
Rule 3: cacheable: it only looks at class CH, and the answer table only stores replies of class IN.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Final, Self

from hsdns import __version__
from hsdns.chain import Next, Request
from hsdns.corefile.properties import no_body, one_of
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import RRClass, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import txt

DEFAULT_VERSION: Final = f"hsdns-{__version__}"
DEFAULT_AUTHORS: Final = ("hsdns",)
MAX_STRING_LEN: Final = 255  # RFC 1035 section 3.3

_AUTHORS: Final = Name.from_text("authors.bind.")
_VERSIONS: Final = (Name.from_text("version.bind."), Name.from_text("version.server."))
_HOSTS: Final = (Name.from_text("hostname.bind."), Name.from_text("id.server."))


class Chaos(Plugin):
    """Answers questions about the server itself."""

    cacheable = True

    def __init__(self, version: str, authors: Sequence[str]) -> None:
        self.version, self.authors = version, tuple(authors)
        self._random = Random()  # replaced by start()

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `chaos [VERSION [AUTHORS...]]`; an author who is listed twice counts once."""
        directive = one_of(directives, block.warn)
        no_body(directive, may_be_empty=True)
        words = [token.text for token in directive.args]
        version = words[0] if words else DEFAULT_VERSION
        return cls(version, sorted(set(words[1:])) or DEFAULT_AUTHORS)

    async def start(self, runtime: Runtime) -> None:
        """Use the random generator of the runtime."""
        self._random = runtime.random

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer questions about the server, pass on the others."""
        query = request.query
        if query.qclass != RRClass.CH or query.qtype != RRType.TXT:
            return await next(request)
        if query.qname == _AUTHORS:
            texts: Sequence[str] = self._random.sample(self.authors, len(self.authors))
        elif query.qname in _VERSIONS:
            texts = [self.version]
        elif query.qname in _HOSTS:
            texts = [os.uname().nodename]
        else:
            return await next(request)
        return Reply(
            answer=tuple(RR(query.qname, RRType.TXT, 0, _txt(text), RRClass.CH) for text in texts)
        )


def _txt(text: str) -> bytes:
    return txt(text.encode("utf-8", "surrogateescape")[:MAX_STRING_LEN])
