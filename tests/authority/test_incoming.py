from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any, Self, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from hsdns.authority import transfer
from hsdns.authority.master_file import to_rr
from hsdns.authority.transfer import TransferError, fetch_zone, primary_serial, send_notify
from hsdns.chain import Endpoint
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.support.coroutines.scripted_timeouts import expire_timeouts, script_timeouts
from tests.support.plugins.requests import section


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


pytestmark = pytest.mark.sockets
ORIGIN = Name.from_text("example.org.")
SOA = "example.org. 60 IN SOA ns. host. 7 1 1 1 1"
A = "a.example.org. 1 IN A 192.0.2.1"


async def fetch(primary: Primary) -> list[str]:
    async with primary:
        zone, records = await fetch_zone(ORIGIN, primary.endpoint)
        assert zone.serial == 7
        return section(records)


async def serial(primary: Primary) -> int:
    async with primary:
        return await primary_serial(ORIGIN, primary.endpoint)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([[SOA, A, SOA]], [SOA, A, SOA], id="one-message"),
        pytest.param([[SOA], [A], [SOA]], [SOA, A, SOA], id="three-messages"),
        pytest.param([[SOA, SOA]], [SOA, SOA], id="nothing-else"),
        pytest.param(
            [[SOA, "a.example.net. 1 IN A 192.0.2.1", SOA]], [SOA, SOA], id="outside-of-the-zone"
        ),
        pytest.param(
            [[SOA, A, A.replace("192.0.2.1", "192.0.2.2"), SOA]],
            [SOA, A, A.replace("192.0.2.1", "192.0.2.2"), SOA],
            id="two-of-a-set",
        ),
    ],
)
def test_zone(messages: list[list[str]], expected: list[str]) -> None:
    assert asyncio.run(fetch(Primary(*messages))) == expected


@pytest.mark.parametrize(
    ("primary", "reason"),
    [
        pytest.param(Primary([], rcode="REFUSED"), "it replied REFUSED", id="rcode"),
        pytest.param(
            Primary([A, SOA]), "its transfer does not begin with a SOA record", id="no-soa"
        ),
        pytest.param(Primary([]), "its transfer does not begin with a SOA record", id="empty"),
        pytest.param(
            Primary([SOA, SOA.replace("7", "8")]),
            "its transfer does not end with the SOA record that it began with",
            id="other-soa",
        ),
        pytest.param(
            Primary([SOA, "a.example.org. 1 IN NSEC3PARAM 1 0 0 -", SOA]),
            "its zone cannot be served: a.example.org. has NSEC3PARAM; signed zones are supported with NSEC "
            "only; sign it with NSEC",
            id="nsec3",
        ),
    ],
)
def test_no_zone(primary: Primary, reason: str) -> None:
    with pytest.raises(TransferError, match=rf"^127\.0\.0\.1:\d+: {re.escape(reason)}$"):
        asyncio.run(fetch(primary))


def test_an_incomplete_transfer() -> None:
    with pytest.raises(TransferError, match="closed the connection before the end"):
        asyncio.run(fetch(Primary([SOA, A], cut=True)))


def test_a_primary_that_stops_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 0.05)
    with pytest.raises(TransferError, match=r"did not reply within 0\.05s"):
        asyncio.run(fetch(Primary([SOA, A])))


def test_a_transfer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_RECORDS", 3)
    with pytest.raises(TransferError, match="its transfer has more than 3 records"):
        asyncio.run(fetch(Primary([SOA, A], [A, A], [A, A])))


def test_nobody_is_there() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        endpoint = Endpoint(*sock.getsockname())
        with pytest.raises(TransferError, match="cannot be reached"):
            asyncio.run(fetch_zone(ORIGIN, endpoint))


def test_messages_are_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 64 KB takes tens of milliseconds, in which the loop would answer nobody."""
    threads: list[int] = []

    def note(*record: Any) -> RR:
        threads.append(threading.get_ident())
        return to_rr(*record)

    monkeypatch.setattr(transfer, "to_rr", note)
    assert asyncio.run(fetch(Primary([SOA, A], [SOA]))) == [SOA, A, SOA]
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_serial() -> None:
    assert asyncio.run(serial(Primary([SOA]))) == 7
    with pytest.raises(TransferError, match="it replied REFUSED without a SOA record"):
        asyncio.run(serial(Primary([], rcode="REFUSED")))


ZONE = Name.from_text("example.org.")


class Secondary(asyncio.DatagramProtocol):
    """Answers NOTIFY with scripted rcodes, repeating the last one; None means no reply."""

    def __init__(self, *rcodes: int | None) -> None:
        self.rcodes = list(rcodes)
        self.asked: list[tuple[Query, str]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = decode(data)
        self.asked.append((query, addr[0]))
        rcode = self.rcodes.pop(0) if len(self.rcodes) > 1 else self.rcodes[0]
        if rcode is None:
            expire_timeouts(transfer.TIMEOUT)
        else:
            self.transport.sendto(encode(query, Reply(rcode=rcode, aa=True), 512), addr)


async def notified(
    *rcodes: int | None, source: str | None = None
) -> tuple[str | None, Secondary, int]:
    loop = asyncio.get_running_loop()
    transport, secondary = await loop.create_datagram_endpoint(
        lambda: Secondary(*rcodes), ("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    try:
        return await send_notify(ZONE, Endpoint("127.0.0.1", port), source), secondary, port
    finally:
        transport.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("rcodes", "attempts", "reason"),
    [
        pytest.param([Rcode.NOERROR], 1, None, id="accepted"),
        pytest.param([Rcode.SERVFAIL, Rcode.NOERROR], 2, None, id="accepted-later"),
        pytest.param([Rcode.REFUSED], 3, "it replied REFUSED", id="refused"),
        pytest.param([None], 3, "it did not reply within 2s", id="silence"),
    ],
)
def test_attempts(
    rcodes: list[int | None], attempts: int, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_timeouts(monkeypatch)
    found, secondary, port = asyncio.run(notified(*rcodes))
    expected = f"NOTIFY for zone example.org. was not accepted by 127.0.0.1:{port}: {reason}"
    assert found == (None if reason is None else expected)
    assert len(secondary.asked) == attempts


def test_message() -> None:
    _, secondary, _ = asyncio.run(notified(Rcode.NOERROR, source="127.0.0.3"))
    ((query, sender),) = secondary.asked
    assert (query.opcode, query.flags, query.qname, query.qtype, sender) == (
        4,
        0x2400,
        ZONE,
        6,
        "127.0.0.3",
    )


def test_nobody_is_there_to_notify() -> None:
    reason = asyncio.run(send_notify(ZONE, Endpoint("127.0.0.1", free_port())))
    assert reason is not None
    assert reason.endswith("it refuses connections; does a DNS server listen there?")
