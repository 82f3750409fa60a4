"""HTTP/2 as a client sees it, without a socket: the client of the library h2 on the other side, or single frames."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from hsdns import fastpath
from hsdns.http2 import MAX_BLOCK_LEN, MAX_FRAME_LEN, ErrorCode, HeaderDecoder, Violation
from hsdns.server.http.doh_http2 import MAX_BODY_LEN, MAX_STREAMS, RATES, Frames, Http2
from hsdns.server.http.request import Request, Response
from tests import strategies
from tests.support.clients.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    get_headers,
    split,
)
from tests.support.tables import columns

OK = Response(
    200, (("content-type", "text/plain"), ("content-length", "5"), ("x-other", "y")), b"hello"
)


def received(server: Http2, data: bytes, now: float = 0.0) -> list[Request]:
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
        self.requests: list[Request] = []
        self.exchange()

    def exchange(self) -> None:
        """Hand octets over until nobody has any left."""
        while True:
            out, back = self.h2.data_to_send(), self.server.take_out()
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


@pytest.mark.parametrize("size", [1, 16_384, MAX_BODY_LEN, MAX_BODY_LEN + 1, 200_000])
def test_body_is_kept_up_to_one_octet_too_many(size: int) -> None:
    client = Client()
    client.ask("POST", body=bytes(size))
    (request,) = client.requests
    assert request.body is not None
    assert len(request.body) == min(size, MAX_BODY_LEN + 1)


def test_replies_wait_for_the_window_of_the_connection_in_order() -> None:
    client = Client()
    streams = [client.ask() for _ in range(3)]
    for at, stream in enumerate(streams):
        client.server.reply(stream, OK._replace(body=bytes(40_000), headers=()), float(at))
    client.exchange()
    assert [len(client.body(each)) for each in streams] == [40_000, 25_535, 0]
    assert (client.server.unsent_since, client.server.octets) == (1.0, 54_465)
    client.h2.increment_flow_control_window(20_000)
    client.exchange()
    assert [len(client.body(each)) for each in streams] == [40_000, 40_000, 5_535]
    client.h2.increment_flow_control_window(100_000)
    client.exchange()
    assert [len(client.body(each)) for each in streams] == [40_000] * 3
    assert (client.server.unsent_since, client.server.octets, client.server.streams) == (
        None,
        0,
        {},
    )


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
    assert client.server.streams == {}
    assert client.server.octets == 0


def test_streams_that_have_ended_are_forgotten() -> None:
    client = Client()
    for _ in range(3):
        client.server.reply(client.ask(), OK, 0.0)
        client.exchange()
    assert client.server.streams == {}
    late = frame(DATA, 0, 1, b"x")
    assert received(client.server, late, client.now) == []
    assert client.server.take_out() == frame(
        RST_STREAM, 0, 1, ErrorCode.STREAM_CLOSED.to_bytes(4, "big")
    )
    assert client.ask() == 7


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


WHOLE = END_HEADERS | END_STREAM
GET = get_headers("/dns-query")
POST = b"\x83" + GET[1:]
OPEN = frame(HEADERS, END_HEADERS, 1, POST)
ENDED = frame(HEADERS, WHOLE, 1, GET)
FLOW = ErrorCode.FLOW_CONTROL_ERROR
FRAMES = Path(__file__).with_name("http2_frames.txt")
KINDS = "DATA HEADERS PRIORITY RST_STREAM SETTINGS PUSH_PROMISE PING GOAWAY WINDOW_UPDATE CONTINUATION".split()


def requests(count: int, *, reset: bool = False) -> bytes:
    """GET requests of 40 octets on streams of their own."""
    return b"".join(
        frame(HEADERS, WHOLE, stream, bytes(40))
        + (frame(RST_STREAM, 0, stream, bytes(4)) if reset else b"")
        for stream in range(1, 2 * count, 2)
    )


def block(length: int, part: int = MAX_FRAME_LEN) -> bytes:
    """A header block in frames of at most `part` octets."""
    parts = [min(part, length - at) for at in range(0, length, part)]
    return b"".join(
        frame(
            CONTINUATION if number else HEADERS,
            END_HEADERS * (number == len(parts) - 1),
            1,
            bytes(size),
        )
        for number, size in enumerate(parts)
    )


def octets(line: str) -> bytes:
    """The frames of a line of http2_frames.txt."""
    blocks, found = {"GET": GET, "POST": POST}, b""
    for part in line.partition(": ")[2].split(" + "):
        times, _, one = part.rpartition(" x ")
        if one[0].islower():
            word, *sizes = one.split()
            made = (
                block(*map(int, sizes))
                if word == "block"
                else requests(int(sizes[0]), reset=word == "resets")
            )
            found += int(times or 1) * made
            continue
        kind, flags, stream, *words = one.split()
        payload = b""
        for word in words:
            zeros = word.removeprefix("zeros:")
            payload += (
                bytes(int(zeros)) if zeros != word else blocks.get(word) or bytes.fromhex(word)
            )
        number = KINDS.index(kind) if kind in KINDS else int(kind)
        found += int(times or 1) * frame(number, int(flags, 16), int(stream), payload)
    return found


@pytest.mark.parametrize(("frames", "code"), columns(FRAMES, "violations"))
def test_violation(frames: str, code: str) -> None:
    """RFC 9113 sections 5 to 8; a connection that is none goes on."""
    server = Http2(0.0)
    received(server, PREFACE + frame(SETTINGS, 0, 0))
    server.take_out()
    found = received(server, octets(frames))
    assert (server.has_fault, server.excess) == (code != "none", "")
    codes = [each[13:17] for each in split(server.take_out()) if each[3] == GOAWAY]
    assert codes == ([] if code == "none" else [ErrorCode[code].to_bytes(4, "big")])
    assert len(found) <= 1 or code == "none"


@pytest.mark.parametrize(("frames", "reply"), columns(FRAMES, "replies"))
def test_what_is_said_to_frames(frames: str, reply: str) -> None:
    server = Http2(0.0)
    received(server, PREFACE + frame(SETTINGS, 0, 0))
    server.take_out()
    received(server, octets(frames))
    assert server.take_out() == (b"" if reply == "nothing" else octets(f": {reply}"))


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", bytes(100), PREFACE + ENDED, PREFACE + frame(SETTINGS, 1, 0)],
)
def test_what_is_no_http2(data: bytes) -> None:
    server = Http2(0.0)
    assert received(server, data) == []
    assert server.has_fault


def test_a_window_that_is_exceeded() -> None:
    """The window of a stream is widened when half of it is used; a client that has got that cannot exceed it."""
    server = Http2(0.0)
    received(server, PREFACE + frame(SETTINGS, 0, 0) + OPEN)
    server.streams[1].room = 5
    received(server, frame(DATA, END_STREAM, 1, bytes(6)))
    assert split(server.take_out())[-1][13:17] == FLOW.to_bytes(4, "big")


def test_end_said_by_the_client() -> None:
    client = Client()
    client.h2.close_connection()
    client.exchange()
    assert client.server.is_over


def test_a_connection_that_is_forgotten_is_freed_at_once() -> None:
    """Under attack they would wait for a collection by the hundred."""
    client = Client()
    client.ask()
    connection = weakref.ref(client.server)
    del client
    assert connection() is None


PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "https.md"


@pytest.mark.parametrize(("frames", "excess"), columns(FRAMES, "sequences"))
def test_sequence_in_pieces(frames: str, excess: str) -> None:
    """What is counted does not depend on how octets arrive."""
    assert outcome(octets(frames), 1000) == excess.replace("none", "")


def feed(found: Frames, data: bytes, now: float) -> None:
    """Feed octets, and count their frames."""
    found.feed(data, now)
    while not found.count():
        pass


def outcome(data: bytes, piece: int = 0) -> str:
    """The limit that frames exceed; nothing waits if one is."""
    found = Frames(5.0)
    sent = PREFACE + data
    try:
        for at in range(0, len(sent), piece or len(sent)):
            feed(found, sent[at : at + (piece or len(sent))], 5.0)
    except Violation as violation:
        assert violation.code is ErrorCode.ENHANCE_YOUR_CALM
        return violation.limit
    assert b"".join(frame(*each) for each in found.waiting) == data
    return ""


def test_long_frame_is_refused_before_it_has_come() -> None:
    with pytest.raises(Violation) as caught:
        feed(Frames(0.0), PREFACE + frame(DATA, 0, 1, bytes(MAX_FRAME_LEN + 1))[:9], 0.0)
    assert caught.value.code is ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize("what", RATES)
def test_time_allows_more(what: str) -> None:
    """After a burst just the rate is allowed, if it is not above the burst, and after silence a burst again."""
    one = {
        "streams": frame(HEADERS, WHOLE, 1, b"x"),
        "resets": frame(RST_STREAM, 0, 1, bytes(4)),
        "pings": frame(PING, 0, 0, bytes(8)),
        "settings": frame(SETTINGS, 0, 0),
        "empty frames": frame(CONTINUATION, 0, 1),
        "header octets": frame(HEADERS, WHOLE, 1, bytes(MAX_BLOCK_LEN)),
        "window updates": frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        "other frames": frame(PRIORITY, 0, 3, bytes(5)),
        "data frames": frame(DATA, 0, 1, b"x"),
    }[what]
    each = MAX_BLOCK_LEN if what == "header octets" else 1
    rate = RATES[what]
    found = Frames(0.0)
    feed(found, PREFACE + one * int(rate.burst // each), 0.0)
    feed(found, one * int(min(rate) // each), 1.0)
    with pytest.raises(Violation, match=what):
        feed(found, one, 1.0)
    quiet = 1.0 + rate.burst / rate.per_second
    found = Frames(0.0)
    for now in (0.0, quiet, 2 * quiet):
        feed(found, (PREFACE if not now else b"") + one * int(rate.burst // each), now)


def test_stream_whose_reset_waits_is_known() -> None:
    found = Frames(0.0)
    feed(found, PREFACE + requests(2, reset=True), 0.0)
    assert found.reset == {1, 3}
    for _ in range(2):
        found.take()
    assert found.reset == {3}


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_octets_wait_unchanged_and_in_order(data: bytes, piece: int) -> None:
    found, taken, sent = Frames(0.0), b"", PREFACE + data
    try:
        for at in range(0, len(sent), piece):
            feed(found, sent[at : at + piece], 0.0)
            while found.waiting:
                taken += frame(*found.take())
    except Violation:
        pass
    # Of the number of a stream, the first bit is reserved.
    assert taken == b"".join(
        each[:5] + bytes((each[5] & 127,)) + each[6:] for each in split(data[: len(taken)])
    )
    assert not found.reset


FIELD = st.tuples(st.sampled_from([":path", "accept", "x-a"]), st.text(max_size=40), st.booleans())
BLOCKS = st.lists(
    st.tuples(st.lists(FIELD, max_size=4), st.sampled_from([0, 60, 4096])), max_size=5
)


@pytest.mark.skipif(fastpath.HeaderDecoder is None, reason="the fast path is not compiled")
@given(BLOCKS, st.booleans(), st.data())
def test_both_decoders_read_the_same_fields(
    blocks: list[tuple[list[tuple[str, str, bool]], int]], huffman: bool, data: st.DataObject
) -> None:
    """RFC 7541: with and without its code and its table, whose size changes; up to the first damaged block."""
    compiled: Any = fastpath.HeaderDecoder
    encoder, decoders = Encoder(), [HeaderDecoder(300), compiled(300)]
    for fields, size in blocks:
        encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman)
        if data.draw(st.integers(0, 3)) == 0:
            block = data.draw(strategies.damaged(block))
        found: list[object] = []
        for decoder in decoders:
            try:
                found.append(decoder.decode(block))
            except (OverflowError, ValueError) as error:
                found.append(type(error))
        assert found[0] == found[1]
        if isinstance(found[0], type):
            return


def test_documentation_has_the_rates() -> None:
    rows = [
        line.strip("|").split("|")[1:] for line in PAGE.read_text().splitlines() if line[:1] == "|"
    ]
    numbers = [
        [int(cell.replace(",", "")) for cell in row]
        for row in rows
        if len(row) == 2 and row[1].strip()[:1].isdecimal()
    ]
    assert sorted(numbers) == sorted(
        [int(rate.burst), int(rate.per_second)] for rate in RATES.values()
    )
