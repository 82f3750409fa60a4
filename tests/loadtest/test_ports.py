"""Ports: none twice, none of another process, none that is taken."""

import multiprocessing
import socket

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
    following = ports.free_port() + 1
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", following))
        assert ports.free_port() == following + 1
