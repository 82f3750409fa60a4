from __future__ import annotations

from pathlib import Path

import dns.message
import pytest
from hypothesis import given

from hsdns.wire.edns import DO, Edns, read_options, with_options
from tests import strategies
from tests.support.tables import columns

COOKIE = (10, b"12345678")


def with_header(opt: bytes) -> dns.message.Message:
    return dns.message.from_wire(bytes(11) + b"\1" + opt)


@pytest.mark.parametrize(
    ("edns", "echoed"),
    [
        (Edns(1232), b""),
        (Edns(1232, options=((3, b""),)), b"\0\3\0\0"),
        (Edns(1232, options=(COOKIE, (8, b"\0\1\0\0"), (100, b"x"))), b"\0\12\0\x0812345678"),
        (Edns(1232, options=((12, b"\0"), (9, b""), (11, b""), (12, b""))), b"\0\x0c\0\1\0\0\x09\0\0\0\x0b\0\0\0\x0c\0\0"),
        (Edns(1232, options=((4, b""), (65001, b"abc"))), b""),
        (Edns(1232, options=((4, b""), (3, b"")), echoed=frozenset({4})), b"\0\4\0\0"),
    ],
    ids=["none", "empty-nsid", "cookie-but-not-subnet", "order-and-repetition", "unknown", "others-echoed"],
)  # fmt: skip
def test_echoed_options(edns: Edns, echoed: bytes) -> None:
    assert edns.echoed_options() == echoed
    assert edns.to_wire().endswith(len(echoed).to_bytes(2, "big") + echoed)


@pytest.mark.parametrize(("size", "lowered"), [(0, 0), (599, 599), (600, 600), (601, 600)])
def test_lowered(size: int, lowered: int) -> None:
    edns = Edns(size, do=True, options=(COOKIE,))
    assert edns.lowered(600) == Edns(lowered, do=True, options=(COOKIE,))


@given(strategies.edns)
def test_to_wire_is_read_by_dnspython(edns: Edns) -> None:
    found = with_header(edns.to_wire())
    assert (found.edns, found.payload, found.ednsflags & 0xFFFF) == (
        0,
        edns.payload_size,
        DO if edns.do else 0,
    )
    kept = [(code, data) for code, data in edns.options if code in (3, 9, 10, 11, 12)]
    assert [(int(option.otype), option.to_wire()) for option in found.options] == kept


def test_extended_rcode_and_size_of_a_refusal() -> None:
    found = with_header(Edns(0).to_wire(extended_rcode=1))
    assert (int(found.rcode()), found.payload) == (16, 0)
    assert with_header(Edns(4096).to_wire(payload_size=1232)).payload == 1232


def test_the_version_of_the_client_is_not_sent_back() -> None:
    assert with_header(Edns(1232, version=7).to_wire()).edns == 0


@pytest.mark.parametrize(
    ("octets", "expected"), columns(Path(__file__).with_name("answers.txt"), "EDNS options")
)
def test_read_options(octets: str, expected: str) -> None:
    """An empty option at the end counts: NSID, EXPIRE and keepalive are asked for that way."""
    wire = bytes.fromhex(octets)
    found = read_options(b"??" + wire + b"!!", 2, 2 + len(wire))
    shown = "refused" if found is None else " ".join(f"{code}:{data.hex()}" for code, data in found)
    assert (shown or "none") == expected


def test_more_options_follow_the_others() -> None:
    opt = Edns(1232, options=(COOKIE,)).to_wire()
    found = with_header(with_options(opt, b"\0\x0f\0\3\0\0x"))
    assert [int(each.otype) for each in found.options] == [10, 15]
