"""Hits count in the metrics, and are logged, as the same queries are in the chain."""

from __future__ import annotations

import logging
import re
from types import ModuleType

import pytest

from hsdns.server.transport.sockets import client_endpoint
from hsdns.wire.edns import Edns
from hsdns.wire.message import CD, RD
from tests.answer_table.corefiles import OBJECTS, block
from tests.support.servers.memory_server import CLIENT, KUBERNETES, V6, MemoryServer, ask
from tests.support.servers.table_over_udp import TableOverUdp

LOGS = [
    pytest.param("log", id="common"),
    pytest.param('log . "{combined} {class} {size}"', id="combined"),
    pytest.param("log {\nclass denial\n}", id="class"),
    pytest.param('bufsize 600\nlog cluster.local "{common}"', id="lowered"),
    pytest.param("log\nheader {\nresponse set ra\n}", id="header"),
    pytest.param("log example.net", id="another-zone"),
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
    counts = {"log {\nclass denial\n}": 56, "log example.net": 0}
    assert len(found[0]) == counts.get(lines, 2 * len(wires))
    assert (found[0] != found[2]) is (lines != "log example.net")


@pytest.mark.parametrize("text", ["log", "log {\nclass denial\n}", "log {\nclass success\n}"])
def test_no_line_is_made_while_nobody_reads_the_log(
    twin: ModuleType, text: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only some hits have lines, none is counted as lost that has none."""
    lost: list[str] = []

    def refuse(record: logging.LogRecord) -> bool:
        lost.append(record.getMessage())
        return False

    memory_server = MemoryServer(block(f"{text}\n{KUBERNETES}"), twin, OBJECTS)
    memory_server.from_chain(ask("web.default.svc.cluster.local."))
    assert memory_server.from_table(ask("web.default.svc.cluster.local."), "tcp") is not None
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    monkeypatch.setattr(logging.getLogger("hsdns.plugin.log"), "filters", [refuse])
    records = memory_server.writer.table.take_log(10)
    memory_server.writer.hit_log.write(records, client_endpoint)
    assert len(records) == 1
    assert len(lost) == ("denial" not in text)
    assert "web" not in "".join(lost), "it was asked before the line was made"
