from __future__ import annotations

import gzip
import lzma
from array import array
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.load.captures.file import Damaged, zstd
from hsdns.load.captures.packets import (
    CUT,
    FRAGMENTS,
    OTHER,
    TCP,
    Captured,
    Datagram,
    find_datagram,
    is_capture,
    read_capture,
)
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question
from hsdns.load.replay import Replay, read_replay
from hsdns.recording.entry import End, Header, RecordedQuery, to_line
from hsdns.wire.iana import RRType
from hsdns.wire.message import AD, CD, RD
from hsdns.wire.name import Name
from tests.load.captures import (
    SECOND,
    STOP,
    block,
    cbor,
    cdns,
    enhanced,
    ethernet,
    interface,
    ipv4,
    ipv6,
    packet,
    pcap,
    pcapng,
    section,
    tapped,
    udp,
)
from tests.load.captures import START as START_FRAMES

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
def test_datagrams_of_any_octets(link: int, octets: bytes) -> None:
    assert isinstance(find_datagram(link, octets), Datagram | str)


MS = SECOND // 1000
START = 1_700_000_000 * SECOND
WEB = Question(Name.from_text("web.test."), RRType.A, "recorded", RD, 0)


def query(question: Question, query_id: int = 7) -> bytes:
    return query_id.to_bytes(2, "big") + question.octets()


def replay(
    path: Path,
    octets: bytes,
    *,
    speed: float = 1.0,
    port: int | None = None,
    longest: float | None = None,
) -> Replay:
    path.write_bytes(octets)
    return read_replay(str(path), speed=speed, port=port, longest=longest)


def times(found: Replay) -> list[int]:
    return list(array("q", found.recorded.times))


def order(found: Replay) -> list[int]:
    return list(array("I", found.recorded.order))


def recording(*queries: tuple[float, str, str, str], end: bool = True) -> bytes:
    lines = to_line(Header(began="2026-01-01T00:00:00Z"))
    for at, client, name, rrtype in queries:
        lines += to_line(RecordedQuery(at, "", client, "udp", name, rrtype))
    return lines + (to_line(End(9.0, "", "over")) if end else b"")


QUESTIONS = st.builds(
    Question,
    st.sampled_from(["web.test.", "b.test.", "."]).map(Name.from_text),
    st.sampled_from([RRType.A, RRType.AAAA, 65_280]),
    st.just("recorded"),
    st.sampled_from([0, RD, RD | CD, RD | AD, CD]),
    st.sampled_from([0, 512, 1232]),
).flatmap(lambda each: st.booleans().map(lambda do: each._replace(do=do and bool(each.own_edns))))


def written(asked: Sequence[tuple[int, Question, int]], form: str) -> bytes:
    """A file with questions, at their milliseconds, of their clients."""
    if form == "dnstap":
        frames = (tapped(START + at * MS, client, query(each)) for at, each, client in asked)
        return START_FRAMES + b"".join(frames) + STOP
    if form.startswith("cdns"):
        stored = [
            (START + at * MS, client, each.name.wire, {0: each.qtype, 1: 1}, signature(each))
            for at, each, client in asked
        ]
        return cbor(cdns(stored), is_endless=form != "cdns")
    packets = [(START + at * MS, packet(query(each), client=client)) for at, each, client in asked]
    return (pcapng if form == "pcapng" else pcap)(packets)


def signature(found: Question) -> dict[int, int]:
    """The signature of a question in C-DNS: its flags, and whether it has an OPT record of what size."""
    flags = (
        (found.flags & CD > 0)
        | (found.flags & AD > 0) << 1
        | (found.flags & RD > 0) << 4
        | found.do << 7
    )
    size = found.own_edns or 0
    return {4: 1 | (4 if size else 0), 6: flags, 14: size}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(
        st.tuples(st.integers(0, 5000), QUESTIONS, st.integers(1, 4)), min_size=1, max_size=6
    ),
    form=st.sampled_from(["pcap", "pcapng", "dnstap", "cdns", "cdns without lengths"]),
    compress=st.sampled_from([bytes, gzip.compress, zstd.compress, lzma.compress]),
    speed=st.sampled_from([0.5, 1.0, 4.0]),
)
def test_a_capture_is_asked_again(
    tmp_path: Path, asked: list[tuple[int, Question, int]], form: str, compress: Callable[[bytes], bytes], speed: float
) -> None:  # fmt: skip
    found = replay(tmp_path / "c", compress(written(asked, form)), speed=speed)
    in_order = sorted(asked, key=lambda each: each[0])
    first = in_order[0][0]
    assert times(found) == [round((at - first) * MS / speed) for at, _, _ in in_order]
    assert [found.questions[number] for number in order(found)] == [each for _, each, _ in in_order]
    assert len(set(found.questions)) == len(found.questions)
    clients = [client for _, _, client in in_order]
    numbers = {each: at for at, each in enumerate(dict.fromkeys(clients))}
    assert list(array("I", found.recorded.clients)) == [numbers[each] for each in clients]
    assert found.clients == len(numbers)
    assert (found.queries, found.left_out, found.problem) == (len(asked), {}, "")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    web = query(WEB)
    reply = web[:2] + b"\x81\x80" + web[4:]
    update = web[:2] + b"\x28\0" + web[4:]
    chaos = web[:-1] + b"\3"
    packets = [
        *map(packet, (web, reply, update, chaos, b"no DNS")), packet(web, port=5353), ethernet(ipv4(udp(web), protocol=6)),
        ethernet(ipv4(udp(web), fragment=9)), packet(web)[:-4], ethernet(b"", 0x0806), packet(web),
    ]  # fmt: skip
    found = replay(tmp_path / "c", pcap([(at * SECOND, each) for at, each in enumerate(packets)]))
    assert (times(found), order(found), found.questions) == ([0, 10 * SECOND], [0, 0], [WEB])
    assert found.left_out == {"TCP": 1, "cut by the capture": 1, "fragments": 1, "no queries": 4, "other packets": 2}  # fmt: skip
    cut = replay(tmp_path / "c", pcap([(0, packet(web)), (0, packet(web))], cut=70))
    assert (cut.queries, cut.left_out) == (2, {})


def test_options_and_case_belong_to_who_asked(tmp_path: Path) -> None:
    cookie = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x0c\0\x0a\0\x08abcdefgh"
    web = query(WEB)
    message = web[:10] + b"\0\1" + b"\3WeB\4TeSt\0\0\1\0\1" + cookie
    found = replay(tmp_path / "c", pcap([(0, packet(message))]))
    assert found.questions == [WEB._replace(own_edns=1232, do=True)]


def test_the_fastest_second_and_the_end(tmp_path: Path) -> None:
    octets = pcap([(at * 400 * MS, packet(query(WEB))) for at in range(6)])
    whole = replay(tmp_path / "c", octets)
    assert (whole.queries, whole.seconds, whole.fastest) == (6, 2.0, 3)
    found = replay(tmp_path / "c", octets, longest=1.0, speed=0.5)
    assert (times(found), found.left_out) == ([0, 800 * MS], {"after --time": 4})


def test_a_recording(tmp_path: Path) -> None:
    octets = recording(
        (5.0, "10.0.0.1:4000", "web.test.", "A"),
        (5.5, "10.0.0.1:4001", "web.test.", "TYPE65280"),
        (6.0, "[fd00::1]:53", "web.test.", "A"),
        (6.0, "[fd00::1]:53", "a..b", "A"),
    )
    found = replay(tmp_path / "r", octets, speed=2.0)
    assert (times(found), order(found)) == ([0, SECOND // 4, SECOND // 2], [0, 1, 0])
    assert found.questions == [
        WEB._replace(own_edns=None),
        WEB._replace(own_edns=None, qtype=65_280),
    ]
    assert (found.clients, found.left_out, found.problem) == (2, {"no queries": 1}, "")


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [
        (b"", "{path} is empty, so it is not a recording; it is not a capture in pcap, pcapng, dnstap or C-DNS either"),
        (b"web.test A", "{path} was cut in the middle of an entry, at octet 10, before its first whole line; it is not a capture in pcap, pcapng, dnstap or C-DNS either"),
        (b"web.test A\n", "{path} is not a recording of hsdns record; it is not a capture in pcap, pcapng, dnstap or C-DNS either"),
        (pcap([]), "there is no query in {path}"),
        (pcap([])[:20], "{path} ends in the header of the file, and there is no query before"),
        (pcap([(0, packet(query(WEB), port=1053))] * 2),
         "there is no query in {path} to port 53, but 2 that may be queries to port 1053; --replay-port 1053 takes these"),
        (recording(), "there is no query in {path}"),
    ],
)  # fmt: skip
def test_nothing_to_ask(tmp_path: Path, octets: bytes, sentence: str) -> None:
    path = tmp_path / "c"
    with pytest.raises(LoadError) as error:
        replay(path, octets)
    assert str(error.value) == sentence.format(path=path)


TAPPED = [
    START_FRAMES,
    *(tapped(START, 1, *each) for each in ((query(WEB),), (query(WEB), 6), (b"",))),
    STOP,
]
TAP = b"".join(TAPPED)
STORED = (START, 1, WEB.name.wire, {0: 1, 1: 1}, signature(WEB))
CDNS = cbor(
    cdns([STORED, (*STORED[:3], {0: 1, 1: 3}, {4: 1}), (*STORED[:2], b"\3we", *STORED[3:])])
)


@pytest.mark.parametrize(
    ("octets", "left_out"),
    [(TAP, {"other messages": 1, "without the message": 1}), (CDNS, {"no queries": 2})],
)
def test_messages_that_are_left_out(tmp_path: Path, octets: bytes, left_out: dict[str, int]) -> None:  # fmt: skip
    found = replay(tmp_path / "c", octets)
    assert (found.questions, found.left_out, found.problem) == ([WEB], left_out, "")


@pytest.mark.parametrize("octets", [TAP, CDNS, gzip.compress(TAP), zstd.compress(CDNS)])
def test_other_files_that_were_cut(tmp_path: Path, octets: bytes) -> None:
    """Whatever is left is asked, and the end is told; a file of dnstap may end after any frame."""
    whole = set(accumulate(map(len, TAPPED))) if octets == TAP else ()
    for end in range(8, len(octets) - len(STOP)):
        try:
            assert bool(replay(tmp_path / "c", octets[:end]).problem) is (end not in whole)
        except LoadError as error:
            assert (", and there is no query before" in str(error)) is (end not in whole)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    octets=st.binary(max_size=60),
    begin=st.sampled_from([START_FRAMES, CDNS[:12], CDNS[:30], CDNS[:60]]),
)
def test_any_octets_of_other_files(tmp_path: Path, octets: bytes, begin: bytes) -> None:
    try:
        replay(tmp_path / "c", begin + octets)
    except LoadError as error:
        assert str(tmp_path) in str(error)


def test_a_port_is_one_of_packets(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="--replay-port is for captures of packets, and "):
        replay(tmp_path / "c", TAP, port=53)
    version = cbor(["C-DNS", {0: 2, 1: 0, 3: []}, []])
    with pytest.raises(LoadError, match="is C-DNS of version 2, and only 1 is read"):
        replay(tmp_path / "c", version)
