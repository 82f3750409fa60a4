"""HTTP/2 as a client sees it, without a socket: h2's own client on the other side."""

from __future__ import annotations

import gc

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
)
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.doh_http2 import MAX_HEADERS_LEN, MAX_STREAMS, Http2, HttpRequest
from hsdns.server.doh_message import MAX_BODY_LEN, HttpReply

OK = HttpReply(200, (("content-type", "text/plain"), ("content-length", "5")), b"hello")


def received(server: Http2, data: bytes, now: float = 0.0) -> list[HttpRequest]:
    """The requests that a server finds in octets."""
    server.feed(data, now)
    found = []
    while server.has_waiting:
        request = server.step()
        if request is not None:
            found.append(request)
    return found


class Client:
    """The other end; what either says is handed on with exchange()."""

    def __init__(self) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.server = Http2(0.0)
        self.now = 0.0
        self.events: list[Event] = []
        self.requests: list[HttpRequest] = []
        self.exchange()

    def exchange(self) -> None:
        """Hand octets over until nobody has any left."""
        while True:
            out, back = self.h2.data_to_send(), self.server.to_send()
            if out:
                self.requests += received(self.server, out, self.now)
            if back:
                self.events += self.h2.receive_data(back)
            if not out and not back:
                return

    def ask(self, method: str = "GET", path: str = "/dns-query", body: bytes = b"") -> int:
        """Send a request; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "https"), (":authority", "x")]
        self.h2.send_headers(stream, headers, end_stream=not body)
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if not room:
                self.exchange()
                continue
            self.h2.send_data(stream, body[:room], end_stream=len(body) <= room)
            body = body[room:]
        self.exchange()
        return stream

    def of(self, kind: type[Event]) -> list[Event]:
        """The events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def body(self, stream: int) -> bytes:
        """What came on a stream."""
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, DataReceived) and event.stream_id == stream
        )


def test_request_and_reply() -> None:
    client = Client()
    stream = client.ask(path="/dns-query?dns=AAAA")
    assert client.requests == [HttpRequest(stream, "GET", "/dns-query?dns=AAAA", b"")]
    client.server.reply(stream, OK, 0.0)
    client.exchange()
    (response,) = client.of(ResponseReceived)
    assert isinstance(response, ResponseReceived)
    headers = {str(name): str(value) for name, value in response.headers}
    assert headers.pop("date").endswith(" GMT")
    assert headers == {":status": "200", "content-type": "text/plain", "content-length": "5"}
    assert client.body(stream) == b"hello"
    assert len(client.of(StreamEnded)) == 1
    assert client.server.unsent_since is None


def test_reply_to_head_has_no_body() -> None:
    client = Client()
    client.server.reply(client.ask("HEAD"), OK, 0.0, head_only=True)
    client.exchange()
    assert client.of(DataReceived) == []
    assert len(client.of(StreamEnded)) == 1


def test_replies_may_overtake_each_other() -> None:
    client = Client()
    first, second = client.ask(), client.ask()
    for stream in (second, first):
        client.server.reply(stream, OK._replace(body=f"to {stream}".encode(), headers=()), 0.0)
    client.exchange()
    assert (client.body(first), client.body(second)) == (b"to 1", b"to 3")


@pytest.mark.parametrize("size", [1, 16_384, MAX_BODY_LEN, MAX_BODY_LEN + 1, 200_000])
def test_body_is_kept_up_to_one_octet_too_many(size: int) -> None:
    client = Client()
    client.ask("POST", body=bytes(size))
    (request,) = client.requests
    assert len(request.body) == min(size, MAX_BODY_LEN + 1)


def test_long_reply_waits_for_the_window() -> None:
    client = Client()
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    client.exchange()
    stream = client.ask()
    client.server.reply(stream, OK._replace(body=bytes(2500), headers=()), 7.0)
    client.exchange()
    assert len(client.body(stream)) == 1000
    assert client.server.unsent_since == 7.0
    client.h2.increment_flow_control_window(5000, stream)
    client.exchange()
    assert len(client.body(stream)) == 2500
    assert client.server.unsent_since is None


def test_request_that_is_taken_back() -> None:
    client = Client()
    stream = client.ask()
    client.h2.reset_stream(stream)
    client.exchange()
    client.server.reply(stream, OK, 0.0)
    client.exchange()
    assert client.of(ResponseReceived) == []
    assert not client.server.is_over
    unfinished = client.h2.get_next_available_stream_id()
    client.h2.send_headers(
        unfinished, [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "x")]
    )
    client.exchange()
    client.h2.reset_stream(unfinished)
    client.exchange()
    assert client.server._arriving == {}
    assert client.server._unsent == {}


def test_streams_that_have_ended_are_forgotten() -> None:
    client = Client()
    for _ in range(3 * MAX_STREAMS):
        client.server.reply(client.ask(), OK, 0.0)
        client.exchange()
    assert len(client.server._h2._closed_streams) <= 2 * MAX_STREAMS
    late = b"\0\0\1\0\0" + (1).to_bytes(4, "big") + b"x"  # DATA on the first stream
    assert received(client.server, late, client.now) == []
    assert not client.server.is_over
    assert client.ask() == 6 * MAX_STREAMS + 1


def test_limits_are_told() -> None:
    settings = Client().of(RemoteSettingsChanged)[0]
    assert isinstance(settings, RemoteSettingsChanged)
    told = {code: change.new_value for code, change in settings.changed_settings.items()}
    assert told[SettingCodes.MAX_CONCURRENT_STREAMS] == MAX_STREAMS
    assert told[SettingCodes.MAX_HEADER_LIST_SIZE] == MAX_HEADERS_LEN


def test_more_streams_than_allowed_end_the_connection() -> None:
    client = Client()
    for _ in range(MAX_STREAMS):
        client.ask()
    client.h2.remote_settings.max_concurrent_streams = 1000  # a client that does not listen
    client.h2.remote_settings.acknowledge()
    client.ask()
    assert client.server.is_over
    assert len(client.requests) == MAX_STREAMS
    assert len(client.of(ConnectionTerminated)) == 1


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", bytes(100)])
def test_what_is_no_http2(data: bytes) -> None:
    server = Http2(0.0)
    assert received(server, data) == []
    assert server.is_over


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_octets_are_survived(parts: list[bytes]) -> None:
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    server = Http2(0.0)
    received(server, client.data_to_send())
    for part in parts:
        if not server.is_over:
            received(server, part)
    server.to_send()


def test_end_is_said_once() -> None:
    client = Client()
    client.server.end()
    client.server.end()
    client.exchange()
    assert len(client.of(ConnectionTerminated)) == 1
    assert client.server.is_over


def test_end_said_by_the_client() -> None:
    client = Client()
    client.h2.close_connection()
    client.exchange()
    assert client.server.is_over


def test_a_request_that_is_taken_back_with_it_is_none() -> None:
    client = Client()
    client.h2.send_headers(
        1,
        [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "x")],
        end_stream=True,
    )
    client.h2.reset_stream(1)
    stream = client.ask(path="/other")
    assert client.requests == [HttpRequest(stream, "GET", "/other", b"")]


def test_a_connection_that_is_forgotten_is_freed_at_once() -> None:
    """That of h2 refers to itself: under attack they would wait for a collection by the hundred."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            Http2(0.0).forget()
        assert gc.collect() < 20
        for _ in range(20):
            Http2(0.0)
        assert gc.collect() > 20
    finally:
        gc.enable()
