"""How octets become requests, and which of them are none."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.http.request import (
    MAX_BODY,
    MAX_HEAD,
    Malformed,
    Request,
    RequestReader,
    Response,
    head_of,
)
from tests.support.tables import columns

REQUESTS = Path(__file__).with_name("http_requests.txt")
KUBELET = (
    b"GET /ready HTTP/1.1\r\nHost: 10.244.0.7:8181\r\nUser-Agent: kube-probe/1.36\r\n"
    b"Accept: */*\r\nConnection: close\r\n\r\n"
)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
PLAIN = {"host": "x"}
IN_CHUNKS = {"host": "x", "transfer-encoding": "chunked"}


def read(*pieces: bytes) -> list[Request | int]:
    """The requests in these octets, and the status of what is none."""
    reader, found = RequestReader(), list[Request | int]()
    for piece in pieces:
        reader.feed(piece)
        try:
            while (request := reader.take()) is not None or reader.has_waiting:
                found += [request] if request is not None else []
        except Malformed as bad:
            return [*found, bad.status]
    return found


@pytest.mark.parametrize(
    ("data", "request_"),
    [
        pytest.param(KUBELET, Request("GET", "/ready", {"host": "10.244.0.7:8181", "user-agent": "kube-probe/1.36", "accept": "*/*", "connection": "close"}, keeps=False), id="kubelet"),
        pytest.param(b"HEAD /a%20b?x=1 HTTP/1.1\r\nhost: x\r\n\r\n", Request("HEAD", "/a%20b?x=1", PLAIN), id="encoded"),
        pytest.param(GET + b"A: 1\r\nB: \r\na:  2 \r\n\r\n", Request("GET", "/", {"host": "x", "a": "1, 2", "b": ""}), id="headers of one name"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", Request("GET", "/", {}, is_old=True, keeps=False), id="1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Request("GET", "/", {"connection": "Keep-Alive"}, is_old=True), id="1.0, kept"),
        pytest.param(GET + b"Connection: a, Close\r\n\r\n", Request("GET", "/", {"host": "x", "connection": "a, Close"}, keeps=False), id="close among others"),
        pytest.param(GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", Request("GET", "/", {"host": "x", "connection": "Upgrade"}), id="an upgrade is ignored"),
        pytest.param(POST + b"Connection: Upgrade\r\nupgrade: h2c\r\nContent-Length: 3\r\n\r\nabc", Request("POST", "/", {"host": "x", "connection": "Upgrade", "content-length": "3"}, b"abc"), id="with a body, as Java sends it"),
        pytest.param(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", Request("CONNECT", "x:1", PLAIN, keeps=False), id="connect"),
        pytest.param(b"GET http://a:1/b?c HTTP/1.1\r\nHost: x\r\n\r\n", Request("GET", "/b?c", {"host": "a:1"}), id="absolute"),
        pytest.param(b"GET HTTP://a?c HTTP/1.1\r\nHost: x\r\n\r\n", Request("GET", "/?c", {"host": "a"}), id="absolute without path"),
        pytest.param(POST + b"Content-Length: 3\r\n\r\na\nb", Request("POST", "/", {"host": "x", "content-length": "3"}, b"a\nb"), id="body"),
        pytest.param(POST + b"Content-Length: %b3\r\n\r\nabc" % (b"0" * 5000), Request("POST", "/", {"host": "x", "content-length": "0" * 5000 + "3"}, b"abc"), id="zeros"),
        pytest.param(CHUNKED + b"1;x=y\r\na\r\n2\r\n\r\n\r\n0\r\nT: t\r\n\r\n", Request("POST", "/", IN_CHUNKS, b"a\r\n"), id="chunks"),
        pytest.param(CHUNKED.replace(b"1.1", b"1.0").replace(b"Host: x", b"Connection: keep-alive"), None, id="1.0, a part of chunks"),
        pytest.param(GET, None, id="a part of a head"),
        pytest.param(POST + b"Content-Length: 3\r\n\r\nab", None, id="a part of a body"),
    ],
)  # fmt: skip
def test_requests(data: bytes, request_: Request | None) -> None:
    """In one piece, octet by octet, and two at once."""
    wanted = [] if request_ is None else [request_]
    assert read(data) == wanted
    assert read(*(data[at : at + 1] for at in range(len(data)))) == wanted
    if wanted:
        assert read(data * 2) == wanted * 2


@pytest.mark.parametrize(("octets", "status"), columns(REQUESTS, "malformed"))
def test_malformed(octets: str, status: str) -> None:
    data = octets.partition(": ")[2].encode().decode("unicode_escape").encode("latin-1")
    for name, begin in (("GET", GET), ("POST", POST), ("CHUNKED", CHUNKED)):
        data = data.replace(b"{%b}" % name.encode(), begin)
    assert read(data) == [int(status)]
    assert read(KUBELET + data)[1:] == [int(status)]


@pytest.mark.parametrize("end", [0, 1])
def test_head_of_the_most_octets(end: int) -> None:
    head = GET + b"A: " + b"a" * (MAX_HEAD - len(GET) - 7 + end) + b"\r\n\r\n"
    assert len(head) == MAX_HEAD + end
    assert [type(each) for each in read(head)] == [Request if not end else int]


def test_client_that_waits_is_told_to_go_on() -> None:
    reader = RequestReader()
    head = POST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    reader.feed(head)
    assert reader.take() is None
    assert (reader.interim(), reader.interim()) == (b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    reader.feed(b"a" + head + b"b")
    assert [each and each.body for each in (reader.take(), reader.take())] == [b"a", b"b"]
    assert reader.interim() == b""


@pytest.mark.parametrize(
    ("begin", "rest", "readings"),
    [
        pytest.param(GET, b"A: " + b"a" * 1000 + b"\r\n", 256, id="lines"),
        pytest.param(GET + b"A: ", b"a" * 1000, 256, id="a line"),
        pytest.param(b"GET /", b"a" * 1000, 256, id="a URL"),
        pytest.param(CHUNKED + b"0\r\n", b"A: " + b"a" * 1000 + b"\r\n", 256, id="trailers"),
        pytest.param(CHUNKED + b"1;", b"a" * 1000, 256, id="an extension"),
        pytest.param(POST + b"Content-Length: 999999999\r\n\r\n", b"a" * 1000, 256, id="a body"),
        pytest.param(CHUNKED, b"3e8\r\n" + b"a" * 1000 + b"\r\n", 256, id="chunks"),
        pytest.param(KUBELET, KUBELET * 10, 2, id="requests"),
    ],
)
def test_endless_input_keeps_few_octets(begin: bytes, rest: bytes, readings: int) -> None:
    """64 MB, in readings as large as those of the loops; of requests less."""
    reading = rest * (262_144 // len(rest))
    reader = RequestReader()
    reader.feed(begin)
    tracemalloc.start()
    for _ in range(readings):
        reader.feed(reading)
        try:
            while reader.take() is not None or reader.has_waiting:
                pass
        except Malformed:
            pass
        assert reader.octets <= MAX_HEAD + MAX_BODY
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_octets(data: bytes, cut: int) -> None:
    """They are read alike in whatever pieces they come, and cost no more than an error."""
    whole = GET + data
    assert read(whole) == read(whole[:cut], whole[cut:])


@pytest.mark.parametrize(
    ("request_", "status", "head", "body"),
    [
        pytest.param(Request("GET", "/", {}), 200, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nDate: ", "OK", id="get"),
        pytest.param(Request("HEAD", "/", {}), 503, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n", "", id="head"),
        pytest.param(Request("GET", "/", {}, keeps=False), 299, "HTTP/1.1 299 \r\n", "OK", id="no phrase"),
        pytest.param(None, 400, "HTTP/1.1 400 Bad Request\r\n", "OK", id="no request"),
    ],
)  # fmt: skip
def test_response(request_: Request | None, status: int, head: str, body: str) -> None:
    found = Response.of(status, "text/plain", b"OK").to(request_).decode()
    assert found.startswith(head)
    assert found.partition("\r\n\r\n")[2] == body
    is_kept = request_ is not None and request_.keeps
    assert ("\r\nConnection: close\r\n" in found) is not is_kept


def test_an_old_client_is_told_that_its_connection_stays() -> None:
    assert b"\r\nConnection: keep-alive\r\n" in head_of(
        200, (), Request("GET", "/", {}, is_old=True)
    )
