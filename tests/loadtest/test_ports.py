"""Ports: none twice, none of another process, none that is taken."""

import errno
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from loadtest import ports

KINDS = [
    pytest.param(socket.SOCK_DGRAM, id="udp"),
    pytest.param(socket.SOCK_STREAM, id="tcp"),
]


def _give(count: int) -> list[int]:
    return [ports.free_port() for _ in range(count)]


def test_no_port_is_given_twice_and_none_to_two_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        given = [_give(50), *pool.map(_give, [50, 50], chunksize=1)]
    assert len({port for each in given for port in each}) == 150


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_that_is_taken_is_passed_over(kind: socket.SocketKind) -> None:
    with closing(ports.reserve()) as reserved, socket.socket(socket.AF_INET, kind) as taken:
        following = reserved.next() + 1
        taken.bind(("127.0.0.1", following))
        assert reserved.next() == following + 1


def test_a_range_begins_anew_when_all_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_is_free", lambda port: True)
    with closing(ports.reserve()) as reserved:
        given = [reserved.next() for _ in range(2 * 199)]
    assert given[:199] == given[199:] == list(range(given[0], given[0] + 199))


@pytest.fixture(params=KINDS)
def taken(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """A port that another socket takes between free_port() and the bind, and the one after it, which is free."""
    with closing(ports.reserve()) as reserved:
        first = reserved.next()
        with socket.socket(socket.AF_INET, request.param) as sock:
            sock.bind(("127.0.0.1", first))
            if request.param == socket.SOCK_STREAM:
                sock.listen()
            given = iter([first, first + 1])
            monkeypatch.setattr(ports, "free_port", lambda: next(given))
            yield sock


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """All sockets that open_both() makes."""
    found: list[socket.socket] = []

    class Recorded(socket.socket):
        def __init__(self, *args: int) -> None:
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(socket, "socket", Recorded)
    yield found
    for sock in found:
        sock.close()


def test_another_port_is_tried_when_one_was_taken_meanwhile(
    taken: socket.socket, opened: list[socket.socket]
) -> None:
    udp, tcp = ports.open_both()
    with udp, tcp:
        port = taken.getsockname()[1] + 1
        assert [each.getsockname() for each in (udp, tcp)] == [("127.0.0.1", port)] * 2
        assert (udp.type, tcp.type) == (socket.SOCK_DGRAM, socket.SOCK_STREAM)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert {each.fileno() for each in opened} == {udp.fileno(), tcp.fileno(), -1}


def test_attempts_are_limited_and_leave_nothing_open(
    taken: socket.socket, opened: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "free_port", lambda: taken.getsockname()[1])
    with pytest.raises(OSError, match="in use") as caught:
        ports.open_both()
    assert caught.value.errno == errno.EADDRINUSE
    assert len(opened) >= ports.ATTEMPTS
    assert {each.fileno() for each in opened} == {-1}


def test_a_port_that_was_asked_for_is_not_replaced(
    taken: socket.socket, opened: list[socket.socket]
) -> None:
    with pytest.raises(OSError, match="in use"):
        ports.open_both(port=taken.getsockname()[1])
    assert {each.fileno() for each in opened} == {-1}
