from __future__ import annotations

from collections.abc import Callable

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.http2 import MAX_REPLY
from hsdns.upstream.connection import ConnectionClosed, ProtocolViolation
from hsdns.upstream.https import DohSession
from tests.support.effort import tries

MESSAGE = b"\x12\x34" + b"question" * 4
REPLY = b"\0\0" + b"answer" * 5
GOOD = [(":status", "200"), ("content-type", "application/dns-message")]


class Pair:
    """A session and an HTTP/2 server, connected in memory."""

    def __init__(self, method: str = "POST", **server_settings: int) -> None:
        self.session = DohSession("dns.example.net:443", method)
        config = h2.config.H2Configuration(client_side=False, header_encoding="ascii")
        self.server = h2.connection.H2Connection(config)
        if server_settings:
            self.server.local_settings = h2.settings.Settings(
                client=False,
                initial_values={
                    h2.settings.SettingCodes[name]: value for name, value in server_settings.items()
                },
            )
        self.server.initiate_connection()
        self.events: list[h2.events.Event] = []
        self.ended: dict[int, bytes | OSError] = {}
        self.talk()

    def talk(self) -> None:
        """Exchange bytes until both have nothing to send."""
        while True:
            to_server, to_client = self.session.take_out(), self.server.data_to_send()
            if not to_server and not to_client:
                return
            if to_server:
                self.events += self.server.receive_data(to_server)
            if to_client:
                self.ended |= self.session.receive_data(to_client)

    def ask(self, message: bytes = MESSAGE) -> int:
        stream = self.session.ask(message)
        self.talk()
        return stream

    def reply(
        self, stream: int, body: bytes = REPLY, headers: list[tuple[str, str]] = GOOD
    ) -> None:
        self.server.send_headers(stream, headers)
        self.server.send_data(stream, body, end_stream=True)
        self.talk()

    def requests(self) -> list[dict[str, str]]:
        return [
            {str(name): str(value) for name, value in event.headers}
            for event in self.events
            if isinstance(event, h2.events.RequestReceived)
        ]

    def body(self) -> bytes:
        return b"".join(
            event.data for event in self.events if isinstance(event, h2.events.DataReceived)
        )


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        pytest.param([(":status", "404")], "answers with HTTP status 404", id="status"),
        pytest.param([(":status", "301"), ("location", "/x")], "answers with HTTP status 301", id="elsewhere"),
        pytest.param(
            [(":status", "200"), ("content-type", "text/html; charset=utf-8")],
            'answers with HTTP content type "text/html"',
            id="type",
        ),
        pytest.param(
            [(":status", "200")], 'answers with HTTP content type ""', id="no-type"
        ),
    ],
)  # fmt: skip
def test_answers_that_are_no_dns(headers: list[tuple[str, str]], sentence: str) -> None:
    pair = Pair()
    stream = pair.ask()
    pair.reply(stream, b"<html>", headers)
    (error,) = pair.ended.values()
    assert isinstance(error, ProtocolViolation)
    assert str(error) == sentence
    again = pair.ask()
    pair.reply(again)
    assert pair.ended[again] == REPLY


def test_a_long_answer_is_dropped() -> None:
    pair = Pair()
    stream = pair.ask()
    pair.server.send_headers(stream, GOOD)
    for _ in range(MAX_REPLY // 16000 + 1):
        if not any(isinstance(event, h2.events.StreamReset) for event in pair.events):
            pair.server.send_data(stream, bytes(16000))
            pair.talk()
    assert str(pair.ended[stream]) == "answers with HTTP content of more than 65535 octets"
    assert any(isinstance(event, h2.events.StreamReset) for event in pair.events)


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (h2.errors.ErrorCodes.INTERNAL_ERROR, ProtocolViolation, "answers with RST_STREAM (INTERNAL_ERROR)"),
        (4711, ProtocolViolation, "answers with RST_STREAM (code 4711)"),
        (h2.errors.ErrorCodes.REFUSED_STREAM, ConnectionClosed, "refuses the query on this connection"),
    ],
    ids=["error", "unknown", "refused"],
)  # fmt: skip
def test_reset_by_the_server(code: int, kind: type[OSError], sentence: str) -> None:
    pair = Pair()
    stream = pair.ask()
    pair.server.reset_stream(stream, code)
    pair.talk()
    error = pair.ended[stream]
    assert type(error) is kind
    assert str(error) == sentence
    assert pair.session.takes


def test_a_goaway_fails_all_queries() -> None:
    pair = Pair()
    streams = [pair.ask() for _ in range(2)]
    pair.server.close_connection(last_stream_id=streams[0])
    pair.talk()
    assert [type(pair.ended[stream]) for stream in streams] == [ConnectionClosed] * 2
    assert not pair.session.takes
    with pytest.raises(ConnectionClosed, match="accepts no more queries"):
        pair.session.ask(MESSAGE)


def test_cancel_frees_the_stream_and_ignores_the_reply() -> None:
    pair = Pair(MAX_CONCURRENT_STREAMS=1)
    stream = pair.ask()
    pair.server.send_headers(stream, GOOD)
    pair.server.send_data(stream, REPLY, end_stream=True)
    late = pair.server.data_to_send()
    pair.session.cancel(stream)
    pair.session.cancel(stream)
    assert pair.session.receive_data(late) == {}
    assert pair.session.has_room


def test_a_reply_may_come_before_all_of_the_body_went() -> None:
    pair = Pair(INITIAL_WINDOW_SIZE=10)
    stream = pair.ask(bytes(100))
    pair.reply(stream)
    assert pair.ended == {stream: REPLY}
    pair.server.reset_stream(stream)
    pair.talk()
    assert pair.session._unsent == {}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request", "does not speak HTTP/2", id="http-1"),
        pytest.param(b"\0\0\4\3\0\0\0\0\1", "does not speak HTTP/2", id="other-frame-first"),
        pytest.param(
            b"\0\0\0\4\0\0\0\0\0" + b"\0\0\4\3\0\0\0\0\0\0\0\0\0",
            "violates the HTTP/2 protocol: RST_STREAM on an idle stream",
            id="stream-0",
        ),
        pytest.param(
            b"\0\0\0\4\0\0\0\0\0"
            + b"\0\0\1\1\0\0\0\0\1\x88"
            + (b"\0\x0f\xa0\x09\0\0\0\0\1" + bytes(4000)) * 5,
            "violates the HTTP/2 protocol: a header block that is too long",
            id="headers-without-end",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 100], ids=["byte-by-byte", "whole"])
def test_what_is_no_http2(data: bytes, sentence: str, size: int) -> None:
    session = DohSession("a")
    session.take_out()

    def receive() -> None:
        for at in range(0, len(data), size):
            session.receive_data(data[at : at + size])

    with pytest.raises(ConnectionClosed, match=sentence):
        receive()
    assert not session.has_room


@settings(max_examples=tries(30), deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_end_well(noise: bytes, after_settings: bool) -> None:
    pair = Pair()
    pair.session.ask(MESSAGE)
    receive: Callable[[bytes], object] = pair.session.receive_data
    try:
        receive(noise if after_settings else b"\0\0\0\4\0\0\0\0\0" + noise)
    except ConnectionClosed:
        assert not pair.session.takes
