"""Files of fault scenarios, what each costs every client, the pages that say so, and a server in memory."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

import pytest
import yaml

from hsdns.chain import Endpoint
from hsdns.fault_scenarios.memory_server import MemoryServer, Objects, OtherServer
from hsdns.fault_scenarios.page import CLIENTS, Played, as_json, as_list, as_table, play_all, write
from hsdns.fault_scenarios.play import COREFILE as STAGE
from hsdns.fault_scenarios.play import VirtualLoop, play
from hsdns.fault_scenarios.scenario import (
    Asked,
    Scenario,
    ScenarioError,
    Seen,
    Step,
    load,
    names,
    read,
)
from hsdns.resolver import looks_up
from hsdns.wire.decode import decode, decode_reply
from hsdns.wire.encode import encode, encode_query
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from loadtest.ports import open_both
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")
FILE = Path(__file__).with_name("scenario.toml").read_text()


def changed(change: str) -> str:
    """FILE with a text in place of another one."""
    old, _, new = change.partition(" | ")
    assert old in FILE
    return FILE.replace(old, new)


def of(text: str) -> Scenario:
    return read("own", text.encode(), "own")


def test_a_file_has_its_steps_in_order() -> None:
    found = of(FILE)
    assert [(step.at, step.add, step.remove) for step in found.steps] == [
        (0.0, ("drop name web.shop.svc.cluster.local named race",), ()),
        (9.0, (), ("race",)),
    ]
    assert (found.name, found.rules, found.why_not_behind) == ("own", ("race",), "")
    assert found.seen == (Seen("glibc", 5.0, 0, 4),)


@pytest.mark.parametrize(("change", "error"), columns(TABLES, "what is wrong in a file"))
def test_what_is_wrong_is_one_sentence(change: str, error: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        of(changed(change))
    assert str(raised.value).startswith(error)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "error"), columns(TABLES, "names that are not there"))
def test_a_name_that_is_not_there(name: str, error: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        load(name)
    assert str(raised.value) == error


@pytest.mark.parametrize("name", names())
def test_each_file_says_where_the_failure_was_met(name: str) -> None:
    found = load(name)
    assert found.sources
    assert all(source.startswith("https://") for source in found.sources)
    assert (found.name, len(found.title) < 70) == (name, True)


def test_about_another_name() -> None:
    found = of(FILE.replace("named race", "or name api.web.shop.svc.cluster.local named race"))
    other = found.about("db.test.")
    assert other.steps[0].add == (
        "drop name db.test. or name api.web.shop.svc.cluster.local named race",
    )
    assert [(each.name, each.meant) for each in other.asked] == [("db.test.", "db.test.")]


# --- the table "what must be seen" is the data of these tests ---


@pytest.mark.parametrize("name", names())
def test_each_client_sees_what_the_file_says(name: str) -> None:
    scenario = load(name)
    outcomes = tuple(play(scenario, seen) for seen in scenario.seen)
    for seen, found in zip(scenario.seen, outcomes, strict=True):
        assert found.client == seen.label
        for name in ("seconds", "failed", "wrong", "recovered", "queries", "error"):
            assert (name, getattr(found, name)) == (name, getattr(seen, name)), seen.label
    assert Played(scenario, outcomes).never_hit == []
    (kind,) = {asked.types for asked in scenario.asked}
    able = {each for each in CLIENTS if looks_up(each, kind)}
    assert {seen.client for seen in scenario.seen if seen.is_plain} >= able


def test_a_lookup_that_never_ends_has_no_end_in_json() -> None:
    scenario = load("tcp-blocked")
    found = play(scenario, scenario.seen[0])
    assert (found.client, found.seconds, found.failed) == ("glibc", inf, 2)
    assert as_json(Played(scenario, (found,)))["clients"][0]["seconds"] is None


@pytest.mark.parametrize(("change", "error"), columns(TABLES, "what only its servers refuse"))
def test_what_only_its_servers_refuse(change: str, error: str) -> None:
    scenario = of(changed(change))
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
    assert [(each.client, each.seconds, each.failed) for each in race.outcomes][:6] == [
        ("glibc", 5.0, 0),
        ("musl", 2.5, 0),
        ("musl-1.2.3", 2.5, 0),
        ("go", 0.0, 0),
        ("node-resolve", 0.0, 0),
        ("envoy", 5.0, 0),
    ]
    assert (big.outcomes, race.never_hit, big.never_hit) == ((), [], [])
    why_not = "not with this server: it needs a Service with 1,000 endpoints"
    assert list(as_list(big)) == [f"big-service: {why_not}"]
    assert list(as_table([race, big])) == [
        "scenario        glibc  musl   musl-1.2.3  go   node-resolve  envoy",
        "conntrack-race  5 s    2.5 s  2.5 s       0 s  0 s           5 s",
        f"big-service     {why_not}",
    ]
    assert [each[-5:] for each in as_table([race], most=50)][2:] == ["", "envoy", "  5 s"]
    assert behind.asked > 0


def test_a_name_that_the_other_server_has_not_is_a_sentence() -> None:
    class Empty(Behind):
        async def exchange(self, message: bytes, transport: str) -> bytes | None:
            query = decode(message)
            return encode(query, Reply(rcode=3, aa=True), 4096)

    with pytest.raises(
        ScenarioError,
        match=r"192\.0\.2\.53 port 53 has no address for web\.example\.org\.; choose another name with --name",
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


# --- the pages of docs/fault-scenarios say what the files say ---

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "fault-scenarios"
INDEX = FOLDER / "index.md"
RENEW = "run: make scenario-pages"


def test_the_pages_are_those_of_the_files(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "index.md", tmp_path)
    write(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text() for path in FOLDER.iterdir()}, RENEW


def test_the_index_shows_what_the_command_prints() -> None:
    (shown,) = re.findall(
        r"```text\n\$ hsdns fault matrix (\S+)\n(.*?)```", INDEX.read_text(), re.DOTALL
    )
    scenario = load(shown[0])
    (played,) = play_all([scenario])
    assert shown[1].splitlines() == list(as_list(played))


def test_the_scenario_of_the_index_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", INDEX.read_text(), re.DOTALL)
    scenario = of(text)
    (seen,) = scenario.seen
    found = play(scenario, seen)
    assert (found.seconds, found.failed, found.wrong, found.queries) == (
        seen.seconds,
        seen.failed,
        seen.wrong,
        seen.queries,
    )


def test_the_index_describes_every_key() -> None:
    table = INDEX.read_text().partition("| key | meaning |")[2]
    described = set(re.findall(r"`\[*(\w+)\]*`", table))
    known = {
        *Scenario.__struct_fields__,
        *Step.__struct_fields__,
        *Asked.__struct_fields__,
        "version",
    }
    measured = {"seconds", "failed", "queries", "wrong", "recovered", "error"}
    assert known | {*Seen.__struct_fields__} - measured <= described | {"name"}


def test_the_navigation_has_them_in_order() -> None:
    text = (FOLDER.parents[1] / "mkdocs.yml").read_text().partition("\nnav:")[2]
    nav = yaml.safe_load(f"nav:{text}")["nav"]
    (reference,) = (each["Reference"] for each in nav if "Reference" in each)
    (listed,) = (each["Fault scenarios"] for each in reference if "Fault scenarios" in each)
    assert listed == ["fault-scenarios/index.md", *({name: f"fault-scenarios/{name}.md"} for name in names())]  # fmt: skip


# --- what rules about connections, the process and the watch do that no file of a scenario has ---

COREFILE = """\
. {
    template IN A . {
        answer "{{ .Name }} 30 IN A 192.0.2.1"
    }
}
"""
WEB = encode_query(Query.ask(Name.from_text("web."), 1), 1)
LOCAL = Endpoint("127.0.0.1", 53)


async def fate(server: MemoryServer, transport: str = "tcp", port: int = 1) -> str:
    """What comes of a query, and after how many seconds."""
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        reply = await server.answer(WEB, transport, Endpoint("127.0.0.1", port), LOCAL)
    except ConnectionResetError:
        return f"reset {clock() - began:.1f}"
    return f"{'silence' if reply is None else 'reply'} {clock() - began:.1f}"


def serve(run: Callable[[MemoryServer], Awaitable[list[str]]]) -> list[str]:
    async def served() -> list[str]:
        server = MemoryServer(COREFILE)
        await server.start()
        try:
            return await run(server)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(served())


@pytest.mark.parametrize(("rule", "expected"), columns(TABLES, "what a rule does to a connection, to a query over UDP, and to one after the rule"))  # fmt: skip
def test_connections(rule: str, expected: str) -> None:
    """The query has 37 octets."""

    async def run(server: MemoryServer) -> list[str]:
        server.add(f"{rule} named x")
        found = [await fate(server), await fate(server, "udp")]
        server.remove("x")
        return [*found, await fate(server, port=2), f"hits {server.hits['x']}"]

    assert ", ".join(serve(run)) == expected


def test_a_connection_is_decided_about_once() -> None:
    async def run(server: MemoryServer) -> list[str]:
        server.add("refuse nth 2 named x")
        return [await fate(server, port=port) for port in (1, 1, 2, 2, 3)]

    assert serve(run) == ["reply 0.0", "reply 0.0", "reset 0.0", "reset 0.0", "reply 0.0"]


def test_a_process_that_dies_comes_back() -> None:
    async def run(server: MemoryServer) -> list[str]:
        server.add("delay 3s named slow")
        waiting = asyncio.create_task(fate(server, "udp"))
        await asyncio.sleep(1)
        server.remove("slow")
        server.add("die 10s named dead")
        await asyncio.sleep(1)
        found = [await fate(server, "udp"), await fate(server)]
        await asyncio.sleep(10)
        return [await waiting, *found, await fate(server, "udp"), f"hits {server.hits['dead']}"]

    assert serve(run) == ["silence 1.0", "silence 0.0", "reset 0.0", "reply 0.0", "hits 1"]


DB = """\
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
"""


@pytest.mark.parametrize(("rule", "expected"), columns(TABLES, "what a rule hides: the rcode while it stands and after it"))  # fmt: skip
def test_what_a_rule_hides_is_there_when_it_ends(rule: str, expected: str) -> None:
    """With `watch away` the namespace is hidden, too."""
    query = Query.ask(Name.from_text("db.shop.svc.cluster.local."), 1)

    async def run() -> list[object]:
        server = MemoryServer(STAGE)
        await server.start()

        async def rcode() -> int:
            wire = await server.answer(encode_query(query, 1), "udp", LOCAL, LOCAL)
            assert wire is not None
            return decode_reply(wire, query).rcode

        server.add(f"{rule} named x")
        await asyncio.sleep(1)
        server.hand(Objects().change(Step(apply=DB)))
        found: list[object] = [await rcode()]
        server.remove("x")
        found += [await rcode(), f"hits {server.hits['x']}"]
        await server.stop()
        return found

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert " ".join(map(str, runner.run(run()))) == expected
