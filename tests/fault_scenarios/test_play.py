"""Every scenario costs every client what its file says: the table "what must be seen" is the data of these tests."""

from __future__ import annotations

import asyncio
import threading
from math import inf

import pytest

from hsdns.fault_scenarios.memory_server import OtherServer
from hsdns.fault_scenarios.page import Played, as_json, as_list, as_table, play_all
from hsdns.fault_scenarios.play import play
from hsdns.fault_scenarios.scenario import ScenarioError, load, names
from hsdns.resolver import MODELS
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import RR, Reply
from loadtest.ports import open_both
from tests.fault_scenarios.test_scenario import FILE, of


@pytest.mark.parametrize("name", names())
def test_each_client_sees_what_the_file_says(name: str) -> None:
    scenario = load(name)
    outcomes = tuple(play(scenario, seen) for seen in scenario.seen)
    for seen, found in zip(scenario.seen, outcomes, strict=True):
        assert found.client == seen.label
        for name in ("seconds", "failed", "wrong", "recovered", "queries", "error"):
            assert (name, getattr(found, name)) == (name, getattr(seen, name)), seen.label
    assert Played(scenario, outcomes).never_hit == []
    assert {seen.client for seen in scenario.seen if seen.is_plain} == set(MODELS)


def test_a_lookup_that_never_ends_has_no_end_in_json() -> None:
    scenario = load("tcp-blocked")
    found = play(scenario, scenario.seen[0])
    assert (found.client, found.seconds, found.failed) == ("glibc", inf, 2)
    assert as_json(Played(scenario, (found,)))["clients"][0]["seconds"] is None


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('remove = ["race"]', 'apply = "kind: Pod"', "manifests:1: "),
        ('remove = ["race"]', 'delete = ["Service shop/api"]', "there is no Service shop/api that could be deleted"),
        ("seconds = 30", 'seconds = 30\ncorefile = ". {\\n kuberntes\\n}\\n"', "Corefile of the scenario:2:2: "),
        ("web.shop.svc.cluster.local named", "web. name api. named", 'the rule "drop name web. name api. named race": the rule can never match'),
    ],
)  # fmt: skip
def test_what_only_its_servers_refuse(old: str, new: str, error: str) -> None:
    assert old in FILE
    scenario = of(FILE.replace(old, new))
    with pytest.raises(ScenarioError) as raised:
        play(scenario, scenario.seen[0])
    assert str(raised.value).startswith(error)


def test_several_programs_ask_at_once() -> None:
    scenario = of(FILE.replace('meant = "', 'programs = 3\nmeant = "').replace("drop name", "delay 2s name"))  # fmt: skip
    found = play(scenario, scenario.seen[0])
    assert (found.lookups, found.queries, found.hits) == (3, 6 * 4, {"race": 6})


class Behind(OtherServer):
    """Has an address for each name; `asked` counts."""

    asked = 0

    async def exchange(self, message: bytes, transport: str) -> bytes | None:
        self.asked += 1
        query = decode(message)
        record = RR(query.qname, 1, 30, bytes([192, 0, 2, 1]))
        return encode(query, Reply(answer=(record,) if query.qtype == 1 else (), aa=True), 4096)


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
    why_not = "not with this server: it needs a Service with 1,000 endpoints"
    assert list(as_list(big)) == [f"big-service: {why_not}"]
    assert list(as_table([race, big])) == [
        "scenario        glibc  musl   musl-1.2.3  go   c-ares",
        "conntrack-race  5 s    2.5 s  2.5 s       0 s  2 s",
        f"big-service     {why_not}",
    ]
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


@pytest.mark.sockets
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_reply_is_asked_for_once_and_has_the_id_of_each_query(transport: str) -> None:
    udp, tcp = open_both()
    asked: list[bytes] = []

    def serve() -> None:
        if transport == "udp":
            message, client = udp.recvfrom(512)
            udp.sendto(message + b"!", client)
        else:
            connection, _ = tcp.accept()
            with connection:
                message = connection.recv(512)[2:]
                connection.sendall((len(message) + 1).to_bytes(2, "big") + message + b"!")
        asked.append(message)

    thread = threading.Thread(target=serve)
    thread.start()
    server = OtherServer(*udp.getsockname())
    found = [
        asyncio.run(server.exchange(head + b"long query", transport)) for head in (b"ab", b"cd")
    ]
    thread.join()
    for each in (udp, tcp):
        each.close()
    assert (found, asked) == ([b"ablong query!", b"cdlong query!"], [b"ablong query"])
    assert server.problem is None
