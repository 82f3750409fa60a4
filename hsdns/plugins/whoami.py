"""Returns the client's address and port.

Path: step 5, the last of ORDER: it answers every query.
Source: CoreDNS 1.14.7 plugin/whoami.
Cacheable: no, because the reply depends on the client's address and port.
"""

from __future__ import annotations

from hsdns.chain import Next, Request
from hsdns.plugin import Plugin
from hsdns.wire import rdata
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import MAX_NAME_LEN, ROOT, Name


class Whoami(Plugin):
    """Answers with the client's address, and an SRV record with its port, in the additional section."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer a query of any type and class; the answer section is empty."""
        query, client = request.query, request.client
        packed = rdata.address(client.address.partition("%")[0])
        rrtype = RRType.A if len(packed) == 4 else RRType.AAAA
        additional = [RR(query.qname, rrtype, 0, packed, query.qclass)]
        label = f"_{request.protocol}".encode()
        owner = bytes((len(label),)) + label + query.qname.wire
        if len(owner) <= MAX_NAME_LEN:  # a name may be too long for one more label
            target = rdata.srv(0, 0, client.port, ROOT)
            additional.append(RR(Name(owner), RRType.SRV, 0, target, query.qclass))
        return Reply(additional=tuple(additional), aa=True)
