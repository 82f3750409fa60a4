from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.server.http.doh import BadRequest, max_age, read_query, read_request
from hsdns.wire.decode import decode
from tests.support.clients.messages import query
from tests.support.tables import columns

WIRE = query(number=0).to_wire()
TEXT = urlsafe_b64encode(WIRE).decode().rstrip("=")
BODIES = {
    "": b"",
    "BODY": b"body",
    "WIRE": WIRE,
    "CUT": WIRE[:-1],
    "REPLY": WIRE[:2] + b"\x81" + WIRE[3:],
    "LONG": bytes(65_537),
}
REQUESTS = Path(__file__).with_name("doh_requests.txt")
ERROR_HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@pytest.mark.parametrize(("asked", "expected"), columns(REQUESTS, "requests"))
def test_request(asked: str, expected: str) -> None:
    method, target, body = [*asked.split(" "), ""][:3]
    target = target.replace("{TEXT}", TEXT).replace("{TEXT-1}", TEXT[:-1])
    if expected == "read":
        wire = read_request(method, target, BODIES[body])
        assert (wire, read_query(wire).qname.to_text()) == (WIRE, "example.org.")
        return
    with pytest.raises(BadRequest) as caught:
        read_query(read_request(method, target, BODIES[body]))
    reply, text = caught.value.reply, b"\n" if expected == "404" else b"invalid request\n"
    assert (reply.status, reply.body) == (int(expected), text)
    assert dict(reply.headers) == {**ERROR_HEADERS, "content-length": str(len(text))}


@given(st.sampled_from(["GET", "POST", ""]), st.text(), st.binary())
def test_any_request_is_read_or_refused(method: str, target: str, body: bytes) -> None:
    for path in (target, f"/dns-query?{target}", f"/dns-query?dns={target}"):
        try:
            found = read_query(read_request(method, path, body))
        except BadRequest as bad:
            assert bad.reply.status in (400, 404)
        else:
            assert found.size >= 12


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
