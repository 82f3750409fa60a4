"""Resolver models that look the names of a scenario up at a server that runs."""

from __future__ import annotations

import threading

import pytest

from hsdns.cli.fault_askers import Askers
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import RR, Reply
from loadtest.ports import open_both
from tests.fault_scenarios.test_scenario import FILE, of

SEEN = 'seen = [{ client = "glibc", seconds = 0, failed = 0, queries = 2 }, { client = "go", seconds = 0, failed = 0, queries = 2 }, { client = "glibc", cache = "cache 30", seconds = 0, failed = 0, queries = 2 }]'  # fmt: skip
ASKED = FILE.replace('meant = "', 'every = 0.01\ntimes = 3\nmeant = "')
SCENARIO = of("\n".join(SEEN if line.startswith("seen") else line for line in ASKED.splitlines()))


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


def test_clients_that_are_stopped_say_what_they_have() -> None:
    askers = Askers(SCENARIO, 1)
    assert [each["lookups"] for each in askers.results()] == [0, 0]
