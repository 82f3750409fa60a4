"""Ports: none twice, none of another process, none that is taken."""

import multiprocessing
import socket
from contextlib import closing

import pytest

from loadtest import ports


def _give(count: int) -> list[int]:
    return [ports.free_port() for _ in range(count)]


def test_no_port_is_given_twice_and_none_to_two_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        given = [_give(50), *pool.map(_give, [50, 50], chunksize=1)]
    assert len({port for each in given for port in each}) == 150


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_that_is_taken_is_passed_over(kind: socket.SocketKind) -> None:
    with closing(ports.claim_run()) as run, socket.socket(socket.AF_INET, kind) as taken:
        following = run.next() + 1
        taken.bind(("127.0.0.1", following))
        assert run.next() == following + 1


def test_a_run_begins_anew_when_all_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_is_free", lambda port: True)
    with closing(ports.claim_run()) as run:
        given = [run.next() for _ in range(2 * 199)]
    assert given[:199] == given[199:] == list(range(given[0], given[0] + 199))
