from __future__ import annotations

import asyncio

import dns.message
import dns.query
import pytest

from tests.support.upstreams.primary import Primary

SOA = "example.org. 60 IN SOA ns. host. 7 1 1 1 1"


@pytest.mark.sockets
def test_answers() -> None:
    async def run() -> None:
        async with Primary([SOA], ["a.example.org. 1 IN A 192.0.2.1", SOA]) as primary:
            host, port = primary.endpoint
            query = dns.message.make_query("example.org.", "SOA")
            reply = await asyncio.to_thread(dns.query.tcp, query, host, port=port, timeout=2)
            assert [rrset.to_text() for rrset in reply.answer] == [SOA]
            xfr = dns.query.xfr(host, "example.org.", port=port, lifetime=2, relativize=False)
            messages = await asyncio.to_thread(list, xfr)
            assert sum(len(message.answer) for message in messages) == 3
            assert primary.asked == ["SOA", "AXFR"]

    asyncio.run(run())
