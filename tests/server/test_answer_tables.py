"""What all tables of the process count, through scrapes, exchanges and the end of listeners."""

from __future__ import annotations

import asyncio
import errno
import gc
from pathlib import Path
from typing import Any

import pytest

from hsdns.answer_table.policy import BlockPolicy
from hsdns.assemble import ListenAddress
from hsdns.cluster.objects import Upserted
from hsdns.metrics import Registry
from hsdns.server import answer_tables as keepers_module
from hsdns.server.answer_tables import AnswerTables, make_writer
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import run
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects
from tests.support.servers.udp_listeners import KINDS, serving_with, twin_of

LISTEN = ListenAddress("127.0.0.1", 53)
COREFILE = f".:53 {{\n{KUBERNETES}\n}}\n"
WEB = ask("web.default.svc.cluster.local.")


class Statistics:
    """A listener of which only the counters are wanted."""

    def __init__(self) -> None:
        self.dropped = 0
        self.errors: dict[int, int] = {}

    def statistics(self) -> tuple[int, dict[int, int]]:
        return self.dropped, dict(self.errors)


def make_memory_server(kind: str) -> MemoryServer:
    return MemoryServer(
        COREFILE, twin_of(kind), cluster_objects(service("default/web", "10.96.0.1"))
    )


def values(metrics: Registry, name: str, kind: str = "counter") -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = getattr(metrics, kind)(name, "", ("",)).values
    return dict(found)


@pytest.mark.parametrize("kind", KINDS)
def test_lookups_and_changes_are_counted(kind: str) -> None:
    metrics, memory_server = Registry(), make_memory_server(kind)
    keepers = AnswerTables(metrics)
    keepers.use({LISTEN: memory_server.writer}, {})
    unusual = WEB[:2] + b"\x29\x00" + WEB[4:]
    for wire in (WEB, WEB, unusual):
        memory_server.from_table(wire)
    memory_server.from_chain(WEB)
    memory_server.from_table(WEB)
    memory_server.from_chain(ask("nope.cluster.local."))
    memory_server.from_table(ask("none.cluster.local."))
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
    metrics, memory_server = Registry(), make_memory_server(kind)
    AnswerTables(metrics).use({LISTEN: memory_server.writer}, {})
    held: list[Any] = []
    note = memory_server.writer.enqueue
    memory_server.writer.enqueue = lambda *found: held.append(found)  # type: ignore[method-assign]  # stored later
    memory_server.from_chain(WEB)
    memory_server.writer.enqueue = note  # type: ignore[method-assign]  # as it was
    memory_server.from_chain(WEB)
    memory_server.apply(Upserted(service("default/web", "10.96.0.9", version="2")))
    note(*held[0])
    memory_server.writer.flush()
    assert memory_server.from_table(WEB) is None
    metrics.fold()
    changes = {
        labels[1]: count for labels, count in values(metrics, "hsdns_table_changes_total").items()
    }
    assert changes == {"learned": 1, "refused": 1, "stale": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_counters_never_go_back_when_tables_are_exchanged(kind: str) -> None:
    """A new table may stand where an old one stood in memory."""
    metrics = Registry()
    keepers = AnswerTables(metrics)
    total = 0
    for turn in range(8):
        memory_server = make_memory_server(kind)
        keepers.use({LISTEN: memory_server.writer}, {})
        memory_server.from_chain(WEB)
        for _ in range(40 - turn):
            assert memory_server.from_table(WEB) is not None
        total += 40 - turn
        metrics.fold()
        assert values(metrics, "hsdns_table_lookups_total")["dns://:53", "hit"] == total
        del memory_server
        gc.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_exchanged_table_is_counted_once_more(kind: str) -> None:
    """A worker may have been amid a batch."""
    metrics, old, new = Registry(), make_memory_server(kind), make_memory_server(kind)
    keepers = AnswerTables(metrics)
    folded: list[str] = []
    for name, memory_server in (("old", old), ("new", new)):
        memory_server.writer.hits.count = lambda name=name: folded.append(name)  # type: ignore[method-assign, misc]  # noted instead
    keepers.use({LISTEN: old.writer}, {})
    keepers.use({LISTEN: new.writer}, {})
    assert folded == ["old"]
    for _ in range(2):
        metrics.fold()
    assert folded == ["old", "old", "new", "new"]


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
        async with ClusterServer(tmp_path, text, objects) as cluster_server:
            with UdpClient() as udp:
                for wire in wires:
                    await udp.ask(wire, cluster_server.address)
                udp_port = udp.sock.getsockname()[1]
            async with TcpClient(cluster_server.address) as tcp:
                tcp_port = tcp.writer.get_extra_info("sockname")[1]
                tcp.send(*wires)
                for _ in wires:
                    await tcp.receive()
            assert cluster_server.hits() == 9
            assert cluster_server.value("hsdns_log_drops_total") == {(): 0}
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
    metrics, old, new = Registry(), make_memory_server("loop"), make_memory_server("loop")
    keepers = AnswerTables(metrics)
    keepers.use({LISTEN: old.writer}, {})
    old.writer.table.log.dropped = 5
    keepers.use({LISTEN: new.writer}, {})
    old.writer.table.log.dropped = 6  # of a batch that a worker was amid
    for _ in range(3):
        metrics.fold()
    assert values(metrics, "hsdns_log_drops_total") == {(): 6}
    assert all(source is not old.writer for _, source in keepers._seen)


def test_what_sockets_counted_is_added_up() -> None:
    metrics = Registry()
    keepers = AnswerTables(metrics)
    one, other = Statistics(), Statistics()
    keepers.use({}, {LISTEN: one, LISTEN._replace(port=54): other})  # type: ignore[dict-item]  # only counters are asked
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
    keepers = AnswerTables(metrics)
    for total in range(1, 20):
        listener = Statistics()
        udp: Any = {LISTEN: listener}
        keepers.use({}, udp)
        listener.dropped = 1
        metrics.fold()
        assert values(metrics, "hsdns_udp_queue_drops_total") == {(): total}
        del listener, udp


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_leaving_listener_is_asked_is_counted_until_it_closes(kind: str) -> None:
    metrics, memory_server, listener = Registry(), make_memory_server(kind), Statistics()
    keepers, udp = AnswerTables(metrics), {LISTEN: listener}
    keepers.use({LISTEN: memory_server.writer}, udp)  # type: ignore[arg-type]  # only counters are asked
    memory_server.from_chain(WEB)
    keepers.use({}, {}, [memory_server.writer], [listener])  # type: ignore[list-item]  # as above
    for _ in range(2):
        assert memory_server.from_table(WEB) is not None
        listener.dropped += 3
        listener.errors = {errno.EPERM: listener.dropped}
        metrics.fold()
    assert memory_server.from_table(WEB) is not None
    keepers.let_go([memory_server.writer], [listener])  # type: ignore[list-item]  # as above
    metrics.fold()
    assert values(metrics, "hsdns_table_lookups_total")["dns://:53", "hit"] == 3
    assert values(metrics, "hsdns_table_entries", "gauge") == {}
    assert values(metrics, "hsdns_udp_queue_drops_total") == {(): 6}
    assert values(metrics, "hsdns_udp_send_errors_total") == {("EPERM",): 6}
    assert keepers._seen == {}


def test_gauges_of_a_listener_that_is_gone_are_gone() -> None:
    metrics, memory_server = Registry(), make_memory_server("loop")
    keepers = AnswerTables(metrics)
    keepers.use({LISTEN: memory_server.writer}, {})
    metrics.fold()
    keepers.use({LISTEN: None}, {})
    metrics.fold()
    assert values(metrics, "hsdns_table_entries", "gauge") == {}
    assert values(metrics, "hsdns_table_bytes", "gauge") == {}


@pytest.mark.parametrize(("text", "keeps"), [(KUBERNETES, True), ("whoami", False), (f"whoami\n{KUBERNETES}", False)])  # fmt: skip
def test_make_writer(text: str, keeps: bool) -> None:
    memory_server = MemoryServer(f".:53 {{\n{text}\n}}\n", None)
    (listener,) = memory_server.configuration.listeners
    policies = {zone: BlockPolicy(block.handlers) for zone, block in listener.zones.items()}
    with serving_with("loop"):
        versions: Any = twin_of("loop").Versions()
        found = make_writer("dns://:53", policies, versions)
    assert (found is not None) is keeps


@pytest.mark.parametrize("implementation", ["rust", "python"])
def test_implementation_is_shown(implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers_module, "IMPLEMENTATION", implementation)
    metrics = Registry()
    AnswerTables(metrics)
    assert values(metrics, "hsdns_fastpath_info", "gauge") == {(implementation,): 1}


def test_old_tables_go_though_nobody_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    memory_server = make_memory_server("loop")
    keepers = AnswerTables(Registry())
    keepers.use({LISTEN: memory_server.writer}, {})
    turns = 0

    async def sleep(seconds: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            keepers.use({LISTEN: None}, {})  # a worker may still be amid a batch
        if turns == 2:
            assert keepers._old == [memory_server.writer]
        if turns == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(keepers_module, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keepers.write_logs())
    assert keepers._old == []
    assert all(source is not memory_server.writer for _, source in keepers._seen)
