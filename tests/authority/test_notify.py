from __future__ import annotations

import asyncio
from typing import cast

import pytest

from hsdns.authority import transfer
from hsdns.authority.transfer import send_notify
from hsdns.chain import Endpoint
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.support.coroutines.scripted_timeouts import expire_timeouts, script_timeouts

pytestmark = pytest.mark.sockets
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


def test_nobody_is_there() -> None:
    reason = asyncio.run(send_notify(ZONE, Endpoint("127.0.0.1", free_port())))
    assert reason is not None
    assert reason.endswith("it refuses connections; does a DNS server listen there?")
