"""The table of scenarios and clients, also with another server behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hsdns.fault_scenarios.memory_server import OtherServer
from hsdns.fault_scenarios.page import Played, as_json, as_list, as_table, cell, play_all
from hsdns.fault_scenarios.play import Outcome
from hsdns.fault_scenarios.scenario import ScenarioError, load, names
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import RR, Reply
from loadtest.ports import free_port
from tests.fault_scenarios.test_scenario import FILE, of
from tests.support.clients.command import serving

OWN = of(FILE)
GLIBC = Outcome("glibc", 1, 5.0, 0, 0, 0.0, 4, "", {"race": 1})


class Behind(OtherServer):
    """Has an address for each name; `asked` counts."""

    asked = 0

    async def exchange(self, message: bytes, transport: str) -> bytes | None:
        self.asked += 1
        query = decode(message)
        record = RR(query.qname, 1, 30, bytes([192, 0, 2, 1]))
        return encode(query, Reply(answer=(record,) if query.qtype == 1 else (), aa=True), 4096)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "5 s"),
        ({"failed": 1}, "5 s, 1 of 1"),
        ({"seconds": 0.0, "wrong": 1}, "0 s, 1 of 1"),
        ({"seconds": float("inf"), "failed": 1}, "no end, 1 of 1"),
    ],
)
def test_a_cell(changes: dict[str, float], text: str) -> None:
    fields = {name: getattr(GLIBC, name) for name in GLIBC.__struct_fields__}
    assert cell(OWN, Outcome(**fields | changes)) == text


def test_a_cell_without_a_fault_has_queries() -> None:
    scenario = load("ndots-storm")
    assert cell(scenario, scenario.seen[0]) == "10 queries"


def test_the_table_and_the_list() -> None:
    played = [Played(OWN, (GLIBC,)), Played(load("big-service"), (), "it needs more")]
    assert list(as_table(played)) == [
        "scenario     glibc  musl  musl-1.2.3  go  c-ares",
        "own          5 s",
        "big-service  not with this server: it needs more",
    ]
    assert list(as_list(played[0])) == [
        "own: A title, 1 lookup of each client",
        "client  seconds  failed  wrong  recovered  queries",
        "glibc       5.0       0      0        0.0        4",
    ]
    assert list(as_list(played[1])) == ["big-service: not with this server: it needs more"]


def test_json() -> None:
    assert as_json(Played(OWN, (GLIBC,))) == {
        "scenario": "own",
        "title": "A title",
        "why_not": None,
        "never_hit": [],
        "clients": [
            {
                "client": "glibc",
                "lookups": 1,
                "seconds": 5.0,
                "failed": 0,
                "wrong": 0,
                "recovered": 0.0,
                "queries": 4,
                "error": "",
                "hits": {"race": 1},
            }
        ],
    }


def test_rules_are_put_in_front_of_another_server() -> None:
    behind = Behind("192.0.2.53", 53)
    scenarios = [load("conntrack-race"), load("big-service")]
    race, big = play_all(scenarios, behind, "web.example.org.")
    assert [(each.client, each.seconds, each.failed) for each in race.outcomes][:5] == [
        ("glibc", 5.0, 0),
        ("musl", 2.5, 0),
        ("musl-1.2.3", 2.5, 0),
        ("go", 0.0, 0),
        ("c-ares", 2.0, 0),
    ]
    assert (big.outcomes, big.why_not) == ((), "it needs a Service with 1,000 endpoints")
    assert (race.never_hit, big.never_hit) == ([], [])
    assert behind.asked > 0


def test_a_name_that_the_other_server_has_not_is_a_sentence() -> None:
    class Empty(Behind):
        async def exchange(self, message: bytes, transport: str) -> bytes | None:
            query = decode(message)
            return encode(query, Reply(rcode=3, aa=True), 4096)

    with pytest.raises(
        ScenarioError,
        match=r"192\.0\.2\.53 port 53 has no address for web\.example\.org\.; choose another name with -name",
    ):
        list(play_all([load("conntrack-race")], Empty("192.0.2.53", 53), "web.example.org."))


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif("HSDNS_PEER" not in os.environ, reason="HSDNS_PEER names no CoreDNS binary")
def test_rules_are_put_in_front_of_coredns(tmp_path: Path) -> None:
    port = free_port()
    corefile = tmp_path / "Corefile"
    corefile.write_text(f".:{port} {{\n    bind 127.0.0.1\n    hosts {{\n        192.0.2.1 web.example.org\n    }}\n}}\n")  # fmt: skip
    with serving("-conf", str(corefile), program=[os.environ["HSDNS_PEER"]]):
        behind = OtherServer("127.0.0.1", port)
        scenarios = [load(name) for name in names()]
        found = {each.scenario.name: each for each in play_all(scenarios, behind, "web.example.org.")}  # fmt: skip
    race = found["conntrack-race"]
    assert [cell(race.scenario, each) for each in race.outcomes][:5] == ["5 s", "2.5 s", "2.5 s", "0 s", "2 s"]  # fmt: skip
    assert [line for each in found.values() for line in each.never_hit] == []
    assert found["frozen"].why_not == "its rules are about the state of a cluster"
