"""What a client of a page gets, and which requests of browsers are refused."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator

import pytest

from hsdns.http_page import AccessToken, HttpPage, HttpRefusal, HttpStream, PageRequest
from hsdns.server import http
from hsdns.server import http as http_connection
from hsdns.server.admission import Places
from hsdns.server.http import HEADERS, HttpListeners, HttpPages, fault_of
from tests.server.test_http import LOCAL, ask, opened, parse
from tests.support.coroutines import event_loops
from tests.support.coroutines.event_loops import busy, until

pytestmark = pytest.mark.sockets


async def whole(asked: PageRequest) -> AsyncGenerator[bytes, None]:
    yield b"one "
    yield repr((asked.method, asked.parameters, asked.body)).encode()


async def part(asked: PageRequest) -> AsyncGenerator[bytes, None]:
    yield b"one "
    raise ZeroDivisionError


async def none(asked: PageRequest) -> AsyncGenerator[bytes, None]:
    if asked.body:
        yield b""


async def refused(asked: PageRequest) -> AsyncGenerator[bytes, None]:
    if not asked.body:
        raise HttpRefusal(409, "not now")
    yield b""


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"),
    [
        ("GET", "/whole", b"", 200, chunks(b"one ", b"('GET', {}, b'')", b"")),
        ("GET", "/whole?a=1&b=%C3%A9", b"", 200, chunks(b"one ", "('GET', {'a': '1', 'b': 'é'}, b'')".encode(), b"")),
        ("POST", "/whole", b"x", 200, chunks(b"one ", b"('POST', {}, b'x')", b"")),
        ("HEAD", "/whole", b"", 200, b""),
        pytest.param("GET", "/part", b"", 200, chunks(b"one "), id="no last chunk"),
        ("GET", "/none", b"", 200, chunks(b"")),
        ("GET", "/refused", b"", 409, b'{"error": "not now"}\n'),
        ("GET", "/whole?c", b"", 400, b'{"error": "/whole has no parameter c; it has a, b"}\n'),
        ("GET", "/whole?a=1&a=2", b"", 400, b'{"error": "/whole takes a once"}\n'),
        ("GET", "/none?c", b"", 400, b'{"error": "/none has no parameter c; leave out ?c"}\n'),
        ("DELETE", "/whole", b"", 405, b'{"error": "/whole has no DELETE; it has GET, POST"}\n'),
        pytest.param("POST", "/whole", bytes(65_537), 413, b'{"error": "/whole takes at most 65536 octets"}\n', id="too large"),
    ],
)  # fmt: skip
async def test_pieces(method: str, path: str, body: bytes, status: int, answer: bytes) -> None:
    streams = {
        f"/{each.__name__}": HttpStream("text/plain", each) for each in (part, none, refused)
    }
    streams["/whole"] = HttpStream("text/plain", whole, None, ("a", "b"), ("GET", "POST"))
    listeners = await opened(streams)
    found = await ask(listeners.bound[LOCAL], path, method, body)
    assert (found.status, found.body) == (status, answer)
    await listeners.close()


async def test_the_next_piece_waits_for_the_reader() -> None:
    """So a reader that takes nothing costs a bounded number of pieces."""
    made = 0

    async def endless(asked: PageRequest) -> AsyncGenerator[bytes, None]:
        nonlocal made
        while True:
            made += 1
            yield bytes(65_536)

    listeners = await opened({"/endless": HttpStream("text/plain", endless)})
    reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL], limit=1)
    writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.read(1)
    before = -1
    while made != before:  # what the kernel and the client buffer
        before = made
        await asyncio.sleep(0.05)
    assert 0 < made < 1000
    writer.close()
    await listeners.close()


async def test_clients_share_the_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client does not keep others out, and pages that end are no readers."""
    monkeypatch.setattr(http, "MAX_READERS", 2)

    async def endless(asked: PageRequest) -> AsyncGenerator[bytes, None]:
        while True:
            yield b"one"
            await asyncio.sleep(0.001)

    where = ("", 0)

    async def read_from(source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*where, local_addr=(source, 0))
        writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"one")
        return reader, writer

    pages = HttpPages()
    pages.serve(LOCAL, {"/health": HttpPage(lambda path: (200, "text/plain", b"OK"))})
    stream = HttpStream("text/plain", endless, is_public=True, is_endless=True)
    page = HttpStream("text/plain", whole, is_public=True)
    pages.serve(LOCAL, {"/": page, "/endless": stream})
    places = Places(64)
    listeners = HttpListeners(places)
    await listeners.open(pages)
    where = listeners.bound[LOCAL]
    first, second = [await read_from("127.0.0.2") for _ in range(2)]
    assert (await ask(where, "/")).status == 200
    assert (await ask(where, "/health")).body == b"OK"
    other = await read_from("127.0.0.1")
    with contextlib.suppress(ConnectionResetError):
        while await first[0].read(65_536):  # the oldest of the client with the most
            pass
    refused = await ask(where, "/endless")
    assert (refused.status, refused.body) == (
        503, b'{"error": "2 others read from this address; close one of them"}\n',
    )  # fmt: skip
    assert len(places) == 2
    for _, writer in (first, second, other):
        writer.close()
    await until(lambda: not len(places), "the readers have gone")
    (await read_from("127.0.0.1"))[1].close()
    await listeners.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: localhost", 200),
        ("Host: localhost\r\nOrigin: http://localhost", 200),
        ("Host: localhost\r\nOrigin: http://evil.example", 403),
        ("Host: evil.example", 403),
    ],
)
async def test_pages_of_other_sites_get_no_answer(headers: str, status: int) -> None:
    listeners = await opened({"/whole": HttpStream("text/plain", whole, headers={"X-Own": "yes"})})
    reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL])
    writer.write(f"GET /whole HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n".encode())
    found = parse(await reader.read())
    writer.close()
    assert found.status == status
    assert found.headers.items() >= HEADERS.items()
    assert not {name for name in found.headers if name.startswith("Access-Control")}
    assert found.headers.get("X-Own") == ("yes" if status == 200 else None)
    await listeners.close()


@pytest.mark.parametrize("loop", event_loops.LOOPS)
@pytest.mark.parametrize("before", [b"", b"GET /hea"], ids=["silent", "half-a-request"])
async def test_request_that_has_arrived_when_the_time_is_over(loop: str, before: bytes) -> None:
    """A loop that was busy finds the time-out and the request at once."""
    places = Places(4)
    listeners = await opened({"/health": HttpPage(lambda path: (200, "text/plain", b"OK"))}, places)
    request = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with socket.create_connection(listeners.bound[LOCAL], 5) as client:
        client.sendall(before)
        await until(
            lambda: sum(places._sums.values()) == len(before) and len(places) == 1, "it is seen"
        )

        def meanwhile() -> None:
            client.sendall(request[len(before) :])
            (connection,) = listeners._open[LOCAL].clients
            connection._forget_limit()
            connection._limit_time(0.0)

        await busy(meanwhile)
        await until(lambda: not len(places), "the connection ends")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
    await listeners.close()


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It kept one of the few places of readers."""
    monkeypatch.setattr(http_connection, "TIMEOUT", 0.05)
    listeners = await opened({"/whole": HttpStream("text/plain", whole)})
    reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL])
    writer.write(b"GET /whole HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
    found = parse(await asyncio.wait_for(reader.read(), 30))
    sentence = b'{"error": "the body of the request has not arrived after 0.05 s"}\n'
    assert (found.status, found.body) == (408, sentence)
    writer.close()
    await listeners.close()


@pytest.mark.parametrize("loop", event_loops.LOOPS)
@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", [505], id="version"),
        pytest.param(b"GET /" + b"a" * 1_000_000, [414], id="long URL"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: a\r\n" * 200_000, [431], id="long head"),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /\r\n\r\n", [200, 505], id="after a request"),
        pytest.param(b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" + b"a" * 999_999, [405], id="long body"),
    ],
)  # fmt: skip
async def test_what_ends_the_connection(
    loop: str, sent: bytes, statuses: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The response arrives, although not all that was sent is read; one line is logged for many."""
    listeners = await opened(
        {"/health": HttpPage(lambda path: (200, "text/plain", b"OK"))}, Places(4)
    )
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL])
        writer.write(sent)
        raw = b""
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                raw += piece
        assert [int(each[:3]) for each in raw.split(b"HTTP/1.1 ")[1:]] == statuses
        assert b"\r\nConnection: close\r\n" in raw
        writer.transport.abort()
    await listeners.close()
    assert len(caplog.messages) == (statuses[-1] != 405)


def test_malformed_requests_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    count = http.MalformedCount(iter((100.0, 101.0, 159.9, 160.0, 161.0)).__next__)
    for _ in range(5):
        count.add("192.0.2.7", "Invalid HTTP version")
    assert caplog.messages == [
        f"http: {number} malformed requests were refused; the last one, from 192.0.2.7: Invalid HTTP version"
        for number in (1, 3)
    ]


async def test_a_token_is_compared_after_the_pause_of_its_client() -> None:
    """Requests without a token, which guess nothing, are refused meanwhile."""
    compared: list[bytes] = []

    class Paused(AccessToken):
        def pause(self, client: bytes, now: float) -> float:
            return 3600.0

        def is_text(self, text: str, client: bytes, now: float) -> bool:
            compared.append(client)
            return super().is_text(text, client, now)

    compares = AccessToken("secret-of-16-octets")
    tokens = {"/paused": Paused("x"), "/": compares}
    listeners = await opened(
        {path: HttpStream("text/plain", whole, token) for path, token in tokens.items()}
    )
    where = listeners.bound[LOCAL]
    _, writer = await asyncio.open_connection(*where)
    writer.write(b"GET /paused HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n")
    assert (await ask(where, "/paused")).status == 401
    wrong = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\nConnection: close\r\n\r\n"
    reader, other = await asyncio.open_connection(*where)
    other.write(wrong)
    assert parse(await reader.read()).status == 401
    assert compares.pause(bytes((127, 0, 0, 1)), asyncio.get_running_loop().time()) > 0
    assert compared == []
    other.close()
    writer.close()
    await listeners.close()


def headers(host: str, origin: str | None) -> dict[str, str]:
    return {"host": host} if origin is None else {"host": host, "origin": origin}


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        pytest.param("localhost", None, id="curl"),
        pytest.param("", None, id="HTTP/1.0"),
        ("localhost:8079", None),
        ("LOCALHOST:8079", None),
        ("dns.localhost:8079", None),
        ("127.0.0.1:8079", None),
        ("10.244.0.9:8080", None),
        ("[::1]:8079", None),
        ("localhost:8079", "http://localhost:8079"),
        ("Localhost", "http://localhost"),
        ("[fd00::1]:8079", "https://[fd00::1]:8079"),
    ],
)
def test_own(host: str, origin: str | None) -> None:
    assert fault_of("GET", "/", headers(host, origin)) == ""


@pytest.mark.parametrize(
    ("host", "origin", "fault"),
    [
        ("evil.example:8079", None, "the name in evil.example:8079 may be that of another site; open this address as localhost or by its IP address"),
        ("evil.example:8079", "http://evil.example:8079", "the name in evil.example:8079 may be that of another site; open this address as localhost or by its IP address"),
        ("localhost.evil.example", None, "the name in localhost.evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("1.2.3.4.evil.example", None, "the name in 1.2.3.4.evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("localhost@evil.example", None, "the name in localhost@evil.example may be that of another site; open this address as localhost or by its IP address"),
        ("[::1", None, "the name in [::1 may be that of another site; open this address as localhost or by its IP address"),
        ("localhost:8079", "http://evil.example", "http://evil.example is another site, and may not ask here"),
        ("localhost:8079", "http://localhost:8080", "http://localhost:8080 is another site, and may not ask here"),
        pytest.param("localhost:8079", "null", "null is another site, and may not ask here", id="a file or a sandboxed frame"),
    ],
)  # fmt: skip
def test_of_others(host: str, origin: str | None, fault: str) -> None:
    assert fault_of("GET", "/", headers(host, origin)) == fault


def test_any_host() -> None:
    def fault(origin: str | None) -> str:
        return fault_of("GET", "/", headers("dns:9160", origin), any_host=True)

    assert fault(None) == fault("http://dns:9160") == ""
    assert (
        fault("http://evil.example") == "http://evil.example is another site, and may not ask here"
    )


@pytest.mark.parametrize(
    ("method", "path", "fetch", "is_refused"),
    [
        pytest.param("GET", "/v1/top", ("same-origin", "cors", "empty"), False, id="its own page"),
        pytest.param("GET", "/v1/top", ("none", "navigate", "document"), False, id="typed by the operator"),
        pytest.param("GET", "/", ("cross-site", "navigate", "document"), False, id="a link to the page"),
        pytest.param("GET", "/", ("same-site", "navigate", "document"), False, id="a link from another port"),
        pytest.param("POST", "/", ("cross-site", "navigate", "document"), True, id="a form"),
        pytest.param("GET", "/", ("cross-site", "navigate", "iframe"), True, id="a frame"),
        pytest.param("GET", "/v1/explain", ("cross-site", "navigate", "document"), True, id="a link to another path"),
        pytest.param("GET", "/v1/explain", ("cross-site", "no-cors", "image"), True, id="img"),
        pytest.param("GET", "/v1/explain", ("same-site", "no-cors", "image"), True, id="img of another port"),
        pytest.param("GET", "/", ("cross-site", "no-cors", "script"), True, id="script"),
        pytest.param("GET", "/", ("cross-site", None, None), True, id="site alone"),
    ],
)  # fmt: skip
def test_what_a_browser_fetches_for_other_sites(
    method: str, path: str, fetch: tuple[str | None, ...], is_refused: bool
) -> None:
    names = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    sent = {name: value for name, value in zip(names, fetch, strict=True) if value is not None}
    fault = fault_of(method, path, {"host": "localhost:8079", **sent})
    assert fault == (
        "another site may not ask here; it may only lead to the page at /" if is_refused else ""
    )
