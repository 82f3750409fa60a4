"""The traces of programs: the page has what is in them, and the scripted server does what its rules say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.wire.decode import decode_reply
from hsdns.wire.iana import type_from_text
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.programs import ROOT
from loadtest.traces.__main__ import FOLDER, PAGES
from loadtest.traces.scene import programs, result_of, scenarios
from loadtest.traces.server import Script, Server
from loadtest.traces.table import filled, traces_of
from tests.support.namespaces.container import refusal
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

RECORDED = """two-refused python-socket
RESULT : 192.0.2.1
udp 1 u1 1 A www.example.com - refused
udp 1 u1 2 AAAA = - refused
udp 2 u2 1 A = - OK1
udp 2 u2 2 AAAA = - NODATA
== ptr python-socket
RESULT : t1.example.com
udp 1 u1 1 PTR 7.1.244.10.in-addr.arpa - OK1
"""
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_has_what_was_recorded(path: Path) -> None:
    page = path.read_text()
    assert "<!-- " in page
    assert filled(page, FOLDER) == page


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_traces_are_those_of_the_tables(path: Path) -> None:
    kinds = programs()[path.stem].kinds
    expected = [name for name, scenario in scenarios().items() if scenario.kind in kinds]
    assert list(traces_of(path)) == expected


@pytest.mark.parametrize(("rules", "transport", "rrtype", "labels", "counts"), values(TABLES, "rules"))  # fmt: skip
def test_rules(rules: str, transport: str, rrtype: str, labels: str, counts: str) -> None:
    server = Server(Script(rules), [])
    query = Query.ask(Name.from_text("www.example.com"), type_from_text(rrtype))
    for label, count in zip(labels.split(), counts.split(), strict=True):
        action = server.script.action(transport, 1, rrtype, "www.example.com")
        found, _, wire = server.act(action, query, transport, 0.0)
        assert found == label
        assert (wire is None) == (count == "-")
        if wire is not None:
            assert len(decode_reply(wire, query).answer) == int(count)


@pytest.mark.parametrize(("line", "result"), values(TABLES, "results"))
def test_results(line: str, result: str) -> None:
    assert result_of(line) == result


@pytest.mark.slow
@pytest.mark.sockets
def test_a_recording(tmp_path: Path) -> None:
    if reason := refusal():
        pytest.skip(reason)
    words = [sys.executable, "-m", "loadtest.traces", "python-socket", "--only", "two-refused,ptr"]
    subprocess.run([*words, "--out", str(tmp_path)], check=True, cwd=ROOT, capture_output=True)
    (text,) = (path.read_text() for path in tmp_path.iterdir())
    without_times = re.sub(r"(?m)^\d+ |after \d+ ms", "", text.partition("\n== ")[2])
    assert without_times == RECORDED
