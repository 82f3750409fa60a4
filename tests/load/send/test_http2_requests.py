"""The library hpack reads what is written."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.plan import GET, POST
from hsdns.load.send.http2 import MEDIA_TYPE, Request, Requests

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
