import asyncio
import socket

import pytest

from hsdns.wire.framing import frame
from loadtest.dict_server import Answers, pairs

QUERY = b"\0\0question"
REPLY = b"\0\0answer"


def test_pairs_are_read_without_their_ids() -> None:
    data = b"".join(map(frame, (QUERY, REPLY, b"\1\2other", b"\3\4one")))
    assert pairs(data) == {b"question": b"answer", b"other": b"one"}


@pytest.mark.sockets
def test_it_answers_what_it_knows_and_nothing_else() -> None:
    async def ask() -> list[bytes]:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: Answers({b"question": b"answer"}), ("127.0.0.1", 0)
        )
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(transport.get_extra_info("sockname"))
            client.send(b"\1\2unknown")
            client.send(b"\3\4question")
            replies = [await loop.sock_recv(client, 512)]
        transport.close()
        return replies

    assert asyncio.run(ask()) == [b"\3\4answer"]
