"""Answers that are older than what had arrived before."""

import socket
import threading

import pytest

from hsdns.wire.decode import decode
from loadtest.verdicts.order import Newest, questions, watch


def reply(version: int) -> bytes:
    return b"\0\1\0\0\0\5" + b"\0\4" + bytes((172, 16, version >> 8, version & 255))


@pytest.mark.parametrize(
    ("answers", "back"),
    [
        ([(0, None, 5), (0, 5, 5), (0, 5, 6)], 0),
        ([(0, None, 5), (0, 5, 4)], 1),
        ([(0, None, 5), (0, None, 4)], 0),  # it was sent before the newer one arrived
        ([(0, None, 5), (1, None, 4)], 0),  # of another Service
        ([(0, None, 256), (0, 256, 255)], 1),
        ([(0, None, 5), (0, 5, None)], 1),  # no address of a change
        ([(0, None, 5), (0, 5, 4), (0, 5, 4)], 2),
    ],
)
def test_answers_that_go_back(answers: list[tuple[int, int | None, int | None]], back: int) -> None:
    newest = Newest()
    for service, sent, shown in answers:
        at = b"" if sent is None else bytes((172, 16, sent >> 8, sent & 255))
        newest.judge(service, at, b"" if shown is None else reply(shown), 1.0)
    assert (newest.answers, newest.back) == (len(answers), back)


def test_the_newest_is_that_of_all_answers() -> None:
    newest = Newest()
    for version in (5, 9, 7):
        newest.judge(3, b"", reply(version), version / 10)
    assert (newest.at(3), newest.at(4)) == (bytes((172, 16, 0, 9)), b"")
    newest.judge(3, newest.at(3), reply(8), 1.5)
    assert newest.worst == pytest.approx(0.6)


@pytest.mark.sockets
def test_a_server_that_answers_from_two_states_is_found() -> None:
    assert all(decode(b"\0\0" + each).qname for each in questions(4))
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(tcp.getsockname())

        def serve() -> None:
            for number in range(40):
                wire, client = udp.recvfrom(4096)
                udp.sendto(wire[:2] + reply(9 - number % 2)[2:], client)

        thread = threading.Thread(target=serve)
        thread.start()
        newest, _ = watch(tcp.getsockname()[1], 40, 100.0)
        thread.join()
    assert newest.answers == 40
    assert newest.back > 0
