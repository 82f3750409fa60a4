"""Connections with peers that are slow, half-open, reset, close early, answer out of order, wrongly or with garbage.

pool.txt has them step by step, and what UDP and connections do together; here is which socket and ID a query has, and the
client side of HTTP/2 against the server side of another library, and against octets that no server should send.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.http2 import DATA, GOAWAY, HEADERS, MEDIA_TYPE, PING, SETTINGS, WINDOW_UPDATE, frame
from hsdns.load.plan import GET, POST, StreamPlan
from hsdns.load.send.connection import FramedSession, Pool, QueryResult
from hsdns.load.send.http2 import CREDIT, Http2Session, Requests
from hsdns.load.send.loop import Query
from hsdns.load.send.udp import IDS, LEAST_WINDOW, RUN, sockets_for, window_for
from hsdns.wire.framing import FrameBuffer
from hsdns.wire.framing import frame as framed
from tests.load.stream_peers import OCTETS, Link, Scene, answer
from tests.support.effort import tries
from tests.support.tables import paragraphs

SCENES = paragraphs(Path(__file__).with_name("pool.txt"))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.partition(":")[0])
def test_scene(scene: str) -> None:
    title, *steps = scene.split("\n")
    found, told = Scene(title.partition(":")[2]), []
    for step in steps:
        text = step.partition(" =>")[0]
        found.step(text)
        if found.transport is found.pool and text != "close":
            assert found.pool.waits == found.waits, text
        told.append(" => ".join(filter(None, (text, found.told()))))
    assert told == steps


@settings(max_examples=tries(30))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ask", "connect", "reply", "end", "reset", "pass", "refuse"]), st.integers(0, 5)),
        max_size=40,
    ),
    connections=st.integers(1, 3),
    pipeline=st.integers(1, 3),
    queries=st.integers(0, 3),
    idle=st.sampled_from([-1, 0, 300]),
)  # fmt: skip
def test_every_query_ends_once(
    steps: list[tuple[str, int]], connections: int, pipeline: int, queries: int, idle: int
) -> None:
    plan = f"connections={connections} pipeline={pipeline} queries={queries}"
    found, asked, ended = Scene(plan + f" idle={idle}" * (idle >= 0)), 0, []
    for word, number in steps:
        if word == "ask":
            found.step(f"ask {' '.join(str(asked + each) for each in range(number))}")
            asked += number
        elif word == "pass":
            found.step(f"pass {number * 250}")
        elif found.links:
            found.step(f"{word} {number % len(found.links)}")
        is_open = [each.connection for each in found.links if not each.is_closed]
        if idle <= 0 or not queries:
            # One that has had all its queries is closed in its own time.
            assert sum(bool(each.session.in_flight) for each in is_open) <= connections
        for each in is_open:
            assert len(each.session.in_flight) <= pipeline
            assert not queries or each.given <= queries
    for last in ("pass 2000", "pass 2000", "close"):
        found.step(last)
    ended += [number for _, number in found.answers]
    assert sorted(ended) == list(range(asked))
    assert (found.pool.waits, found.pool.counts.open) == (0, 0)
    assert all(link.is_closed for link in found.links)


def test_ids_of_a_connection() -> None:
    """One that waits is not used again; one that is free again is used last: its reply may come twice."""
    session, queries = FramedSession(), [Query(OCTETS, at, 0, 0) for at in range(7)]
    assert [session.ask(each) for each in queries[:3]] == [0, 1, 2]
    replies = [answer(bytes((0, key)) + OCTETS) for key in (2, 0)]
    found = session.feed(b"".join(map(framed, replies)))
    assert [(each.query, each.message) for each in found] == [(queries[2], replies[0]), (queries[0], replies[1])]  # fmt: skip
    assert session.ask(queries[3]) == 3
    session._next = IDS - 1
    assert [session.ask(each) for each in queries[4:]] == [IDS - 1, 0, 2]


def test_sockets_and_ids_over_udp() -> None:
    """RUN queries from one socket, then as many from the next, with IDs in order from its first."""
    scene = Scene("udp", first_ids=(IDS - 1, 5))
    scene.step(f"ask {' '.join(map(str, range(2 * RUN + 1)))}")
    ids = [[int.from_bytes(each[:2], "big") for each in socket.sent] for socket in scene.sockets]
    assert ids == [[IDS - 1, *range(RUN)], [*range(5, 5 + RUN)]]


def test_how_many_sockets_and_queries_a_rate_needs() -> None:
    given = [(100, 2, 1), (100, 2, 4), (30_000, 2, 1), (100_000, 2, 4)]
    assert [sockets_for(*each) for each in given] == [1, 4, 3, 10]
    bursts = [(100, 2, 1), (100_000, 2, 1), (100, 2, 100_000)]
    assert [window_for(*each) for each in bursts] == [LEAST_WINDOW, 600_001, 100_600]


# --- HTTP/2 ---

OK = [(":status", "200"), ("content-type", MEDIA_TYPE)]
COMMON = {":scheme": "https", ":authority": "dns.test:8443", "accept": MEDIA_TYPE}
Answers = Callable[["Server", int, bytes], None]


def query(number: int = 0, octets: bytes = OCTETS) -> Query:
    return Query(octets, number, 0, 0)


class Server:
    """The server's side; it answers every request unless `answers` does something else, or nothing."""

    def __init__(self, method: str = POST, path: str = "/dns-query") -> None:
        self.http = H2Connection(H2Configuration(client_side=False, header_encoding="ascii"))
        self.http.initiate_connection()
        self.session = Http2Session(Requests("dns.test:8443", path, method))
        self.requests: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.resets: list[int | None] = []
        self.answers: Answers = Server.answer

    def set(self, **settings: int) -> None:
        """Change settings, once the connection stands."""
        self.turn()
        self.http.update_settings({SettingCodes[name]: value for name, value in settings.items()})
        self.turn()

    def answer(self, stream: int, body: bytes) -> None:
        self.http.send_headers(stream, OK)
        self.http.send_data(stream, answer(body), end_stream=True)

    def turn(self) -> list[QueryResult]:
        """Pass octets on until nobody has any; return the results."""
        found: list[QueryResult] = []
        while True:
            self.take()
            back = self.http.data_to_send()
            if not back and not self.session.out:
                return found
            found += self.session.feed(back)

    def take(self) -> None:
        """Take what the client has sent."""
        octets = bytes(self.session.out)
        self.session.out.clear()
        for event in self.http.receive_data(octets):
            stream = getattr(event, "stream_id", 0) or 0
            if isinstance(event, RequestReceived):
                self.requests[stream] = {str(name): str(value) for name, value in event.headers}
                self.bodies[stream] = b""
            elif isinstance(event, DataReceived):
                self.bodies[stream] += event.data or b""
                self.http.acknowledge_received_data(event.flow_controlled_length or 0, stream)
            elif isinstance(event, StreamEnded):
                self.answers(self, stream, self.bodies[stream])
            elif isinstance(event, StreamReset):
                self.resets.append(stream)


def silent(server: Server, stream: int, body: bytes) -> None:
    """Answer nothing."""


@pytest.mark.parametrize("size", [4096, 65_536, 100, 0])
@given(queries=st.lists(st.binary(max_size=300).map(OCTETS[:10].__add__), min_size=1, max_size=4))
def test_posts(size: int, queries: list[bytes]) -> None:
    """With a table of any size, also of one that shrinks while the connection stands."""
    server = Server()
    for at in range(3):
        if at == 1:
            server.set(HEADER_TABLE_SIZE=size)
        asked = [query(octets=each) for each in queries]
        for each in asked:
            server.session.ask(each)
        found = server.turn()
        assert [each.query for each in found] == asked
        assert [each.message for each in found] == [answer(b"\0\0" + each) for each in queries]
    expected = COMMON | {":method": "POST", ":path": "/dns-query", "content-type": MEDIA_TYPE}
    for stream, body in zip(server.requests, [b"\0\0" + each for each in queries] * 3, strict=True):
        assert server.bodies[stream] == body
        assert server.requests[stream] == expected | {"content-length": str(len(body))}
    assert (server.session.broken, server.session.in_flight) == ("", {})


def test_a_get_has_no_body_and_what_is_repeated_is_short() -> None:
    server = Server(GET, "/q?x=1")
    server.answers = lambda server, stream, body: server.answer(stream, b"\0\0" + OCTETS)
    sizes = []
    for _ in range(2):
        server.session.ask(query())
        sizes.append(len(server.session.out))
        assert server.turn()[0].message == answer(b"\0\0" + OCTETS)
    assert sizes[1] < sizes[0] / 2
    for found in server.requests.values():
        path, _, text = found.pop(":path").partition("&dns=")
        assert (path, urlsafe_b64decode(text + "==")) == ("/q?x=1", b"\0\0" + OCTETS)
        assert found == COMMON | {":method": "GET"}
    assert set(server.bodies.values()) == {b""}


def refusing(*fields: tuple[str, str], data: bytes | None = b"sorry, no message") -> Answers:
    def refuse(server: Server, stream: int, body: bytes) -> None:
        server.http.send_headers(stream, list(fields), end_stream=data is None)
        if data is not None:
            server.http.send_data(stream, data, end_stream=True)

    return refuse


def resetting(code: int) -> Answers:
    return lambda server, stream, body: server.http.reset_stream(stream, code)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (refusing((":status", "503")), "HTTP status 503"),
        # It need not wait for a body that may never come.
        (lambda server, stream, body: server.http.send_headers(stream, [(":status", "503")]), "HTTP status 503"),
        (refusing((":status", "404"), ("content-type", "text/plain")), "HTTP status 404"),
        (refusing((":status", "200"), ("content-type", "text/html; charset=x")), 'HTTP content type "text/html"'),
        (refusing((":status", "200")), 'HTTP content type ""'),
        (refusing(*OK, data=None), "HTTP reply of 0 octets, which is not a DNS message"),
        (refusing(*OK, data=b"short"), "HTTP reply of 5 octets, which is not a DNS message"),
        (resetting(ErrorCodes.REFUSED_STREAM), ""),
        (resetting(ErrorCodes.INTERNAL_ERROR), "RST_STREAM (INTERNAL_ERROR)"),
        (resetting(99), "RST_STREAM (code 99)"),
    ],
)  # fmt: skip
def test_no_message(answers: Answers, why: str) -> None:
    server = Server()
    server.answers = answers
    for _ in range(2):  # a header block that was seen before says the same
        asked = query()
        server.session.ask(asked)
        assert server.turn() == [QueryResult(asked, None, why)]


def test_informational_headers_pieces_and_trailers() -> None:
    def reply(server: Server, stream: int, body: bytes) -> None:
        server.http.send_headers(stream, [(":status", "103")])
        server.http.send_headers(stream, OK)
        for octet in answer(body):
            server.http.send_data(stream, bytes((octet,)), pad_length=3)
        server.http.send_headers(stream, [("x-done", "1")], end_stream=True)

    server = Server()
    server.answers = reply
    server.session.ask(query())
    assert server.turn()[0].message == answer(b"\0\0" + OCTETS)


def test_room() -> None:
    """The number of streams and the window are the server's."""
    server = Server()
    session, server.answers = server.session, silent
    server.set(MAX_CONCURRENT_STREAMS=2)
    found = [session.has_room]
    for _ in range(2):
        session.ask(query())
        found.append(session.has_room)
    server.turn()
    server.answer(1, bytes(12))
    server.turn()
    found.append(session.has_room)
    session._window = 1000
    found.append(session.has_room)
    session.feed(frame(WINDOW_UPDATE, 0, 0, (500).to_bytes(4, "big")))
    assert [*found, session.has_room] == [True, True, False, True, False, True]
    session.last = (1 << 31) - 3
    session.ask(query())
    assert (session.takes, session.leaves) == (False, "all its streams used")


def test_the_window_stays_wide() -> None:
    """However many octets have come, the server never waits for us."""
    session = Http2Session(Requests("dns.test", "/dns-query", POST))
    stream = session.ask(query())
    session.feed(frame(SETTINGS, 0, 0) + frame(HEADERS, 4, stream, Encoder().encode(OK)))
    session.out.clear()
    data = frame(DATA, 0, stream, bytes(12))
    session._room = (CREDIT // 2) + 12
    found = [session.feed(data), bytes(session.out), session.feed(data), bytes(session.out)]
    assert found == [[], b"", [], frame(WINDOW_UPDATE, 0, 0, CREDIT.to_bytes(4, "big"))]
    assert session._room == CREDIT + CREDIT // 2 - 12


def test_cancelled_and_the_end() -> None:
    """What the server had already sent is a late reply; no protocol is broken without a word."""
    server = Server()
    server.answers = silent
    stream = server.session.ask(query())
    server.turn()
    server.session.forget(stream)
    server.turn()
    assert server.resets == [stream]
    assert server.session.feed(frame(HEADERS, 5, stream, b"\x88")) == [QueryResult(None, None)]
    server.session.end()
    assert bytes(server.session.out) == frame(GOAWAY, 0, 0, bytes(8))
    server.session.feed(frame(PING, 0, 0))
    assert server.session.broken == "violates the HTTP/2 protocol: PING of 0 octets"
    for octets in (b"HTTP/1.1 400 Bad Request\r\n", b"220 mail.example.com ESMTP\r\n"):
        session = Http2Session(Requests("dns.test", "/dns-query", POST))
        assert (session.feed(octets), session.broken) == ([], "does not speak HTTP/2")


@pytest.mark.parametrize("head", [frame(HEADERS, 4, 1, b"\x0f\x13\1a"), b""])
def test_a_reply_without_a_status(head: bytes) -> None:
    session, asked = Http2Session(Requests("dns.test", "/dns-query", POST)), query()
    session.ask(asked)
    found = session.feed(frame(SETTINGS, 0, 0) + head + frame(DATA, 1, 1, answer(b"\0\0" + OCTETS)))
    assert found == [QueryResult(asked, None, "no HTTP status")]


def test_a_reply_that_is_too_long() -> None:
    session, asked = Http2Session(Requests("dns.test", "/dns-query", POST)), query()
    stream = session.ask(asked)
    head = Encoder().encode(OK)
    found = session.feed(frame(SETTINGS, 0, 0) + frame(HEADERS, 4, stream, head))
    for _ in range(5):
        found += session.feed(frame(DATA, 0, stream, bytes(16_384)))
    assert found == [QueryResult(asked, None, "HTTP content of more than 65535 octets")]


class Octets(FrameBuffer):
    """Takes octets as they are."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data]


def test_the_end_of_a_connection_is_announced() -> None:
    pool = Pool(
        Link, StreamPlan(), 1, lambda: Http2Session(Requests("a", "/", POST)), print, lambda: 0
    )
    pool.ask(query())
    (connection,) = pool._open
    link = connection.link
    assert isinstance(link, Link)
    link.frames = Octets()
    pool.can_write(connection)
    pool.close()
    assert link.queries[-1].endswith(frame(GOAWAY, 0, 0, bytes(8)))


@pytest.mark.parametrize(("code", "more"), [(0, ""), (11, ", ENHANCE_YOUR_CALM")])
def test_goaway(code: int, more: str) -> None:
    """What the server will answer still, it may; what it has not seen goes elsewhere."""
    server = Server()
    server.answers = silent
    queries = [query(at) for at in range(3)]
    for each in queries:
        server.session.ask(each)
    server.turn()
    goaway = frame(GOAWAY, 0, 0, (3).to_bytes(4, "big") + code.to_bytes(4, "big"))
    assert server.session.feed(goaway) == [QueryResult(queries[2], None)]
    assert (server.session.takes, server.session.has_room) == (False, False)
    assert server.session.leaves == f"closed by the server (GOAWAY{more})"
    server.answer(1, bytes(12))
    assert [each.query for each in server.turn()] == [queries[0]]


@given(data=st.data())
def test_in_any_pieces_and_any_order(data: st.DataObject) -> None:
    server, waiting = Server(), []
    server.answers = lambda server, stream, body: waiting.append((stream, body))
    queries = [query(at) for at in range(4)]
    for each in queries:
        server.session.ask(each)
    server.take()
    order = data.draw(st.permutations(range(4)))
    for number in order:
        server.answer(*waiting[number])
    octets, at, found = server.http.data_to_send(), 0, []
    while at < len(octets):
        length = data.draw(st.integers(1, len(octets) - at))
        found += server.session.feed(octets[at : at + length])
        at += length
    assert [each.query for each in found] == [queries[number] for number in order]
