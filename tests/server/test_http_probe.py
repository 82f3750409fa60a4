"""Which requests are answered without an HTTP library, and how."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.http_probe import Probe, answer, date, read_probe

KUBELET = (
    b"GET /ready HTTP/1.1\r\nHost: 10.244.0.7:8181\r\nUser-Agent: kube-probe/1.36\r\n"
    b"Accept: */*\r\nConnection: close\r\n\r\n"
)
CURL = b"HEAD /health?x=1 HTTP/1.1\r\nHost: x\r\nuser-agent: curl/8\r\naccept: */*\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "probe"),
    [
        pytest.param(KUBELET, Probe("/ready", True, False), id="kubelet"),
        pytest.param(CURL, Probe("/health?x=1", False, True), id="curl"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n", Probe("/", True, True), id="keep-alive"),
        pytest.param(KUBELET[:-1], None, id="a part"),
        pytest.param(KUBELET * 2, None, id="two"),
        pytest.param(b"GET /a%20b HTTP/1.1\r\nHost: x\r\n\r\n", None, id="encoded"),
        pytest.param(b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", None, id="absolute"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", None, id="post"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", None, id="1.0"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", None, id="body"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\r\n", None, id="upgrade"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", None, id="both"),
        pytest.param(b"GET / HTTP/1.1\nHost: x\n\n", None, id="line feeds"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", None, id="bare return"),
    ],
)  # fmt: skip
def test_read_probe(data: bytes, probe: Probe | None) -> None:
    assert read_probe(data) == probe


@given(st.binary(max_size=60))
def test_other_octets_are_left_to_the_library(data: bytes) -> None:
    assert read_probe(b"GET /" + data) is None or data.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("probe", "status", "head", "body"),
    [
        pytest.param(Probe("/", True, True), 200, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nDate: ", "OK", id="get"),
        pytest.param(Probe("/", False, True), 503, "HTTP/1.1 503 Service Unavailable\r\n", "", id="head"),
        pytest.param(Probe("/", True, False), 299, "HTTP/1.1 299 \r\n", "OK", id="no phrase"),
    ],
)  # fmt: skip
def test_answer(probe: Probe, status: int, head: str, body: str) -> None:
    found = answer(probe, status, "text/plain", b"OK").decode()
    assert found.startswith(head)
    assert found.partition("\r\n\r\n")[2] == body
    assert ("\r\nConnection: close\r\n" in found) is not probe.keeps


@pytest.mark.parametrize("now", [0.0, 784_111_777.0, 1_700_000_000.5])
def test_the_date_is_that_of_http(now: float) -> None:
    assert date(now) == formatdate(now, usegmt=True)
