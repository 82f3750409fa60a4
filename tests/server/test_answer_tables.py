"""What all tables of the process count, through scrapes, exchanges and the closing of listeners."""

from __future__ import annotations

import asyncio
import errno
import gc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.cluster.objects import Upserted
from hsdns.keeper import Keeper, Policy
from hsdns.metrics import Registry
from hsdns.server import answer_tables as module
from hsdns.server.answer_tables import AnswerTables, make_keeper
from hsdns.server.udp_listener import UdpListener
from tests.support.cluster import service
from tests.support.cluster_server import ClusterServer
from tests.support.kept import KUBERNETES, Kept, ask, cluster_objects
from tests.support.sockets import TcpClient, UdpClient, run
from tests.support.udp_listeners import KINDS, serving_with, twin_of

COREFILE = f".:53 {{\n{KUBERNETES}\n}}\n"
WEB = ask("web.default.svc.cluster.local.")


class Statistics(UdpListener):
    """A listener of which only the counters are wanted."""

    def __init__(self) -> None:
        self.dropped = 0
        self.errors: dict[int, int] = {}

    def statistics(self) -> tuple[int, dict[int, int]]:
        return self.dropped, dict(self.errors)


class Listening:
    """The listeners of a process, of which only tables and counters are wanted."""

    def __init__(self, metrics: Registry) -> None:
        self.tables = AnswerTables(metrics, lambda: self.listeners)
        self.listeners: list[Any] = []

    def use(self, *tables: Keeper | None, udp: Sequence[UdpListener] = ()) -> None:
        """Exchange all of them."""
        processors = [SimpleNamespace(keeper=table) for table in tables]
        self.listeners = [SimpleNamespace(processor=each, udp=None) for each in processors]
        nothing = SimpleNamespace(keeper=None)
        self.listeners += [SimpleNamespace(processor=nothing, udp=each) for each in udp]
        self.tables.settle()


def make_kept(kind: str) -> Kept:
    return Kept(COREFILE, twin_of(kind), cluster_objects(service("default/web", "10.96.0.1")))


def values(metrics: Registry, name: str, kind: str = "counter") -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = getattr(metrics, kind)(name, "", ("",)).values
    return dict(found)


@pytest.mark.parametrize("kind", KINDS)
def test_lookups_and_changes_are_counted(kind: str) -> None:
    metrics, kept = Registry(), make_kept(kind)
    listening = Listening(metrics)
    listening.use(kept.keeper)
    unusual = WEB[:2] + b"\x29\x00" + WEB[4:]
    for wire in (WEB, WEB, unusual):
        kept.fast(wire)
    kept.slow(WEB)
    kept.fast(WEB)
    kept.slow(ask("nope.cluster.local."))
    kept.fast(ask("none.cluster.local."))
    metrics.fold()
    lookups = {
        labels[1]: count for labels, count in values(metrics, "hsdns_table_lookups_total").items()
    }
    assert lookups == {"hit": 1, "region": 1, "miss": 2, "unusual": 1}
    assert values(metrics, "hsdns_table_changes_total") == {("dns://:53", "learned"): 1}
    assert values(metrics, "hsdns_table_entries", "gauge") == {("dns://:53",): 1}
    (octets,) = values(metrics, "hsdns_table_bytes", "gauge").values()
    assert octets > len(WEB)
    before = metrics.to_text()
    metrics.fold()
    assert metrics.to_text() == before


@pytest.mark.parametrize("kind", KINDS)
def test_stale_and_refused_are_counted(kind: str) -> None:
    metrics, kept = Registry(), make_kept(kind)
    Listening(metrics).use(kept.keeper)
    held: list[Any] = []
    note, kept.keeper.enqueue = kept.keeper.enqueue, lambda *found: held.append(found)  # type: ignore[method-assign]  # learned later
    kept.slow(WEB)
    kept.keeper.enqueue = note  # type: ignore[method-assign]  # as it was
    kept.slow(WEB)
    kept.apply(Upserted(service("default/web", "10.96.0.9", version="2")))
    note(*held[0])
    kept.keeper.flush()
    assert kept.fast(WEB) is None
    metrics.fold()
    changes = {
        labels[1]: count for labels, count in values(metrics, "hsdns_table_changes_total").items()
    }
    assert changes == {"learned": 1, "refused": 1, "stale": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_counters_never_go_back_when_tables_are_exchanged(kind: str) -> None:
    """A new table may stand where an old one stood in memory."""
    metrics = Registry()
    listening = Listening(metrics)
    total = 0
    for turn in range(8):
        kept = make_kept(kind)
        listening.use(kept.keeper)
        kept.slow(WEB)
        for _ in range(40 - turn):
            assert kept.fast(WEB) is not None
        total += 40 - turn
        metrics.fold()
        assert values(metrics, "hsdns_table_lookups_total")["dns://:53", "hit"] == total
        del kept
        gc.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_exchanged_table_is_counted_once_more(kind: str) -> None:
    """A worker may have been amid a batch."""
    metrics, old, new = Registry(), make_kept(kind), make_kept(kind)
    listening = Listening(metrics)
    folded: list[str] = []
    for name, kept in (("old", old), ("new", new)):
        kept.keeper.fold = lambda name=name: folded.append(name)  # type: ignore[method-assign, misc]  # noted instead
    listening.use(old.keeper)
    folded.clear()
    listening.use(new.keeper)
    assert folded == ["old", "new"]
    for _ in range(2):
        metrics.fold()
    assert folded == ["old", "new", "old", "new", "new"]


@pytest.mark.sockets
@pytest.mark.parametrize("kind", KINDS)
def test_hits_are_logged_over_both_transports(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that still wait when the server closes, too."""
    text = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nlog\n{KUBERNETES}}}\n"
    objects = cluster_objects(service("default/web", "10.96.0.1"))
    wires = [ask("web.default.svc.cluster.local.", query_id=number) for number in range(5)]

    async def test() -> None:
        async with ClusterServer(tmp_path, text, objects) as site:
            with UdpClient() as udp:
                for wire in wires:
                    await udp.ask(wire, site.address)
                udp_port = udp.sock.getsockname()[1]
            async with TcpClient(site.address) as tcp:
                tcp_port = tcp.writer.get_extra_info("sockname")[1]
                tcp.send(*wires)
                for _ in wires:
                    await tcp.receive()
            assert site.hits() == 9
            assert site.value("hsdns_log_drops_total") == {(): 0}
        lines = [line for line in caplog.messages if " IN " in line]
        assert [line.rpartition(" ")[0] for line in lines] == [
            f'127.0.0.1:{port} - {number} "A IN web.default.svc.cluster.local. {protocol} 47 false {size}"'
            " NOERROR qr,aa,rd 92"
            for port, protocol, size in ((udp_port, "udp", 512), (tcp_port, "tcp", 65535))
            for number in range(5)
        ]

    with serving_with(kind):
        run(test())


def test_lines_left_out_are_counted_once_though_tables_are_exchanged() -> None:
    metrics, old, new = Registry(), make_kept("loop"), make_kept("loop")
    listening = Listening(metrics)
    listening.use(old.keeper)
    old.keeper.table.log.dropped = 5
    listening.use(new.keeper)
    old.keeper.table.log.dropped = 6  # of a batch that a worker was amid
    for _ in range(3):
        metrics.fold()
    assert values(metrics, "hsdns_log_drops_total") == {(): 6}
    assert list(listening.tables._tables) == [new.keeper]


def test_what_sockets_counted_is_added_up() -> None:
    metrics = Registry()
    listening = Listening(metrics)
    one, other = Statistics(), Statistics()
    listening.use(udp=[one, other])
    one.dropped, other.dropped = 3, 4
    one.errors = {errno.EPERM: 2, 99_999: 1}
    metrics.fold()
    one.errors[errno.EPERM] += 1
    other.errors = {errno.EPERM: 5}
    metrics.fold()
    assert values(metrics, "hsdns_udp_queue_drops_total") == {(): 7}
    assert values(metrics, "hsdns_udp_send_errors_total") == {("EPERM",): 8, ("UNKNOWN",): 1}


def test_listener_that_is_opened_anew_counts_from_nothing() -> None:
    metrics = Registry()
    listening = Listening(metrics)
    for total in range(1, 20):
        listener = Statistics()
        listening.use(udp=[listener])
        listener.dropped = 1
        metrics.fold()
        assert values(metrics, "hsdns_udp_queue_drops_total") == {(): total}
        del listener


@pytest.mark.parametrize("kind", KINDS)
def test_listener_that_closes_is_counted_once_more(kind: str) -> None:
    metrics, kept, listener = Registry(), make_kept(kind), Statistics()
    listening = Listening(metrics)
    listening.use(kept.keeper, udp=[listener])
    kept.slow(WEB)
    for _ in range(2):
        assert kept.fast(WEB) is not None
        listener.dropped += 3
        listener.errors = {errno.EPERM: listener.dropped}
        listening.use()
    metrics.fold()
    assert values(metrics, "hsdns_table_lookups_total")["dns://:53", "hit"] == 2
    assert values(metrics, "hsdns_table_entries", "gauge") == {}
    assert values(metrics, "hsdns_udp_queue_drops_total") == {(): 6}
    assert values(metrics, "hsdns_udp_send_errors_total") == {("EPERM",): 6}
    assert (listening.tables._tables, listening.tables._sockets) == ({}, {})


def test_gauges_of_a_listener_that_is_gone_are_gone() -> None:
    metrics, kept = Registry(), make_kept("loop")
    listening = Listening(metrics)
    listening.use(kept.keeper)
    metrics.fold()
    listening.use(None)
    metrics.fold()
    assert values(metrics, "hsdns_table_entries", "gauge") == {}
    assert values(metrics, "hsdns_table_bytes", "gauge") == {}


@pytest.mark.parametrize(("text", "keeps"), [(KUBERNETES, True), ("whoami", False), (f"whoami\n{KUBERNETES}", False)])  # fmt: skip
def test_make_keeper(text: str, keeps: bool) -> None:
    kept = Kept(f".:53 {{\n{text}\n}}\n", None)
    (listener,) = kept.configuration.listeners
    policies = {zone: Policy(block.handlers) for zone, block in listener.zones.items()}
    with serving_with("loop"):
        versions: Any = twin_of("loop").Versions()
        found = make_keeper("dns://:53", policies, versions, kept.runtime.counts)
    assert (found is not None) is keeps


@pytest.mark.parametrize("implementation", ["rust", "python"])
def test_implementation_is_shown(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IMPLEMENTATION", implementation)
    metrics = Registry()
    AnswerTables(metrics, list)
    assert values(metrics, "hsdns_fastpath_info", "gauge") == {(implementation,): 1}


def test_exchanged_tables_go_though_nothing_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = make_kept("loop")
    listening = Listening(Registry())
    listening.use(kept.keeper)
    turns = 0

    async def sleep(seconds: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            listening.use(None)  # a worker may still be in the middle of a batch
        if turns == 2:
            assert list(listening.tables._tables) == [kept.keeper]
        if turns == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(module, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(listening.tables.write_logs())
    assert listening.tables._tables == {}
