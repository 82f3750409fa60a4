"""Hits count in the metrics, and are logged, as the same queries are in the chain."""

from __future__ import annotations

import logging
import re
import time
from types import ModuleType

import pytest

from hsdns.server.sockets import client_endpoint
from hsdns.wire.edns import Edns
from hsdns.wire.message import CD, RD
from tests.answer_table.corefiles import (
    CACHED,
    OBJECTS,
    PLAIN,
    SUB,
    block,
)
from tests.support.servers.memory_server import CLIENT, KUBERNETES, V6, MemoryServer, ask
from tests.support.servers.table_over_udp import TableOverUdp


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        pytest.param(KUBERNETES, None, id="no-prometheus"),
        pytest.param(f"prometheus\n{KUBERNETES}", "kubernetes", id="prometheus"),
        pytest.param(f"prometheus\nerrors\nloadbalance\n{KUBERNETES}", "errors", id="the-next-handler"),
    ],
)  # fmt: skip
def test_groups_count_as_the_chain_would(twin: ModuleType, text: str, plugin: str | None) -> None:
    memory_server = MemoryServer(block(text, "Cluster.Local:53"), twin, OBJECTS)
    wire = ask("web.default.svc.cluster.local.")
    memory_server.from_chain(wire)
    memory_server.from_table(wire, "tcp")
    memory_server.from_table(wire, "tcp", v6=True)
    memory_server.writer.hits.count()
    metrics = memory_server.runtime.metrics
    requests = metrics.counter("coredns_dns_requests_total", "").values
    responses = metrics.counter("coredns_dns_responses_total", "").values
    if plugin is None:
        assert requests == responses == {}
        return
    zone = ("dns://:53", "cluster.local.", "")
    assert requests == {
        (*zone, "udp", "1", "A"): 1,
        (*zone, "tcp", "1", "A"): 1,
        (*zone, "tcp", "2", "A"): 1,
    }
    assert responses == {(*zone, "NOERROR", plugin): 3}


@pytest.mark.parametrize(
    ("text", "hits", "misses"),
    [
        pytest.param(KUBERNETES, {}, 0, id="no-cache"),
        pytest.param(f"cache 30 example.org\n{KUBERNETES}", {}, 0, id="another-zone"),
        pytest.param(f"cache\n{KUBERNETES}", {"success": 3, "denial": 3}, 2, id="cache"),
        pytest.param(CACHED + KUBERNETES, {"success": 3}, 5, id="denial-disabled"),
        pytest.param(f"cache {{\ndisable success\n}}\n{KUBERNETES}", {"denial": 3}, 5, id="success-disabled"),
    ],
)  # fmt: skip
def test_cache_counts(twin: ModuleType, text: str, hits: dict[str, int], misses: int) -> None:
    """Four times each: one that the chain answers, three that the table does."""
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    memory_server.runtime.now = time.monotonic()  # storing looks at the real clock
    for question in ("web.default.svc.cluster.local.", "web.default.svc.cluster.local. AAAA"):
        wire = ask(question)
        memory_server.from_chain(wire)
        for _ in range(3):
            assert memory_server.from_table(wire, "tcp") is not None
    memory_server.writer.hits.count()
    metrics = memory_server.runtime.metrics
    found = metrics.counter("coredns_cache_hits_total", "", ("", "", "", "")).values
    assert {labels[1]: count for labels, count in found.items()} == hits
    assert sum(metrics.counter("coredns_cache_misses_total", "", ("",)).values.values()) == misses
    requests = metrics.counter("coredns_cache_requests_total", "", ("",)).values
    assert sum(requests.values()) == sum(hits.values()) + misses


def test_cache_counts_what_it_saw(twin: ModuleType) -> None:
    """The name, the kind and the TTL behind `rewrite`, not those of the client's reply."""
    rules = "rewrite continue ttl web.apps.test 0\nrewrite name suffix .apps.test .default.svc.cluster.local answer auto\n"
    memory_server = MemoryServer(
        block(f"{rules}cache 30 cluster.local\n{KUBERNETES}"), twin, OBJECTS
    )
    memory_server.runtime.now = time.monotonic()  # storing looks at the real clock
    wire = ask("web.apps.test.")
    memory_server.from_chain(wire)
    for _ in range(3):
        assert memory_server.from_table(wire, "tcp") == memory_server.from_chain(
            wire, "tcp", stores=False
        )
    memory_server.writer.hits.count()
    hits = memory_server.runtime.metrics.counter(
        "coredns_cache_hits_total", "", ("", "", "", "")
    ).values
    assert {labels[1]: count for labels, count in hits.items()} == {"success": 6}


def test_names_that_do_not_exist_count_under_the_blocks_zone(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(f"prometheus\n{KUBERNETES}"), twin, OBJECTS)
    memory_server.from_chain(ask(PLAIN))
    assert memory_server.from_table(ask(SUB), "tcp") is not None
    memory_server.writer.hits.count()
    responses = memory_server.runtime.metrics.counter("coredns_dns_responses_total", "").values
    assert responses == {("dns://:53", ".", "", "NXDOMAIN", "kubernetes"): 2}


@pytest.mark.sockets
@pytest.mark.parametrize(
    "question", ["web.default.svc.cluster.local.", "nope.default.svc.cluster.local."]
)
def test_log_shows_the_lowered_size(
    twin: ModuleType, caplog: pytest.LogCaptureFixture, question: str
) -> None:
    memory_server = MemoryServer(
        block(f'bufsize 600\nlog . "{{>bufsize}} {{size}} {{rsize}}"\n{KUBERNETES}'), twin, OBJECTS
    )
    wires = [ask(question, edns=form) for form in (Edns(4096), Edns(550), Edns(300))]
    with caplog.at_level("INFO", "hsdns.plugin.log"), TableOverUdp(twin) as datagrams:
        for wire in wires:
            memory_server.from_chain(wire)
        assert [datagrams.ask(memory_server.writer.table, wire) is None for wire in wires] == [
            False
        ] * 3
        writer = memory_server.writer
        writer.hit_log.write(writer.table.take_log(9), client_endpoint)
    lines = caplog.messages
    assert [line.partition(" ")[0] for line in lines] == ["600", "550", "512"] * 2
    assert lines[:3] == lines[3:]


LOGS = [
    pytest.param("log", id="common"),
    pytest.param('log . "{combined} {class} {size}"', id="combined"),
    pytest.param("log {\nclass denial\n}", id="class"),
    pytest.param('bufsize 600\nlog cluster.local "{common}"', id="lowered"),
    pytest.param("log\nheader {\nresponse set ra\n}", id="header"),
]


@pytest.mark.sockets
@pytest.mark.parametrize("lines", LOGS)
def test_lines_of_the_log_with_and_without_table(
    twin: ModuleType, caplog: pytest.LogCaptureFixture, lines: str
) -> None:
    """Over both doors, but for how long it took."""
    corefile = block(f"{lines}\n{KUBERNETES}")
    memory_server, plain = (
        MemoryServer(corefile, twin, OBJECTS),
        MemoryServer(corefile, None, OBJECTS),
    )
    wires = [
        ask(f"{name}.svc.cluster.local. {qtype}", query_id=number, flags=flags, edns=form)
        for number, form in enumerate(
            (None, Edns(300), Edns(4096, do=True), Edns(1232, options=((10, b"12345678"),)))
        )
        for name in ("web.default", "WEB.default", "nope.default", "db.default", "other.none")
        for qtype, flags in (("A", RD), ("AAAA", CD))
    ]
    for wire in wires:
        memory_server.from_chain(wire)
    writer, found = memory_server.writer, []
    with caplog.at_level("INFO", "hsdns.plugin.log"), TableOverUdp(twin) as datagrams:
        for is_v6 in (False, True):
            for fast in (True, False):
                caplog.clear()
                for wire in wires:
                    if not fast:
                        plain.from_chain(wire, "tcp", client=V6 if is_v6 else CLIENT)
                        plain.from_chain(wire, client=client_endpoint(datagrams.address))
                        continue
                    assert memory_server.from_table(wire, "tcp", v6=is_v6) is not None
                    assert datagrams.ask(writer.table, wire) is not None
                if fast:
                    writer.hit_log.write(writer.table.take_log(1 << 20), client_endpoint)
                found.append(
                    [re.sub(r" [0-9.e-]+s( |$)", " DURATION ", line) for line in caplog.messages]
                )
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(found[0]) == (56 if "denial" in lines else 2 * len(wires))
    assert found[0] != found[2]


@pytest.mark.parametrize("text", ["log", "log {\nclass denial\n}"])
def test_no_line_is_made_while_nobody_reads_the_log(
    twin: ModuleType,
    text: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where only some hits have lines, none is counted as lost that has none."""
    lost: list[object] = []

    def refuse(record: object) -> bool:
        lost.append(record)
        return False

    memory_server = MemoryServer(block(f"{text}\n{KUBERNETES}"), twin, OBJECTS)
    memory_server.from_chain(ask("web.default.svc.cluster.local."))
    assert memory_server.from_table(ask("web.default.svc.cluster.local."), "tcp") is not None
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    monkeypatch.setattr(logging.getLogger("hsdns.plugin.log"), "filters", [refuse])
    records = memory_server.writer.table.take_log(10)
    memory_server.writer.hit_log.write(records, client_endpoint)
    assert len(records) == 1
    assert len(lost) == (text == "log")
