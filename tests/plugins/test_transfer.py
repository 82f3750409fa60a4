from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.chain import Endpoint, Next, Request
from hsdns.plugin import Plugin
from hsdns.plugins import transfer
from hsdns.plugins.transfer import Transfer
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, rr, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])
SOA = "example.org. 60 IN SOA ns. host. 7 1 2 3 4"


class Holder(Plugin):
    """Has one zone with `count` records besides its SOA."""

    def __init__(self, zone: str = "example.org.", count: int = 1, error: str = "") -> None:
        self.zone = Name.from_text(zone)
        self.count = count
        self.error = error
        self.taken = 0

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        return await next(request)

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        if zone != self.zone:
            return None
        if self.error:
            raise LookupError(self.error)
        return ZoneTransfer(rr(SOA), self._records())

    def _records(self) -> Iterator[RR]:
        for index in range(self.count):
            self.taken = index + 1
            yield rr(f"h{index}.example.org. 60 IN TXT {'x' * 200}")


def ask(
    qname: str = "example.org.",
    qtype: str = "AXFR",
    *,
    text: str = "transfer {\n to *\n}",
    holder: Holder | None = None,
    protocol: str = "tcp",
    client: str = "192.0.2.9",
    serial: int | None = None,
    late: Callable[[float], Awaitable[None] | None] = lambda now: None,
) -> Reply:
    plugin = set_up(Transfer, text, ["."])
    plugin.find_handlers([plugin, Holder("other."), holder or Holder()])
    runtime = FakeRuntime()
    runtime.late = late
    finish(plugin.start(runtime))
    request = make_request(qname, qtype, protocol=protocol, client=client)
    if serial is not None:
        query = request.query
        soa = (
            b"\xc0\x0c"
            + bytes.fromhex("0006 0001 00000000 0016 0000")
            + serial.to_bytes(4, "big")
            + bytes(16)
        )
        whole = bytes.fromhex("0001 0000 0001 0000 0001 0000") + query.question_wire + soa
        request = request.replace(query=query.replace(whole=whole))
    return finish(plugin.handle(request, next_with(BELOW)))


RECORD = f'h0.example.org. 60 IN TXT "{"x" * 200}"'
WHOLE = reply([SOA, RECORD, SOA], aa=True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(ask("EXAMPLE.org."), WHOLE, id="case"),
        pytest.param(ask(qtype="IXFR", serial=6), WHOLE, id="ixfr-older"),
        pytest.param(ask(qtype="IXFR", serial=8), WHOLE, id="ixfr-newer"),
        pytest.param(ask(qtype="IXFR", serial=7), reply([SOA]), id="ixfr-same"),
        pytest.param(ask(qtype="IXFR"), unwritten(Rcode.SERVFAIL), id="ixfr-without-serial"),
        pytest.param(ask(qtype="A"), BELOW, id="other-type"),
        pytest.param(ask("nobodys."), BELOW, id="unknown-zone"),
        pytest.param(ask(protocol="udp", qtype="A"), BELOW, id="udp-other-type"),
        pytest.param(ask(text="transfer {\n to 192.0.2.1 192.0.2.9:5300\n}"), WHOLE, id="listed"),
        pytest.param(ask(text="transfer example.net {\n to *\n}"), BELOW, id="other-zone"),
        pytest.param(
            ask(text="transfer {\n to *\n}\ntransfer org {\n to 192.0.2.1\n}"),
            Reply(rcode=Rcode.REFUSED),
            id="longest-zone",
        ),
        pytest.param(
            ask(holder=Holder(error="zone example.org. has not been read yet")),
            unwritten(Rcode.SERVFAIL, "zone example.org. has not been read yet"),
            id="not-loaded-yet",
        ),
    ],
)
def test_reply(found: Reply, expected: Reply) -> None:
    assert found == expected


def test_a_late_watch_is_waited_for_before_the_records_are_collected() -> None:
    holder = Holder(count=1)

    async def catch_up() -> None:
        holder.count = 2

    found = ask(holder=holder, late=lambda now: catch_up())
    assert len(found.answer) == 4, "the SOA record twice"


def test_a_large_zone_is_generated_while_it_is_sent() -> None:
    holder = Holder(count=1000)
    found = ask(holder=holder)
    assert found.following is not None
    assert 100 < holder.taken < 250
    assert section(found.answer[:2]) == [SOA, RECORD]
    rest = [record for batch in found.following for record in batch]
    assert (holder.taken, len(found.answer) + len(rest)) == (1000, 1002)
    assert section(rest[-1:]) == [SOA]


def test_each_transfer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ask()
    ask(qtype="IXFR", serial=7)
    assert caplog.messages == [
        'plugin/transfer: Outgoing transfer of 3 records of zone "example.org." to 192.0.2.9 for 7 SOA serial',
        'plugin/transfer: Outgoing noop, incremental transfer for up to date zone "example.org." to 192.0.2.9 for 7 SOA serial',
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("transfer {\n to *\n}", [], id="no-addresses"),
        pytest.param(
            "transfer {\n to * 192.0.2.1\n to 192.0.2.2:5300 192.0.2.1:53\n}",
            [("192.0.2.1", 53, None), ("192.0.2.2", 5300, None)],
            id="each-once",
        ),
        pytest.param(
            "transfer {\n source 192.0.2.53\n to 192.0.2.1\n}",
            [("192.0.2.1", 53, "192.0.2.53")],
            id="source",
        ),
        pytest.param("transfer example.net {\n to 192.0.2.1\n}", [], id="other-zone"),
    ],
)
async def test_notify(
    text: str,
    expected: list[tuple[str, int, str | None]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[tuple[str, int, str | None]] = []

    async def send(zone: Name, target: Endpoint, source: str | None) -> str | None:
        assert zone == Name.from_text("example.org.")
        sent.append((*target, source))
        return "NOTIFY was not accepted" if target.port == 5300 else None

    monkeypatch.setattr(transfer, "send_notify", send)
    plugin, runtime = set_up(Transfer, text), FakeRuntime()
    await plugin.start(runtime)
    plugin.notify(Name.from_text("example.org."))
    await asyncio.gather(*runtime.tasks.values())
    assert sent == expected
    failed = "plugin/transfer: Failed sending notifies: NOTIFY was not accepted"
    assert caplog.messages == [failed] * (":5300" in text)
