"""A primary server that transfers zones over TCP as a test scripts it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from hsdns.chain import Endpoint


class Primary:
    """Answers SOA with the first record and AXFR with all, in messages of so many records; a context.

    `messages` are lists of records as text, the rcode stands in front of them as a word.  `asked` keeps the types.
    """

    def __init__(self, *messages: Sequence[str], rcode: str = "NOERROR", cut: bool = False) -> None:
        self.messages = [list(message) for message in messages]
        self.rcode = rcode
        self.cut = cut
        self.asked: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = Endpoint(host, port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            query = dns.message.from_wire(await reader.readexactly(length))
            rrtype = query.question[0].rdtype.name
            self.asked.append(rrtype)
            messages = self.messages if rrtype == "AXFR" else [self.messages[0][:1]]
            for index, records in enumerate(messages):
                reply = dns.message.make_response(query)
                if index:  # RFC 5936 section 2.2.1: later messages need no question
                    reply.question = []
                reply.flags |= dns.flags.AA
                reply.set_rcode(dns.rcode.from_text(self.rcode))
                for text in records:
                    owner, ttl, rrclass, kind, rdata = text.split(None, 4)
                    reply.answer.append(dns.rrset.from_text(owner, int(ttl), rrclass, kind, rdata))
                wire = reply.to_wire()
                writer.write(struct.pack("!H", len(wire)) + wire)
            if not self.cut:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
