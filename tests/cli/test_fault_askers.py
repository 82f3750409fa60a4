"""Resolver models that look the names of a scenario up at a server that runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hsdns.cli.fault_run import Askers
from hsdns.fault_scenarios.scenario import Scenario
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import RR, Reply
from loadtest.ports import open_both
from tests.fault_scenarios.test_scenario import FILE, of

ONE_SOCKET = (
    'seen = [{ client = "glibc", keeps_socket = true, seconds = 0, failed = 0, queries = 2 }]'
)
SEEN = 'seen = [{ client = "glibc", seconds = 0, failed = 0, queries = 2 }, { client = "go", seconds = 0, failed = 0, queries = 2 }, { client = "glibc", cache = "cache 30", seconds = 0, failed = 0, queries = 2 }]'  # fmt: skip
ASKED = FILE.replace('meant = "', 'every = 0.01\ntimes = 3\nmeant = "')


def scenario(seen: str, asked: str = ASKED) -> Scenario:
    return of("\n".join(seen if line.startswith("seen") else line for line in asked.splitlines()))


SCENARIO = scenario(SEEN)


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("rcode", "failed", "errors"), [(0, 0, ["", ""]), (3, 3, ["Name or service not known", "no such host"])]
)  # fmt: skip
def test_plain_clients_look_all_of_it_up(rcode: int, failed: int, errors: list[str]) -> None:
    udp, tcp = open_both()

    def serve() -> None:
        message, client = udp.recvfrom(512)
        while message:
            query = decode(message)
            record = RR(query.qname, 1, 30, bytes([192, 0, 2, 1]))
            answer = (record,) if query.qtype == 1 and not rcode else ()
            udp.sendto(encode(query, Reply(rcode=rcode, answer=answer, aa=True), 512), client)
            message, client = udp.recvfrom(512)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        askers = Askers(SCENARIO, udp.getsockname()[1])
        assert not askers.have_ended()
        askers.start()
        askers.start()  # a second time does nothing
        for each in askers._threads:
            each.join()
        assert askers.have_ended()
        assert [(each["client"], each["lookups"], each["failed"], each["error"]) for each in askers.results()] == [
            ("glibc", 3, failed, errors[0]),
            ("go", 3, failed, errors[1]),
        ]  # fmt: skip
    finally:
        udp.sendto(b"", udp.getsockname())
        thread.join()
        udp.close()
        tcp.close()


class Answering:
    """Answers over UDP in a thread; `clients` are the ports that queries came from."""

    def __init__(self) -> None:
        self.udp, self._tcp = open_both()
        self.clients: list[int] = []
        self._thread = threading.Thread(target=self._serve)

    @property
    def port(self) -> int:
        port: int = self.udp.getsockname()[1]
        return port

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.udp.sendto(b"", self.udp.getsockname())
        self._thread.join()
        self.udp.close()
        self._tcp.close()

    def _serve(self) -> None:
        message, client = self.udp.recvfrom(512)
        while message:
            self.clients.append(client[1])
            query = decode(message)
            self.udp.sendto(encode(query, Reply(aa=True), 512), client)
            message, client = self.udp.recvfrom(512)


def ask_all(asking: Scenario, port: int) -> list[dict[str, Any]]:
    askers = Askers(asking, port)
    askers.start()
    for each in askers._threads:
        each.join()
    return askers.results()


@pytest.mark.sockets
def test_each_program_asks() -> None:
    asking = scenario(SEEN, ASKED.replace("times = 3", "times = 2\nprograms = 4"))
    with Answering() as server:
        found = ask_all(asking, server.port)
    assert [(each["client"], each["lookups"]) for each in found] == [("glibc", 8), ("go", 8)]


@pytest.mark.sockets
def test_a_client_that_keeps_its_socket() -> None:
    with Answering() as server:
        found = ask_all(scenario(ONE_SOCKET), server.port)
    assert [(each["client"], each["lookups"]) for each in found] == [("glibc, one socket", 3)]
    assert (len(server.clients) >= 6, len({*server.clients})) == (True, 1)


def test_clients_that_are_stopped_say_what_they_have() -> None:
    askers = Askers(SCENARIO, 1)
    assert [each["lookups"] for each in askers.results()] == [0, 0]
