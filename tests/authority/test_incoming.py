from __future__ import annotations

import asyncio
import re
import socket
import threading
from typing import Any

import pytest

from hsdns.authority import transfer
from hsdns.authority.master_file import to_rr
from hsdns.authority.transfer import TransferError, fetch_zone, primary_serial
from hsdns.chain import Endpoint
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests.support.plugins.requests import section
from tests.support.upstreams.primary import Primary

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
