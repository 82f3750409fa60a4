import socket
import time

import pytest

from hsdns.load.outcome import REPLY
from hsdns.load.verify.follow import PROBES, Event, Probe, unpack_probes
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.prober_process import ProberProcess
from tests.load.send.test_process import QUERY
from tests.load.servers import answer, server


@pytest.mark.sockets
@pytest.mark.slow
def test_a_change_is_followed_at_two_servers() -> None:
    with server() as port, server() as other:
        places = [(socket.AF_INET, ("127.0.0.1", each)) for each in (port, other)]
        with ProberProcess(places, [QUERY]) as process:
            event = Event(3, (b"ns", b"svc"), 0, 1, time.monotonic(), Answer(0), Answer(3))
            assert process.follow(event)
            probes: list[Probe] = []
            replies = []
            while {each.server for each in probes} != {0, 1}:
                for kind, content in process.messages(10.0):
                    if kind == PROBES:
                        probes += unpack_probes(content)
                    elif kind == REPLY:
                        replies.append(content)
            process.done(3)
    assert {(each.event, each.flags, each.reply) for each in probes} == {(3, 0x8400, 0)}
    assert all(each.sent < each.received for each in probes)
    assert replies == [b"\0\0\0\0" + b"\0\0\0\3" + answer(b"\0\0" + QUERY)[2:]]


@pytest.mark.sockets
@pytest.mark.slow
def test_without_changes_nothing_is_asked() -> None:
    with ProberProcess([], []) as process:
        assert list(process.messages(0)) == []
