from __future__ import annotations

from base64 import urlsafe_b64encode

import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.doh import BadRequest, max_age, read_request
from hsdns.wire.decode import decode
from tests.support.clients.messages import query

WIRE = query(number=0).to_wire()
TEXT = urlsafe_b64encode(WIRE).decode().rstrip("=")
ERROR_HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        pytest.param("GET", f"/dns-query?dns={TEXT}", b"", id="get"),
        pytest.param("GET", f"/dns-query?ct=x&dns={TEXT}", b"", id="among-others"),
        pytest.param("GET", f"/dns-query?dns={TEXT}", b"body", id="get-with-a-body"),
        pytest.param("GET", f"/dns%2Dquery?dns={TEXT}", b"", id="escaped-path"),
        pytest.param("POST", "/dns-query", WIRE, id="post"),
        pytest.param("POST", "/dns-query?dns=x", WIRE, id="post-with-parameters"),
    ],
)
def test_request(method: str, target: str, body: bytes) -> None:
    wire, found = read_request(method, target, body)
    assert wire == WIRE
    assert found.qname.to_text() == "example.org."


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "text"),
    [
        pytest.param("GET", f"/?dns={TEXT}", b"", 404, b"\n", id="root"),
        pytest.param("GET", f"/dns-query/?dns={TEXT}", b"", 404, b"\n", id="slash"),
        pytest.param("GET", f"/DNS-QUERY?dns={TEXT}", b"", 404, b"\n", id="case"),
        pytest.param("PUT", "/other", WIRE, 404, b"\n", id="path-before-method"),
        pytest.param("PUT", "/dns-query", WIRE, 400, b"invalid request\n", id="put"),
        pytest.param("HEAD", f"/dns-query?dns={TEXT}", b"", 400, b"invalid request\n", id="head"),
        pytest.param("GET", "/dns-query", b"", 400, b"invalid request\n", id="no-parameter"),
        pytest.param("GET", "/dns-query?dns=", b"", 400, b"invalid request\n", id="empty"),
        pytest.param("GET", f"/dns-query?DNS={TEXT}", b"", 400, b"invalid request\n", id="parameter-case"),
        pytest.param("GET", f"/dns-query?dns={TEXT}&dns={TEXT}", b"", 400, b"invalid request\n", id="twice"),
        pytest.param("GET", f"/dns-query?dns={TEXT}=", b"", 400, b"invalid request\n", id="padding"),
        pytest.param("GET", f"/dns-query?dns={TEXT[:-1]}+", b"", 400, b"invalid request\n", id="other-base64"),
        pytest.param("GET", "/dns-query?dns=AAAAA", b"", 400, b"invalid request\n", id="odd-length"),
        pytest.param("GET", "/dns-query?" + "a&" * 20, b"", 400, b"invalid request\n", id="many-parameters"),
        pytest.param("POST", "/dns-query", b"", 400, b"invalid request\n", id="no-body"),
        pytest.param("POST", "/dns-query", WIRE[:-1], 400, b"invalid request\n", id="cut"),
        pytest.param("POST", "/dns-query", WIRE[:2] + b"\x81" + WIRE[3:], 400, b"invalid request\n", id="a-reply"),
        pytest.param("POST", "/dns-query", bytes(65_537), 400, b"invalid request\n", id="too-long"),
    ],
)  # fmt: skip
def test_bad_request(method: str, target: str, body: bytes, status: int, text: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        read_request(method, target, body)
    reply = caught.value.reply
    assert (reply.status, reply.body) == (status, text)
    assert dict(reply.headers) == {**ERROR_HEADERS, "content-length": str(len(text))}


@given(st.sampled_from(["GET", "POST", ""]), st.text(), st.binary())
def test_any_request_is_read_or_refused(method: str, target: str, body: bytes) -> None:
    for path in (target, f"/dns-query?{target}", f"/dns-query?dns={target}"):
        try:
            wire, _ = read_request(method, path, body)
        except BadRequest as bad:
            assert bad.reply.status in (400, 404)
        else:
            assert len(wire) >= 12


def reply(*sections: str, rcode: str = "NOERROR", qtype: str = "A") -> bytes:
    text = f"id 0\nopcode QUERY\nrcode {rcode}\nflags QR AA\n;QUESTION\nexample.org. IN {qtype}\n"
    for name, records in zip(("ANSWER", "AUTHORITY", "ADDITIONAL"), sections, strict=False):
        if records:
            text += f";{name}\n{records}\n"
    return dns.message.from_text(text).to_wire()


SOA = "org. 30 IN SOA ns.org. a.org. 1 2 3 4 5"


@pytest.mark.parametrize(
    ("wire", "age"),
    [
        pytest.param(reply("example.org. 300 IN A 192.0.2.1"), 300, id="ttl"),
        pytest.param(reply("example.org. 300 IN A 192.0.2.1", "", "b.org. 7 IN A 192.0.2.2"), 7, id="smallest-of-all-sections"),
        pytest.param(reply("example.org. 86400 IN A 192.0.2.1"), 3600, id="at-most-an-hour"),
        pytest.param(reply("example.org. 0 IN A 192.0.2.1"), 0, id="zero"),
        pytest.param(reply("", SOA), 30, id="nodata"),
        pytest.param(reply("", SOA, rcode="NXDOMAIN"), 30, id="nxdomain"),
        pytest.param(reply("", "", rcode="NXDOMAIN"), 5, id="nothing-to-go-by"),
        pytest.param(reply("", SOA, rcode="SERVFAIL"), 5, id="error"),
        pytest.param(reply("", "example.org. 300 IN NS ns.example.org."), 5, id="referral"),
        pytest.param(reply("example.org. 300 IN SOA ns.org. a.org. 1 2 3 4 5", qtype="AXFR"), 5, id="transfer"),
        pytest.param(b"\0" * 5, 5, id="no-message"),
    ],
)  # fmt: skip
def test_age(wire: bytes, age: int) -> None:
    asked = query("example.org", "AXFR" if b"\0\xfc\0\1" in wire else "A", number=0)
    assert max_age(decode(asked.to_wire()), wire) == age
