"""What /metrics shows does not depend on who answered: with the table and without it, it is the same text.

Only how long answers took differs, and what counts the table itself (`hsdns_`).
"""

from __future__ import annotations

import importlib
import re
import socket
import time
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch

import pytest

from hsdns.assemble import ListenAddress
from hsdns.chain import Endpoint
from hsdns.server.transport.sockets import asked_endpoint, client_endpoint, open_udp, socket_address
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN
from hsdns.wire.message import CD, RD
from tests.fastpath.twins import built
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.coroutines.eager import finish
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import (
    CLIENT,
    KUBERNETES,
    V6,
    MemoryServer,
    ask,
    cluster_objects,
)
from tests.support.servers.udp_listeners import each_kind
from tests.support.tables import section, sections

pytestmark = pytest.mark.sockets

OBJECTS = cluster_objects(
    *(service(f"default/web-{number}", f"10.96.0.{number + 1}") for number in range(40)),
    service("default/db"),
    endpoint_slice("default/db-1", "db", *(f"10.0.0.{number} host=db-{number}" for number in range(1, 40))),
    service("default/there", external="www.example.org"),
    service("default/here", external="web-1.default.svc.cluster.local"),
)  # fmt: skip


class Asked(NamedTuple):
    """A query and how it comes."""

    wire: bytes
    protocol: str
    client: Endpoint


def stream(count: int, seed: int = 1) -> list[Asked]:
    """Mixed queries: most of them again and again, some for what there is not, a few unusual."""
    chance = Random(seed)
    names = [f"web-{number}.default.svc.cluster.local." for number in range(34, 46)]
    names += [f"db-{number}.db.default.svc.cluster.local." for number in range(34, 42)]
    lefts = "db.default.svc. here.default.svc. there.default.svc. _http._tcp.db.default.svc. ns.dns. dns-version. svc."
    names += [f"{left}cluster.local." for left in ("", "1-2-3-4.default.pod.", *lefts.split())]
    names += [f"{number}.0.96.10.in-addr.arpa." for number in range(38, 44)] + ["www.example.org."]
    types = "A A A AAAA SRV PTR TXT MX NS SOA HTTPS ANY TYPE65280".split()
    found = []
    for number in range(count):
        name = chance.choice(names)
        if chance.random() < 0.2:
            name = f"{chance.choice('abcdef')}{number % 7}.{chance.choice(['default.svc.', 'nope.svc.', ''])}cluster.local."
        edns = None
        if chance.random() < 0.4:
            options = ((10, b"12345678"),) if chance.random() < 0.5 else ()
            edns = Edns(
                chance.choice([0, 512, 1232, 4096]), do=chance.random() < 0.3, options=options
            )
        wire = ask(
            f"{name if chance.random() < 0.8 else name.upper()} {chance.choice(types)}",
            query_id=number % 65536,
            flags=chance.choice([RD, RD, RD, 0, RD | CD]),
            edns=edns,
        )
        if chance.random() < 0.02:
            wire = (
                wire[:2] + bytes((wire[2] | 0x04, wire[3])) + wire[4:]
            )  # AA in a query is unusual
        if chance.random() < 0.01:
            wire = wire[:20]
        protocol = chance.choice(["udp", "udp", "udp", "tcp"])
        client = V6 if protocol == "tcp" and chance.random() < 0.5 else CLIENT
        found.append(Asked(wire, protocol, client))
    return found  # fmt: skip


class Doors:
    """A listener's two doors: datagrams by the batch of the twin, frames by the processor."""

    def __init__(self, memory_server: MemoryServer, twin: ModuleType) -> None:
        self.memory_server = memory_server
        self.server = open_udp(ListenAddress("127.0.0.1", 0))
        self.client = socket.socket(type=socket.SOCK_DGRAM)
        self.client.connect(self.server.getsockname())
        self.client.setblocking(False)
        self.batch = twin.Batch(self.server.fileno(), False)
        self.local = Endpoint(*self.server.getsockname())

    def ask(self, asked: Asked) -> bytes | None:
        """Put one query; its answer is learned where it may be."""
        processor = self.memory_server.runtime.processors[self.memory_server.server]
        now = self.memory_server.runtime.now
        if asked.protocol == "tcp":
            assert processor.lookup is not None
            address = socket_address(asked.client)
            reply = processor.lookup(asked.wire, client=address, limit=MAX_TCP_LEN, now=now)
            if reply is None:
                reply = finish(processor.answer(asked.wire, asked.client, self.local, "tcp", now))
        else:
            self.client.send(asked.wire)
            for wire, address, control in self.batch.serve(self.memory_server.writer.table):
                client, local = client_endpoint(address), asked_endpoint(control, self.local)
                answer = finish(processor.answer(wire, client, local, "udp", now))
                if answer is not None:
                    self.batch.send([(answer, address, control)])
            try:
                reply = self.client.recv(65535)
            except BlockingIOError:
                reply = None
        self.memory_server.writer.flush()
        return reply

    def close(self) -> None:
        """Give the sockets back."""
        self.server.close()
        self.client.close()


def shown(memory_server: MemoryServer) -> list[str]:
    """The lines of /metrics that must not depend on the table."""
    memory_server.runtime.metrics.fold()
    return sorted(
        line
        for line in memory_server.runtime.metrics.to_text().decode().splitlines()
        if not re.match(r"(# \w+ )?(hsdns_|coredns_dns_request_duration_seconds_(bucket|sum)|process_)", line)
    )  # fmt: skip


def block(lines: str) -> str:
    return f".:53 {{\nprometheus\n{lines}\n}}\n"


STOCK_CACHE = "cache 30 {\ndisable success cluster.local\ndisable denial cluster.local\n}\n"
COREFILES = Path(__file__).with_name("same_metrics.txt")


@pytest.mark.parametrize("name", sections(COREFILES))
def test_same_text_with_and_without_table(name: str) -> None:
    """The twins side by side: the chain alone is asked once for both."""
    count = int(name.rpartition(" ")[2])
    corefile = section(COREFILES, name).replace("{CACHE}", STOCK_CACHE)
    corefile = corefile.replace("{KUBERNETES}", KUBERNETES) + "\n"
    # A batch has the machine's clock, the chain one that stands still: no reply may leave the cache during the test.
    corefile = corefile.replace("pods insecure", "pods insecure\nttl 3600")
    corefile = corefile.replace("cache 30 ", "cache 3600 ")
    asked = stream(count)
    plain = MemoryServer(corefile, None, OBJECTS)
    plain.runtime.now = time.monotonic()
    replies = [plain.from_chain(each.wire, each.protocol, client=each.client) for each in asked]
    expected = replies.count(None), shown(plain)
    for twin in built():
        memory_server = MemoryServer(corefile, twin, OBJECTS)
        memory_server.runtime.now = time.monotonic()
        doors = Doors(memory_server, twin)
        try:
            silent = [doors.ask(each) for each in asked].count(None)
        finally:
            doors.close()
        assert (silent, shown(memory_server)) == expected, twin.__name__
        statistics = memory_server.writer.table.statistics()
        hits = statistics.hits + statistics.negative_hits
        assert hits * 4 > count, f"the table of {twin.__name__} answered much of it"


@pytest.mark.parametrize(
    "lines",
    [f"cache 30\n{KUBERNETES}", f"cache 7 {{\nsuccess 1024 7 1\n}}\n{KUBERNETES}", f"{STOCK_CACHE}{KUBERNETES}"],
    ids=["cache", "cache-of-seven-seconds", "stock"],
)  # fmt: skip
def test_marks_of_cache_run_out_as_in_the_chain(lines: str) -> None:
    """With a clock that the test moves; only the pure twin can be given one."""
    twin = importlib.import_module("hsdns.fastpath._python")
    plain, memory_server = (
        MemoryServer(block(lines), None, OBJECTS),
        MemoryServer(block(lines), twin, OBJECTS),
    )
    chance = Random(5)
    asked = [
        ask(f"{left}.default.svc.cluster.local. {qtype}", edns=Edns(1232) if left == "db" else None)
        for left in ("web-1", "web-2", "db", "nope")
        for qtype in ("A", "AAAA")
    ]
    with patch("hsdns.fastpath.table.time.monotonic", lambda: memory_server.runtime.now):
        for _ in range(1_500):
            wire = chance.choice(asked)
            memory_server.runtime.now += chance.choice([0, 0, 0.25, 1, 2])
            plain.runtime.now = memory_server.runtime.now
            plain.from_chain(wire, "tcp")
            if memory_server.from_table(wire, "tcp") is None:
                memory_server.from_chain(wire, "tcp")
    assert shown(memory_server) == shown(plain)
    assert memory_server.writer.table.statistics().hits > 1_000


# --- through the life of a server ---


SERVED = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nloadbalance\n{STOCK_CACHE}{KUBERNETES}}}\n"


@each_kind
async def test_counters_outlive_tables(kind: str, tmp_path: Path) -> None:
    """A reload and a change of what handlers claim exchange the tables; no query is lost to /metrics or counted twice."""
    questions = [
        f"{left}cluster.local." for left in ("web-1.default.svc.", "nope.", "db.default.svc.")
    ]

    async def ask_all(cluster_server: ClusterServer, turn: int) -> None:
        address = cluster_server.address
        with UdpClient() as client:
            for number in range(20):
                for question in questions:
                    await client.ask(ask(question, query_id=number), address)
        async with TcpClient(address) as tcp:
            for question in questions:
                tcp.send(ask(question, query_id=turn))
                await tcp.receive()

    async with ClusterServer(tmp_path, SERVED, OBJECTS, workers=2) as cluster_server:
        asked = 0
        for turn in range(6):
            await ask_all(cluster_server, turn)
            asked += 21 * len(questions)
            if turn % 3 == 0:
                cluster_server.write(
                    SERVED.replace("pods insecure", f"pods insecure\nttl {turn + 9}")
                )
                assert await cluster_server.server.reload()
            elif turn % 3 == 1:
                assert cluster_server.server.instance is not None
                cluster_server.server.instance.names_answered_first_changed()
            for name in ("dns_requests", "dns_responses", "cache_requests"):
                assert cluster_server.total(f"coredns_{name}_total") == asked
        assert cluster_server.total("hsdns_table_lookups_total") >= asked
        assert cluster_server.hits() > asked * 0.9
