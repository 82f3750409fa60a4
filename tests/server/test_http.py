"""Pages: where they are shown, what a client of one gets, and which requests of browsers are refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hsdns.http_page import AccessToken, HttpHandler, HttpPage, HttpRefusal, HttpStream, PageRequest
from hsdns.server.http import pages as http
from hsdns.server.http.pages import HEADERS, HttpError, HttpListeners, HttpPages, fault_of
from hsdns.server.transport.admission import Places
from tests.support.coroutines import event_loops
from tests.support.coroutines.event_loops import until
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

pytestmark = pytest.mark.sockets
LOCAL = "127.0.0.1:0"
BROWSERS = Path(__file__).with_name("browsers.txt")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def page(body: str, status: int = 200) -> HttpPage:
    return HttpPage(lambda path: (status, "text/plain; charset=utf-8", body.encode()))


def pages(**by_path: HttpHandler | HttpPage) -> HttpPages:
    made = HttpPages()
    made.serve(
        LOCAL,
        {
            f"/{path}": each if isinstance(each, HttpPage) else HttpPage(each)
            for path, each in by_path.items()
        },
    )
    return made


async def opened(
    wanted: HttpPages | Mapping[str, HttpPage | HttpStream], places: Places | None = None
) -> HttpListeners:
    """Listeners with these pages, by default at LOCAL."""
    if not isinstance(wanted, HttpPages):
        at_local = HttpPages()
        at_local.serve(LOCAL, wanted)
        wanted = at_local
    listeners = HttpListeners(Places(64) if places is None else places)
    await listeners.open(wanted)
    return listeners


async def ask(
    where: tuple[str, int], path: str = "/health", method: str = "GET", body: bytes = b""
) -> Answer:
    """Make one request on a connection of its own."""
    reader, writer = await asyncio.open_connection(*where)
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}\r\n"
    writer.write(head.encode() + body)
    raw = await reader.read()
    writer.close()
    await writer.wait_closed()
    return parse(raw)


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return Answer(int(first.split()[1]), headers, body)


def run(coro: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coro, 20))


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/health", 200, b"OK"),
        ("HEAD", "/health", 200, b""),
        ("GET", "/health?verbose", 200, b"OK"),
        ("GET", "/ready", 503, b"kubernetes"),
        ("GET", "/", 404, b"404 page not found\n"),
        ("GET", "/health/", 404, b"404 page not found\n"),
        ("POST", "/health", 200, b"OK"),
        ("GET", "/broken", 500, b"internal server error\n"),
    ],
)
async def test_answers(
    method: str, path: str, status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(path: str) -> tuple[int, str, bytes]:
        raise ZeroDivisionError

    caplog.set_level(logging.ERROR, "hsdns.server.http.pages")
    listeners = await opened(pages(health=page("OK"), ready=page("kubernetes", 503), broken=broken))
    found = await ask(listeners.bound[LOCAL], path, method)
    await listeners.close()
    assert (found.status, found.body) == (status, body)
    assert found.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert found.headers.get("X-Content-Type-Options") == ("nosniff" if status == 404 else None)
    errors = ["http: the page /broken could not be made"] if status == 500 else []
    assert caplog.messages == errors


async def test_only_a_slow_page_is_made_in_a_thread() -> None:
    threads: dict[str, bool] = {}

    def prepare() -> None:
        assert threading.current_thread() is threading.main_thread()
        threads["prepared"] = True

    def answer(path: str) -> tuple[int, str, bytes]:
        threads[path] = threading.current_thread() is threading.main_thread()
        return 200, "text/plain", b""

    listeners = await opened(
        pages(health=answer, metrics=HttpPage(answer, is_slow=True, prepare=prepare))
    )
    for path in ("/health", "/metrics"):
        assert (await ask(listeners.bound[LOCAL], path)).status == 200
    await listeners.close()
    assert threads == {"/health": True, "prepared": True, "/metrics": False}


def test_where_one_address_fails_nothing_changes() -> None:
    async def case(taken: str) -> None:
        listeners = HttpListeners(Places(64))
        await listeners.open(pages(health=page("old")))
        where = listeners.bound[LOCAL]
        failing = pages(health=page("new"))
        failing.serve("localhost:0", {"/ready": page("new")})
        failing.serve(taken, {"/metrics": page("new")})
        with pytest.raises(HttpError) as caught:
            await listeners.open(failing)
        assert str(caught.value) == (
            f"cannot listen on {taken} for /metrics: Address already in use;"
            ' give another address after "prometheus" in the Corefile'
        )
        assert (await ask(where)).body == b"old"
        assert listeners.bound == {LOCAL: where}
        await listeners.close()

    with socket.create_server(("127.0.0.1", 0)) as sock:
        run(case(f"127.0.0.1:{sock.getsockname()[1]}"))


@pytest.mark.parametrize(("address", "reason"), values(TABLES, "addresses that cannot be"))
async def test_addresses_that_cannot_be(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        if host.endswith(".invalid"):  # no resolver is asked
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    wanted = HttpPages()
    wanted.serve(address, {"/health": page("OK")})
    with pytest.raises(HttpError) as caught:
        await HttpListeners(Places(64)).open(wanted)
    assert str(caught.value) == (
        f'cannot listen on {address} for /health: {reason}; give another address after "health" in the Corefile'
    )


@pytest.mark.parametrize(("address", "clients"), values(TABLES, "addresses"))
async def test_addresses(address: str, clients: list[str]) -> None:
    wanted = HttpPages()
    wanted.serve(address, {"/health": page("OK")})
    listeners = await opened(wanted)
    port = listeners.bound[address][1]
    reached = []
    for client in ("127.0.0.1", "::1"):
        try:
            reached += [client] * ((await ask((client, port))).body == b"OK")
        except ConnectionError:
            continue
    assert reached == clients
    await listeners.close()


async def test_without_ipv6_an_empty_host_is_all_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = http._bound

    def without_ipv6(family: int, where: Any, *, dual_stack: bool = False) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return bound(family, where, dual_stack=dual_stack)

    monkeypatch.setattr(http, "_bound", without_ipv6)
    listeners, wanted = HttpListeners(Places(64)), HttpPages()
    wanted.serve(":0", {"/health": page("OK")})
    await listeners.open(wanted)
    host, port = listeners.bound[":0"]
    assert host == "0.0.0.0"
    assert (await ask(("127.0.0.1", port))).body == b"OK"
    await listeners.close()


@pytest.mark.parametrize("sent", [b"", b"GET /health HT"], ids=["silent", "half-a-request"])
async def test_a_client_that_does_not_ask_is_cut_off(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TIMEOUT", 0.05)
    listeners = await opened(pages(health=page("OK")))
    reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL])
    writer.write(sent)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    await listeners.close()


def tls_page(name: str) -> HttpPage:
    """A page that is answered over TLS alone."""
    data = Path(__file__).parents[1] / "data" / "tls"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(data / f"{name}.pem", data / f"{name}.key")
    return HttpPage(lambda path: (200, "text/plain", path.encode()), tls=tls)


def trusting(authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(Path(__file__).parents[1] / "data" / "tls" / f"{authority}.pem")
    return context


async def ask_tls(where: tuple[str, int], authority: str) -> Answer:
    reader, writer = await asyncio.open_connection(
        *where, ssl=trusting(authority), server_hostname="127.0.0.1"
    )
    writer.write(b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    raw = await reader.read()
    writer.close()
    return parse(raw)


async def test_page_over_tls() -> None:
    """A reload exchanges the certificate, and takes it away, under the open socket."""
    listeners = await opened(pages(metrics=tls_page("server")))
    where = listeners.bound[LOCAL]
    found = await ask_tls(where, "ca")
    assert (found.status, found.body) == (200, b"/metrics?a=b")
    for sent, first in (
        (b"GET / HTTP/9.9\r\n\r\n", b"HTTP/1.1 505 "),
        (b"A" * 99_999, b"HTTP/1.1 414 "),
    ):
        reader, writer = await asyncio.open_connection(
            *where, ssl=trusting("ca"), server_hostname="127.0.0.1"
        )
        writer.write(sent)
        assert (await reader.read()).startswith(first)
        writer.close()
    plain = await ask(where, "/metrics")
    assert (plain.status, plain.body) == (400, b"Client sent an HTTP request to an HTTPS server.\n")
    await listeners.open(pages(metrics=tls_page("other-server")))
    assert (await ask_tls(where, "other-ca")).status == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask_tls(where, "ca")
    await listeners.open(pages(metrics=page("plain")))
    assert (await ask(where, "/metrics")).body == b"plain"
    assert listeners.bound[LOCAL] == where
    await listeners.close()


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


@pytest.mark.parametrize(("headers", "status"), values(TABLES, "pages of other sites get no answer"))  # fmt: skip
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


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It kept one of the few places of readers."""
    monkeypatch.setattr(http, "TIMEOUT", 0.05)
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
        pytest.param(b"POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 65_537, [200], id="long body in small chunks"),
        pytest.param(b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n" + b"a" * 999_999, [200], id="long body"),
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
    assert len(caplog.messages) == (statuses[-1] != 200)


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


@pytest.mark.parametrize(("asked", "expected"), columns(BROWSERS, "origins"))
def test_origins(asked: str, expected: str) -> None:
    host, origin = asked.split()
    sentences = {
        "answered": "",
        "name": f"the name in {host} may be that of another site; open this address as localhost or by its IP address",
        "site": f"{origin} is another site, whose requests are rejected",
    }
    sent = headers("" if host == "-" else host, None if origin == "-" else origin)
    assert fault_of("GET", "/", sent) == sentences[expected]


@pytest.mark.parametrize(("asked", "expected"), columns(BROWSERS, "fetched"))
def test_what_a_browser_fetches_for_other_sites(asked: str, expected: str) -> None:
    """METHOD PATH, and the headers Sec-Fetch-Site, -Mode and -Dest."""
    method, path, *fetch = asked.split()
    names = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    sent = {name: value for name, value in zip(names, fetch, strict=True) if value != "-"}
    fault = fault_of(method, path, {"host": "localhost:8079", **sent})
    refusal = "requests from other sites are rejected; only a link to the page at / works"
    assert fault == (refusal if expected == "refused" else "")
