"""What a server in memory asks in place of upstreams, over real sockets."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hsdns.fault_scenarios.memory_server import OtherServer
from loadtest.ports import free_port, open_both


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


@pytest.mark.sockets
def test_a_server_that_does_not_run_is_a_sentence() -> None:
    port = free_port()
    server = OtherServer("127.0.0.1", port)
    assert asyncio.run(server.exchange(b"abquery", "udp")) is None
    assert str(server.problem) == f"nothing listens on UDP at 127.0.0.1 port {port}"
