from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.replay import CUT, FRAGMENTS, OTHER, TCP, Datagram, find_datagram
from tests.load.captures import ethernet, ipv4, ipv6, udp

FOUND = Datagram(bytes((10, 0, 0, 1)), 53, b"payload")
FOUND6 = Datagram(bytes(15) + b"\1", 53, b"payload")
UDP = udp(b"payload")
V4, V6 = ipv4(UDP), ipv6(UDP)
OPTIONS = bytes((17, 0)) + bytes(6)


@pytest.mark.parametrize(
    ("link", "octets", "found"),
    [
        (1, ethernet(V4), FOUND),
        (1, ethernet(V4) + b"padding", FOUND),
        (1, ethernet(V6, 0x86DD), FOUND6),
        (1, ethernet(V4, vlans=[0x8100]), FOUND),
        (1, ethernet(V6, 0x86DD, vlans=[0x88A8, 0x8100]), FOUND6),
        (101, V4, FOUND),
        (101, V6, FOUND6),
        (12, V4, FOUND),
        (228, V4, FOUND),
        (229, V6, FOUND6),
        (0, b"\2\0\0\0" + V4, FOUND),
        (108, b"\0\0\0\x18" + V6, FOUND6),
        (113, bytes(14) + b"\x08\0" + V4, FOUND),
        (276, b"\x86\xdd" + bytes(18) + V6, FOUND6),
        (101, ipv6(OPTIONS + UDP, protocol=60), FOUND6),
        (101, b"\x46" + V4[1:20] + bytes(4) + UDP, FOUND),
        (101, ipv4(UDP, protocol=6), TCP),
        (101, ipv6(UDP, protocol=6), TCP),
        (101, ipv4(UDP, protocol=1), OTHER),
        (101, ipv4(UDP, fragment=0x2000), FRAGMENTS),
        (101, ipv4(UDP, fragment=3), FRAGMENTS),
        (101, ipv4(UDP, fragment=0x4000), FOUND),  # do not fragment
        (101, ipv6(bytes(8) + UDP, protocol=44), FRAGMENTS),
        (101, b"\x50" + bytes(40), OTHER),
        (1, ethernet(b"", 0x0806), OTHER),
        (276, b"\x08\6" + bytes(30), OTHER),
        (147, V4, OTHER),
        (101, V4[:-1], CUT),
        (101, V4[:24], CUT),
        (101, b"", CUT),
        (101, ipv4(pack("!HHHH", 1, 53, 7, 0)), CUT),
    ],
)
def test_packets(link: int, octets: bytes, found: Datagram | str) -> None:
    assert find_datagram(link, octets) == found


@given(link=st.sampled_from([0, 1, 101, 113, 276, 9]), octets=st.binary(max_size=80))
def test_any_octets(link: int, octets: bytes) -> None:
    assert isinstance(find_datagram(link, octets), Datagram | str)
