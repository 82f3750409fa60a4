"""The client side of HTTP/2, and its requests."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from hsdns.http2 import GOAWAY, HEADERS, MEDIA_TYPE, PING, SETTINGS, WINDOW_UPDATE
from hsdns.load.plan import GET, POST
from hsdns.load.send.connection import QueryResult
from hsdns.load.send.http2 import (
    Http2Session,
    Request,
    Requests,
    frame_head,
)
from hsdns.load.send.loop import Query
from tests.load.stream_peers import OCTETS, answer

OK = [(":status", "200"), ("content-type", MEDIA_TYPE)]


def query(number: int = 0) -> Query:
    return Query(OCTETS, number, 0, 0)


class Server:
    """The server's side; it answers every request unless it is told not to."""

    def __init__(self, method: str = POST) -> None:
        self.http = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.http.initiate_connection()
        self.session = Http2Session(Requests("dns.test", "/dns-query", method))
        self.bodies: dict[int, bytes] = {}
        self.heard: list[QueryResult] = []
        self.resets: list[int] = []
        self.answers: Callable[[int, bytes], None] = self.answer

    def set(self, **settings: int) -> None:
        """Change settings, once the connection stands."""
        self.turn()
        self.http.update_settings({SettingCodes[name]: value for name, value in settings.items()})
        self.turn()

    def answer(self, stream: int, body: bytes) -> None:
        self.http.send_headers(stream, OK)
        self.http.send_data(stream, answer(body), end_stream=True)

    def turn(self) -> list[QueryResult]:
        """Pass octets on until nobody has any; return what was heard."""
        self.heard = []
        while True:
            octets = bytes(self.session.out)
            self.session.out.clear()
            for event in self.http.receive_data(octets):
                self._take(event)
            back = self.http.data_to_send()
            if not back and not self.session.out:
                return self.heard
            self.heard += self.session.feed(back)

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self.bodies[event.stream_id or 0] = b""
        elif isinstance(event, DataReceived):
            self.bodies[event.stream_id or 0] += event.data or b""
            self.http.acknowledge_received_data(
                event.flow_controlled_length or 0, event.stream_id or 0
            )
        elif isinstance(event, StreamEnded):
            self.answers(event.stream_id or 0, self.bodies[event.stream_id or 0])
        elif isinstance(event, StreamReset):
            self.resets.append(event.stream_id or 0)


@pytest.mark.parametrize("size", [4096, 65_536, 100, 0])
def test_replies(size: int) -> None:
    """With a table of any size, also of one that shrinks while the connection stands."""
    server = Server()
    for at in range(4):
        if at == 1:
            server.set(HEADER_TABLE_SIZE=size)
        queries = [query(), query()]
        for each in queries:
            server.session.ask(each)
        found = server.turn()
        assert [each.query for each in found] == queries
        assert [each.message for each in found] == [answer(b"\0\0" + OCTETS)] * 2
    assert (server.session.broken, server.session.in_flight) == ("", {})


def test_get_has_no_body() -> None:
    server = Server(method=GET)
    server.answers = lambda stream, body: server.answer(stream, bytes(12) if not body else b"")
    server.session.ask(query())
    assert server.turn()[0].message == answer(bytes(12))


def test_out_of_order() -> None:
    server = Server()
    waiting: list[tuple[int, bytes]] = []
    server.answers = lambda stream, body: waiting.append((stream, body))
    queries = [query(at) for at in range(5)]
    for each in queries:
        server.session.ask(each)
    assert server.turn() == []
    for stream, body in reversed(waiting):
        server.answer(stream, body)
    assert [each.query for each in server.turn()] == queries[::-1]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([(":status", "503")], "HTTP status 503"),
        ([(":status", "404"), ("content-type", "text/plain")], "HTTP status 404"),
        ([(":status", "200"), ("content-type", "text/html; charset=x")], 'HTTP content type "text/html"'),
        ([(":status", "200")], 'HTTP content type ""'),
    ],
)  # fmt: skip
def test_no_message(fields: list[tuple[str, str]], why: str) -> None:
    server = Server()

    def refuse(stream: int, body: bytes) -> None:
        server.http.send_headers(stream, fields)
        server.http.send_data(stream, b"sorry", end_stream=True)

    server.answers = refuse
    for _ in range(2):  # a header block that was seen before says the same
        asked = query()
        server.session.ask(asked)
        assert server.turn() == [QueryResult(asked, None, why)]


def test_too_short_and_empty() -> None:
    server = Server()

    def reply(stream: int, body: bytes) -> None:
        server.http.send_headers(stream, OK, end_stream=stream == 1)
        if stream != 1:
            server.http.send_data(stream, b"short", end_stream=True)

    server.answers = reply
    server.session.ask(query())
    server.session.ask(query())
    assert [each.why for each in server.turn()] == [
        "HTTP reply without a message",
        "HTTP reply of 5 octets, which is no DNS message",
    ]


def test_informational_headers_pieces_and_trailers() -> None:
    server = Server()

    def reply(stream: int, body: bytes) -> None:
        server.http.send_headers(stream, [(":status", "103")])
        server.http.send_headers(stream, OK)
        for octet in answer(body):
            server.http.send_data(stream, bytes((octet,)), pad_length=3)
        server.http.send_headers(stream, [("x-done", "1")], end_stream=True)

    server.answers = reply
    server.session.ask(query())
    assert server.turn()[0].message == answer(b"\0\0" + OCTETS)


def test_the_number_of_streams_is_the_server_s() -> None:
    server = Server()
    server.set(MAX_CONCURRENT_STREAMS=2)
    server.answers = lambda stream, body: None
    for _ in range(2):
        assert server.session.has_room
        server.session.ask(query())
    assert not server.session.has_room
    server.turn()
    server.answer(1, bytes(12))
    server.turn()
    assert server.session.has_room


def test_windows() -> None:
    """A server that gives no more room gets no more queries, until it does."""
    server = Server()
    server.turn()
    server.session._window = 1090
    for _ in range(3):
        assert server.session.has_room
        server.session.ask(query())
    assert not server.session.has_room
    server.session.feed(frame_head(WINDOW_UPDATE, 0, 4) + bytes(4) + (500).to_bytes(4, "big"))
    assert server.session.has_room


def test_the_server_gets_new_room() -> None:
    server = Server()
    server.session.ask(query())
    server.session._consumed = 1 << 29
    server.turn()
    assert server.session._consumed == 0


def test_cancelled() -> None:
    server = Server()
    server.answers = lambda stream, body: None
    stream = server.session.ask(query())
    server.turn()
    server.session.forget(stream)
    server.turn()
    assert server.resets == [stream]
    # What the server had already sent is a late reply; a second one has what was kept of the headers, too.
    head = frame_head(HEADERS, 5, 1) + stream.to_bytes(4, "big") + b"\x88"
    assert server.session.feed(head) == [QueryResult(None, None)]


@pytest.mark.parametrize(
    ("code", "why"),
    [(ErrorCodes.REFUSED_STREAM, ""), (ErrorCodes.INTERNAL_ERROR, "stream reset (INTERNAL_ERROR)"), (99, "stream reset (code 99)")],
)  # fmt: skip
def test_reset(code: int, why: str) -> None:
    server = Server()
    server.answers = lambda stream, body: server.http.reset_stream(stream, code)
    asked = query()
    server.session.ask(asked)
    assert server.turn() == [QueryResult(asked, None, why)]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (0, "closed by the server (GOAWAY)"),
        (11, "closed by the server (GOAWAY, ENHANCE_YOUR_CALM)"),
    ],
)
def test_goaway(code: int, why: str) -> None:
    """What the server will answer still, it may; what it has not seen goes elsewhere."""
    server = Server()
    server.answers = lambda stream, body: None
    queries = [query(at) for at in range(3)]
    for each in queries:
        server.session.ask(each)
    server.turn()
    goaway = frame_head(GOAWAY, 0, 8) + bytes(4) + (3).to_bytes(4, "big") + code.to_bytes(4, "big")
    assert server.session.feed(goaway) == [QueryResult(queries[2], None)]
    assert (server.session.takes, server.session.has_room, server.session.leaves) == (
        False,
        False,
        why,
    )
    server.answer(1, bytes(12))
    assert [each.query for each in server.turn()] == [queries[0]]


def test_ping() -> None:
    server = Server()
    server.turn()
    server.http.ping(b"12345678")
    server.turn()
    server.session.feed(frame_head(PING, 0, 8) + bytes(4) + b"abcdefgh")
    assert bytes(server.session.out) == frame_head(PING, 1, 8) + bytes(4) + b"abcdefgh"


def test_all_streams_used() -> None:
    server = Server()
    server.session._next = (1 << 31) - 1
    server.session.ask(query())
    assert (server.session.takes, server.session.leaves) == (False, "all its streams used")


def test_the_end_is_said() -> None:
    server = Server()
    server.turn()
    server.session.end()
    assert bytes(server.session.out) == frame_head(GOAWAY, 0, 8) + bytes(12)


EMPTY = frame_head(SETTINGS, 0, 0) + bytes(4)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak HTTP/2"),
        (b"220 mail.example.com ESMTP\r\n", "does not speak HTTP/2"),
        (EMPTY + frame_head(0, 0, 20_000) + bytes(4), "sends an HTTP/2 frame of 20000 octets"),
        (EMPTY + frame_head(5, 4, 4) + bytes(8), "pushes, though it was told not to"),
        (EMPTY + frame_head(9, 4, 1) + bytes(5), "continues no HTTP/2 header block"),
        (EMPTY + frame_head(1, 0, 1) + b"\0\0\0\1\x88" + EMPTY, "breaks off an HTTP/2 header block"),
        (EMPTY + frame_head(1, 4, 1) + b"\0\0\0\1\xff", "sends HTTP/2 headers that cannot be read: "),
        (EMPTY + frame_head(1, 0, 16_384) + b"\0\0\0\1" + bytes(16_384) + frame_head(9, 0, 1) + b"\0\0\0\1\0", "sends an HTTP/2 header block without end"),
    ],
)  # fmt: skip
def test_what_breaks_a_connection(octets: bytes, why: str) -> None:
    session = Http2Session(Requests("dns.test", "/dns-query", POST))
    session.ask(query())
    assert session.feed(octets) == []
    assert session.broken.startswith(why)


def test_headers_in_pieces() -> None:
    session = Http2Session(Requests("dns.test", "/dns-query", POST))
    asked = query()
    stream = session.ask(asked).to_bytes(4, "big")
    octets = (
        EMPTY
        + frame_head(1, 1, 0)
        + stream
        + frame_head(9, 0, 0)
        + stream
        + frame_head(9, 4, 1)
        + stream
        + b"\x8d"
    )
    assert session.feed(octets) == [QueryResult(asked, None, "HTTP status 404")]


@given(data=st.data())
def test_in_any_pieces(data: st.DataObject) -> None:
    server = Server()
    queries = [query(at) for at in range(4)]
    for each in queries:
        server.session.ask(each)
    for event in server.http.receive_data(bytes(server.session.out)):
        server._take(event)
    octets, at, found = server.http.data_to_send(), 0, []
    while at < len(octets):
        length = data.draw(st.integers(1, len(octets) - at))
        found += server.session.feed(octets[at : at + length])
        at += length
    assert [each.query for each in found] == queries


@given(octets=st.binary(max_size=200))
def test_nothing_is_raised(octets: bytes) -> None:
    session = Http2Session(Requests("dns.test", "/dns-query", POST))
    session.ask(query())
    session.feed(EMPTY)
    session.feed(octets)
    session.feed(frame_head(octets[0] % 12 if octets else 0, 4, len(octets)) + b"\0\0\0\1" + octets)


FRAME_HEAD = 9


def fields(
    decoder: Decoder, request: Request, form: tuple[bytes, bytes]
) -> tuple[dict[str, str], bytes]:
    """The fields of a request, and its body."""
    octets = request.frames(form, 5)
    length = int.from_bytes(octets[:3], "big")
    assert octets[3:9] == bytes((1, 5 if request.data is None else 4, 0, 0, 0, 5))
    found = decoder.decode(octets[FRAME_HEAD : FRAME_HEAD + length])
    body = octets[FRAME_HEAD + length :]
    if body:
        assert body[:9] == (len(body) - FRAME_HEAD).to_bytes(3, "big") + bytes((0, 1, 0, 0, 0, 5))
    return {str(name): str(value) for name, value in found}, body[FRAME_HEAD:]


@given(queries=st.lists(st.binary(min_size=10, max_size=300), min_size=1, max_size=4))
def test_post(queries: list[bytes]) -> None:
    requests, decoder = Requests("dns.test:8443", "/dns-query", POST), Decoder()
    for at, query in enumerate(queries):
        made = requests.of(query)
        assert made is requests.of(query)
        found, body = fields(decoder, made, made.later if at else made.first)
        assert body == b"\0\0" + query
        assert found == {
            ":method": "POST",
            ":scheme": "https",
            ":authority": "dns.test:8443",
            ":path": "/dns-query",
            "accept": MEDIA_TYPE,
            "content-type": MEDIA_TYPE,
            "content-length": str(len(body)),
        }


@given(queries=st.lists(st.binary(min_size=10, max_size=300), min_size=1, max_size=4))
def test_get(queries: list[bytes]) -> None:
    requests, decoder = Requests("dns.test", "/q?x=1", GET), Decoder()
    for at, query in enumerate(queries):
        made = requests.of(query)
        found, body = fields(decoder, made, made.later if at else made.first)
        assert body == b""
        path, _, text = found.pop(":path").partition("&dns=")
        assert (path, urlsafe_b64decode(text + "==")) == ("/q?x=1", b"\0\0" + query)
        assert found == {
            ":method": "GET",
            ":scheme": "https",
            ":authority": "dns.test",
            "accept": MEDIA_TYPE,
        }


def test_what_is_repeated_is_short() -> None:
    requests = Requests("dns.test", "/dns-query", POST)
    made = requests.of(bytes(30))
    assert len(made.first[1]) > 50
    assert len(made.later[1]) < 15


def test_without_a_table() -> None:
    requests, decoder = Requests("dns.test", "/dns-query", POST), Decoder()
    made = requests.of(bytes(30))
    assert fields(decoder, made, made.plain)[0][":path"] == "/dns-query"
    assert not decoder.header_table.dynamic_entries
    assert decoder.header_table_size == 0
