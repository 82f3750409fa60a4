from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.replay import Captured, Damaged, is_capture, read_capture
from tests.load.captures import SECOND, block, enhanced, interface, pcap, pcapng, section

TIME = st.integers(0, (1 << 32) * SECOND - 1)
PACKETS = st.lists(st.tuples(TIME, st.binary(max_size=40)), max_size=5)
ORDER = st.sampled_from("<>")


def read(octets: bytes) -> list[Captured]:
    return list(read_capture(BytesIO(octets)))


@given(packets=PACKETS, order=ORDER, nano=st.booleans(), link=st.sampled_from([1, 101, 276]))
def test_pcap(packets: list[tuple[int, bytes]], order: str, nano: bool, link: int) -> None:
    octets = pcap(packets, link=link, order=order, nano=nano)
    assert is_capture(octets[:4])
    unit = 1 if nano else 1000
    assert read(octets) == [
        Captured(number, time // unit * unit, link, each, True)
        for number, (time, each) in enumerate(packets, 1)
    ]


@given(packets=PACKETS, order=ORDER, link=st.sampled_from([1, 113]))
def test_pcapng(packets: list[tuple[int, bytes]], order: str, link: int) -> None:
    octets = pcapng(packets, link=link, order=order)
    assert is_capture(octets[:4])
    assert read(octets) == [
        Captured(number, time, link, each, True) for number, (time, each) in enumerate(packets, 1)
    ]


@given(packets=PACKETS.filter(bool), order=ORDER, ng=st.booleans(), data=st.data())
def test_a_file_that_was_cut(
    packets: list[tuple[int, bytes]], order: str, ng: bool, data: st.DataObject
) -> None:
    """What was whole is given, and then Damaged says where; but a cut between two packets shows nothing."""
    octets = pcapng(packets, order=order) if ng else pcap(packets, order=order, nano=True)
    found: list[Captured] = []
    cut = data.draw(st.integers(4, len(octets) - 1))
    try:
        for each in read_capture(BytesIO(octets[:cut])):
            found.append(each)  # noqa: PERF402 - what comes before the error counts
    except Damaged:
        pass
    assert found == read(octets)[: len(found)]
    assert len(found) < len(packets)


@given(
    octets=st.binary(max_size=80), begin=st.sampled_from([section(), pcap([]), b"\n\r\r\n", b""])
)
def test_any_octets(octets: bytes, begin: bytes) -> None:
    """Packets, or Damaged, and nothing else."""
    if is_capture((begin + octets)[:4]) and len(begin + octets) >= 4:
        try:
            read(begin + octets)
        except Damaged as damage:
            assert str(damage)


def test_sections_interfaces_and_blocks_of_other_kinds() -> None:
    octets = (
        section()
        + block("<", 5, b"statistics")
        + interface(link=1, resolution=6)
        + interface(link=101, resolution=0x80 | 10, offset=5)
        + enhanced("<", 3 * SECOND, b"a", which=0, units=1_000_000)
        + enhanced("<", 3 * SECOND, b"bc", which=1, units=1024)
        + section(">")
        + interface(">", link=113)
        + enhanced(">", 7, b"d")
    )
    assert read(octets) == [
        Captured(1, 3 * SECOND, 1, b"a", True),
        Captured(2, 8 * SECOND, 101, b"bc", True),
        Captured(3, 7, 113, b"d", True),
    ]


def test_a_packet_that_the_capture_has_cut() -> None:
    assert read(pcap([(0, b"abcdef")], cut=4)) == [Captured(1, 0, 1, b"abcd", False)]


GOOD = pcap([(0, b"abcd")], nano=True)


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [
        (GOOD[:20], "ends in the header of the file"),
        (GOOD[:-1], "ends in packet 1"),
        (GOOD + b"\0", "ends in packet 2"),
        (GOOD + b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0", "is broken at packet 2: that would have 4294967295 octets"),
        (GOOD + b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0", "is broken at packet 2: its time is no time"),
        (section()[:-1], "ends in a block after packet 0"),
        (section()[:8], "has a broken section header after packet 0"),
        (section() + b"\1\0\0\0", "ends in a block after packet 0"),
        (section() + b"\1\0", "ends in a block after packet 0"),
        (section() + b"\1\0\0\0\7\0\0\0", "has a block of 7 octets after packet 0"),
        (section()[:-1] + b"\1", "has a block with two lengths after packet 0"),
        (section() + block("<", 1, b""), "has a broken description of an interface after packet 0"),
        (section() + enhanced("<", 0, b"a"), "is broken at packet 1: its interface 0 is not described"),
        (section() + interface() + block("<", 6, b"abcd"), "is broken at packet 1: its block has 4 octets"),
        (section() + interface() + block("<", 6, bytes(12) + b"\xff\0\0\0" + bytes(4)), "is broken at packet 1: it would have 255 octets"),
        (section() + interface() + block("<", 3, b"\1\0\0\0a"), "is broken at packet 1: it has no time"),
    ],
)  # fmt: skip
def test_what_is_broken(octets: bytes, sentence: str) -> None:
    with pytest.raises(Damaged) as error:
        read(octets)
    assert str(error.value) == sentence


def test_an_old_packet_block() -> None:
    body = b"\0\0" + b"\0\0" + b"\0\0\0\0" + b"\5\0\0\0" + b"\1\0\0\0" + b"\1\0\0\0" + b"x"
    assert read(section() + interface() + block("<", 2, body)) == [Captured(1, 5, 1, b"x", True)]


def test_what_is_no_capture() -> None:
    assert not is_capture(b"abcd")
    assert not is_capture(b"")
