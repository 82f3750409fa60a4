"""How the sockets of an address become its servers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.eager import Spawn
from hsdns.metrics import Registry
from hsdns.server.admission import NO_FAULTS, ListenerFaults, Places
from hsdns.server.listeners import Opener
from hsdns.server.runtime import Tasks
from hsdns.server.settings import DEFAULT_SETTINGS, Settings
from hsdns.server.sockets import open_all
from hsdns.server.tcp_listener import TcpListener
from hsdns.server.udp import UdpListener
from tests.support.servers.function_processor import asked_address, processor
from tests.support.servers.udp_listeners import each_kind, serving_with


def make_opener(workers: int = 1) -> Opener:
    return Opener(Registry(), Tasks().spawn, time.monotonic, workers, Places(64))


@each_kind
def test_number_of_workers(kind: str) -> None:
    opener = make_opener(workers=4)
    found = [opener.count_workers(Settings(workers=number)) for number in (None, 3)]
    assert found == ([1, 1] if kind == "loop" else [4, 3])


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("scheme", "kinds"),
    [("dns", ["UdpServer", "TcpServer"]), ("tls", ["TcpServer"]), ("https", ["DohServer"])],
)
async def test_scheme_decides_what_reads(scheme: str, kinds: list[str]) -> None:

    with serving_with("loop"):
        opener, listen = make_opener(), ListenAddress("127.0.0.1", 0, scheme)
        answers: Any = processor(asked_address, listen.server)
        sockets = opener.open_all(listen, (), 1)
        listener = opener.make(sockets, answers, Settings())
        assert [type(part).__name__ for part in listener.parts] == kinds
        listener.close()
        sockets.close()


def test_no_rule_stands() -> None:
    for each in (NO_FAULTS, ListenerFaults(), TcpListener.faults, UdpListener.faults):
        assert (each.connect, each.shed) == (None, None)


def test_the_listeners_of_a_process_have_one_in_common() -> None:
    spawn: Spawn = Tasks().spawn
    opener = Opener(Registry(), spawn, lambda: 0.0, 1, Places(4))
    for scheme, server in (("dns", "dns://:53"), ("tls", "tls://:853"), ("https", "https://:443")):
        sockets = open_all(ListenAddress("127.0.0.1", 0, scheme))
        listener = opener.make(sockets, processor(asked_address, server), DEFAULT_SETTINGS)
        assert {id(part.faults) for part in listener.parts} == {id(opener.faults)}
        sockets.close()
