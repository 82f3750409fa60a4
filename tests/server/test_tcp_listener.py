"""What accepts TCP connections: how many, and until when."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.server.admission import MAX_CREDIT_WAIT, Credit, Places
from hsdns.server.runtime import Tasks
from hsdns.server.sockets import Settings, open_tcp
from hsdns.server.tcp import TcpListener
from tests.support.servers.function_processor import asked_address, processor
from tests.support.servers.stream_serving import admission


class Transport:
    """A new connection's."""

    def __init__(self, *ends: tuple[str, int] | None) -> None:
        self.ends = dict(zip(("peername", "sockname"), ends, strict=False))
        self.is_aborted = self.is_paused = False

    def get_extra_info(self, name: str) -> object:
        return self.ends[name]

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Busy:
    """A connection with a query in progress."""

    pending = 1


def admitted(
    places: Places | None = None,
    ends: tuple[Any, Any] = (("192.0.2.1", 5), ("192.0.2.53", 53)),
    **given: Any,
) -> tuple[Any, Transport, float]:
    """Let a connection come; return what admit() says, its transport, and how many were rejected."""
    sock, shared = (
        open_tcp(ListenAddress("127.0.0.1", 0)),
        admission(lambda: 0.0, places, given.get("credit")),
    )
    settings = Settings(tls=given.get("tls"))
    listener = TcpListener(
        sock, processor(asked_address), Tasks().spawn, lambda: 0.0, shared, settings
    )
    listener._call_later = given.get("call_later")  # type: ignore[assignment]
    connection: Any = object()
    transport: Any = Transport(*ends)
    if given.get("closed"):
        listener.close()
    found = listener.admit(connection, transport)
    assert (connection in listener.connections) is (found is not None) is not transport.is_aborted
    sock.close()
    return found, transport, shared.rejected.values[()]


@pytest.mark.parametrize("is_full", [False, True])
def test_connections_of_the_process_are_bounded(is_full: bool) -> None:
    places = Places(1)
    if is_full:
        assert places.take(Busy(), Transport(), "192.0.2.1")
    found, _, rejected = admitted(places)
    assert found == (None if is_full else (("192.0.2.1", 5), ("192.0.2.53", 53)))
    assert (rejected, len(places)) == (is_full, 1)


def test_a_connection_that_is_forgotten_frees_its_place() -> None:
    listener, places = TcpListener.__new__(TcpListener), Places(1)
    listener.connections, listener.places = set(), places
    connection: Any = Busy()
    places.take(connection, Transport(), "192.0.2.1")
    listener.discard(connection)
    assert not len(places)


@pytest.mark.parametrize("ends", [(None, ("192.0.2.53", 53)), (("192.0.2.1", 5), None)])
def test_connection_that_has_ended_already_is_not_counted(ends: tuple[Any, Any]) -> None:
    found, _, rejected = admitted(ends=ends)
    assert (found, rejected) == (None, 0)


async def test_connection_that_comes_after_the_end_is_aborted() -> None:
    found, transport, _ = admitted(closed=True)
    assert (found, transport.is_aborted) == (None, True)


def test_client_without_credit_waits() -> None:
    """Nothing is read from its connection meanwhile; one that would wait too long is refused."""
    credit, timers = Credit(), list[Any]()
    credit.charge("192.0.2.1", 1 << 30, 0, 0.0)
    given: dict[str, Any] = {
        "credit": credit,
        "tls": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        "call_later": lambda *timer: timers.append(timer),
    }
    found, transport, rejected = admitted(**given)
    assert (found is not None, transport.is_paused, rejected) == (True, True, 0)
    ((seconds, call),) = timers
    assert seconds == pytest.approx(MAX_CREDIT_WAIT)
    call()
    assert not transport.is_paused
    found, transport, rejected = admitted(**given)
    assert (found, transport.is_aborted, rejected) == (None, True, 1)
    found, transport, rejected = admitted(ends=(("192.0.2.2", 5), ("192.0.2.53", 53)), **given)
    assert (found is not None, transport.is_paused, rejected) == (True, False, 0)
    found, transport, rejected = admitted(**given | {"tls": None})
    assert (found is not None, transport.is_paused, rejected) == (True, False, 0), "an ingress"
