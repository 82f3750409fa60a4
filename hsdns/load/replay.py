"""Queries of a recording or a capture, with their times.

Path: cli/settings.py -> here -> questions.Recorded, which the process that sends takes.
Rule 1: the first query is due at the begin, the others at their original distance from it, divided by the speed.
        Queries that are out of order in a capture are sorted.
Rule 2: question, flags (RD, CD, AD), payload size and DO of a query are kept.  EDNS options, such as cookies, belong to
        the client and are omitted; a recording has only the question.
Rule 3: everything that is omitted is counted.  A damaged file is refused or, on request, used up to the damage.

Reads captures of packets: pcap and pcapng, as tcpdump and Wireshark write them:
Rule 1: nothing is guessed.  After the intact packets, damage raises Damaged with the number of the packet.
Rule 2: a file of any length is read as it is needed; lengths in it may be up to MOST_OCTETS.
Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

The UDP datagram in a captured packet:
Rule: it reads Ethernet with VLANs, Linux cooked (SLL, SLL2), loopback and raw IP, with IPv4 and IPv6.  For all else it
      returns why there is no datagram.
Source: https://www.tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 768.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import IO, Final, NamedTuple

from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, Recorded
from hsdns.load.schedule import SECOND, Schedule, Stage
from hsdns.recording.entry import RecordedQuery
from hsdns.recording.reader import BadRecording, Recording
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.iana import Opcode, RRClass, type_from_text
from hsdns.wire.message import AD, CD, RD
from hsdns.wire.name import Name

MOST_OCTETS: Final = 1 << 24  # octets of a packet or block
_SECOND: Final = 1_000_000_000  # nanoseconds
_MICRO: Final = 0xA1B2C3D4
_NANO: Final = 0xA1B23C4D
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_SECTION_ORDER: Final = 0x1A2B3C4D
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_END_OPTION, _RESOLUTION, _OFFSET = 0, 9, 14


class Captured(NamedTuple):
    """A packet: its number from 1, nanoseconds of the wall clock, the link type, and its octets.

    `is_whole` is False if the capture truncated it.
    """

    number: int
    time: int
    link: int
    octets: bytes
    is_whole: bool


class Damaged(Exception):
    """Where and why no more packets can be read, as the predicate of a sentence."""


class _Interface(NamedTuple):
    link: int
    units: int  # per second
    offset: int  # seconds


def is_capture(begin: bytes) -> bool:
    """Whether a file that begins with these octets, at least four, is a capture."""
    if begin[:4] == _SECTION:
        return True
    magics = {int.from_bytes(begin[:4], "little"), int.from_bytes(begin[:4], "big")}
    return not magics.isdisjoint((_MICRO, _NANO))


def read_capture(file: IO[bytes]) -> Iterator[Captured]:
    """The packets of a capture; raise Damaged, or OSError."""
    begin = file.read(4)
    yield from _pcapng(file) if begin == _SECTION else _pcap(file, begin)


def _pcap(file: IO[bytes], begin: bytes) -> Iterator[Captured]:
    order = "<" if int.from_bytes(begin, "little") in (_MICRO, _NANO) else ">"
    header = file.read(20)
    if len(header) < 20:
        raise Damaged("ends in the header of the file")
    # The high bits are the length of a frame check sequence.
    link = Struct(f"{order}HHIIII").unpack(header)[5] & 0x0FFFFFFF
    units = _SECOND if Struct(f"{order}I").pack(_NANO) == begin else 1_000_000
    head = Struct(f"{order}IIII")
    number = 0
    while octets := file.read(head.size):
        number += 1
        if len(octets) < head.size:
            raise Damaged(f"ends in packet {number}")
        seconds, parts, length, original = head.unpack(octets)
        if length > MOST_OCTETS:
            raise Damaged(f"is broken at packet {number}: that would have {length} octets")
        if parts >= units:
            raise Damaged(f"is broken at packet {number}: its time is no time")
        data = file.read(length)
        if len(data) < length:
            raise Damaged(f"ends in packet {number}")
        time = seconds * _SECOND + parts * (_SECOND // units)
        yield Captured(number, time, link, data, length >= original)


def _pcapng(file: IO[bytes]) -> Iterator[Captured]:
    """The packets after the first four octets of a file."""
    order, interfaces, number = "<", list[_Interface](), 0  # that of the last packet
    kind: bytes = _SECTION
    while kind:
        after = f"after packet {number}"
        length, read = file.read(4), 8
        if kind == _SECTION:
            magic, read = file.read(4), 12
            orders = [each for each in "<>" if Struct(f"{each}I").pack(_SECTION_ORDER) == magic]
            if not orders:
                raise Damaged(f"has a broken section header {after}")
            (order,), interfaces = orders, []
        word = Struct(f"{order}I")
        if len(length) < 4 or len(kind) < 4:
            raise Damaged(f"ends in a block {after}")
        (which,), (size,) = word.unpack(kind), word.unpack(length)
        if size % 4 or not read + 4 <= size <= MOST_OCTETS:
            raise Damaged(f"has a block of {size} octets {after}")
        body = file.read(size - read)
        if len(body) < size - read:
            raise Damaged(f"ends in a block {after}")
        if body[-4:] != length:
            raise Damaged(f"has a block with two lengths {after}")
        if which == _INTERFACE:
            if len(body) < 12:
                raise Damaged(f"has a broken description of an interface {after}")
            interfaces.append(_interface(order, body[:-4]))
        elif which in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            number += 1
            yield _packet(order, which, body[:-4], interfaces, number)
        kind = file.read(4)


def _interface(order: str, body: bytes) -> _Interface:
    link = Struct(f"{order}H").unpack_from(body)[0]
    units, offset, at = 1_000_000, 0, 8
    head = Struct(f"{order}HH")
    while at + 4 <= len(body):
        code, length = head.unpack_from(body, at)
        value = body[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)
        if code == _END_OPTION:
            break
        if code == _RESOLUTION and len(value) == 1:
            exponent = value[0] & 0x7F
            units = 1 << exponent if value[0] & 0x80 else 10**exponent
        elif code == _OFFSET and len(value) == 8:
            offset = Struct(f"{order}q").unpack(value)[0]
    return _Interface(link, units, offset)


def _packet(
    order: str, kind: int, body: bytes, interfaces: Sequence[_Interface], number: int
) -> Captured:
    at = f"is broken at packet {number}"
    if kind == _SIMPLE_PACKET:
        raise Damaged(f"{at}: it has no time")
    if len(body) < 20:
        raise Damaged(f"{at}: its block has {len(body)} octets")
    form = "IIIII" if kind == _PACKET else "HxxIIII"
    which, high, low, length, original = Struct(order + form).unpack_from(body)
    if which >= len(interfaces):
        raise Damaged(f"{at}: its interface {which} is not described")
    if length > len(body) - 20:
        raise Damaged(f"{at}: it would have {length} octets")
    link, units, offset = interfaces[which]
    time = ((high << 32 | low) * _SECOND) // units + offset * _SECOND
    return Captured(number, time, link, body[20 : 20 + length], length >= original)


# The places of an EtherType in packets of Ethernet and SLL.
_ETHER_TYPE_AT: Final = {1: 12, 113: 14}
_SLL2: Final = 276
# The length of what is before IP: of the link types NULL and LOOP, and of raw IP, with its old numbers, the newer one,
# and those of IPv4 only and IPv6 only.
_BEFORE_IP: Final = {0: 4, 108: 4, **dict.fromkeys((12, 14, 101, 228, 229), 0)}
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS: Final = (0x8100, 0x88A8, 0x9100)
_UDP, _TCP = 17, 6
_EXTENSIONS: Final = (0, 43, 60, 135)  # hop-by-hop, routing, destination options, mobility
_FRAGMENT: Final = 44

TCP: Final = "TCP"
FRAGMENTS: Final = "fragments"
CUT: Final = "cut by the capture"
OTHER: Final = "other packets"


class Datagram(NamedTuple):
    """A UDP datagram; addresses as octets."""

    source: bytes
    port: int  # of the destination
    octets: bytes


def find_datagram(link: int, octets: bytes) -> Datagram | str:
    """The datagram of a packet, or why there is none: TCP, FRAGMENTS, CUT or OTHER."""
    try:
        return _find(link, octets)
    except IndexError:
        return CUT


def _find(link: int, octets: bytes) -> Datagram | str:
    if link in _BEFORE_IP:
        return _ip(octets[_BEFORE_IP[link] :])
    if link == _SLL2:
        return _ip(octets[20:]) if _word(octets, 0) in (_IPV4, _IPV6) else OTHER
    at = _ETHER_TYPE_AT.get(link)
    if at is None:
        return OTHER
    while _word(octets, at) in _VLANS:
        at += 4
    return _ip(octets[at + 2 :]) if _word(octets, at) in (_IPV4, _IPV6) else OTHER


def _ip(octets: bytes) -> Datagram | str:
    version = octets[0] >> 4
    if version == 4:
        protocol, start = octets[9], (octets[0] & 15) * 4
        if _word(octets, 6) & 0x3FFF:  # more fragments, or an offset
            return FRAGMENTS
        return _transport(octets, protocol, start, octets[12:16])
    if version != 6:
        return OTHER
    protocol, start = octets[6], 40
    while protocol in _EXTENSIONS:
        protocol, start = octets[start], start + (octets[start + 1] + 1) * 8
    if protocol == _FRAGMENT:
        return FRAGMENTS
    return _transport(octets, protocol, start, octets[8:24])


def _transport(octets: bytes, protocol: int, start: int, source: bytes) -> Datagram | str:
    if protocol == _TCP:
        return TCP
    if protocol != _UDP:
        return OTHER
    length = _word(octets, start + 4)
    found = octets[start + 8 : start + length]
    if length < 8 or len(found) < length - 8:
        return CUT
    return Datagram(source, _word(octets, start + 2), found)


def _word(octets: bytes, at: int) -> int:
    return octets[at] << 8 | octets[at + 1]


RECORDED: Final = "recorded"  # the arrival, and the group of the questions
MOST_QUERIES: Final = 50_000_000  # queries
_NOT_DNS: Final = "no queries"

# The time (nanoseconds), the client, and the question.
Asked = tuple[int, object, Question]


class Replay(NamedTuple):
    """Queries in order; `fastest` is the maximum due in one second, `left_out` has counts by reason.

    `problem` is why the file is incomplete, or "".
    """

    path: str
    speed: float
    questions: list[Question]
    recorded: Recorded
    queries: int
    seconds: float
    fastest: int
    clients: int
    left_out: dict[str, int]
    problem: str

    @property
    def what(self) -> str:
        """A description for the report."""
        told = f"{self.queries} queries of {self.path}, {len(self.questions)} different ones"
        left_out = ", ".join(f"{why} {count}" for why, count in self.left_out.items())
        told += f", from {self.clients} clients, at speed {self.speed:g}"
        return f"{told}; left out: {left_out}" if left_out else told

    def schedule(self, seed: int) -> Schedule:
        """A schedule with its length and number of queries; the times themselves are those of the recording."""
        rate = self.queries / self.seconds
        return Schedule((Stage(self.seconds, rate, rate),), RECORDED, 1, seed)


def read_replay(path: str, *, speed: float, port: int, longest: float | None) -> Replay:
    """Read a recording or a capture; raise LoadError, except for an incomplete file, or OSError.

    `port` is the destination port of queries in a capture; what is due after `longest` seconds is omitted.
    """
    left_out: Counter[str] = Counter()
    ports: Counter[int] = Counter()
    problem = ""
    found: list[Asked] = []
    with open(path, "rb") as file:
        begin = file.read(4)
    try:
        of_capture = is_capture(begin)
        for asked in (
            _of_capture(path, port, left_out, ports)
            if of_capture
            else _of_recording(path, left_out)
        ):
            found.append(asked)
            if len(found) > MOST_QUERIES:
                raise LoadError(f"{path} has more than {MOST_QUERIES} queries; cut it into parts")
    except Damaged as damage:
        problem = f"{path} {damage}"
    found.sort(key=lambda each: each[0])
    if not found:
        raise LoadError(_nothing(path, problem, port, ports))
    first = found[0][0]
    numbers: dict[Question, int] = {}
    times, order = array("q"), array("I")
    clients: set[object] = set()
    per_second: Counter[int] = Counter()
    for at, client, question in found:
        due = round((at - first) / speed)
        if longest is not None and due >= longest * SECOND:
            left_out["after -time"] += 1
            continue
        times.append(due)
        order.append(numbers.setdefault(question, len(numbers)))
        clients.add(client)
        per_second[due // SECOND] += 1
    seconds = times[-1] / SECOND
    return Replay(
        path,
        speed,
        list(numbers),
        Recorded(times.tobytes(), order.tobytes()),
        len(times),
        max(seconds, 0.001),
        max(per_second.values()),
        len(clients),
        dict(sorted(left_out.items())),
        problem,
    )


def _of_recording(path: str, left_out: Counter[str]) -> Iterator[Asked]:
    """The queries of `hsdns record`."""
    try:
        recording = Recording.open(path)
    except BadRecording as error:
        raise LoadError(f"{error}; it is no capture in pcap or pcapng either") from None
    with recording:
        for entry in recording:
            if not isinstance(entry, RecordedQuery):
                continue
            try:
                name, qtype = Name.from_text(entry.name), type_from_text(entry.type)
            except ValueError:
                left_out[_NOT_DNS] += 1
                continue
            client = entry.client.rpartition(":")[0]
            yield round(entry.at * SECOND), client, Question(name, qtype, RECORDED)
        if recording.problem:
            raise Damaged(recording.problem.removeprefix(f"{path} "))


def _of_capture(
    path: str, port: int, left_out: Counter[str], ports: Counter[int]
) -> Iterator[Asked]:
    """The queries over UDP to a port; `ports` counts possible queries to other ports."""
    with open(path, "rb") as file:
        for _, time, link, octets, is_whole in read_capture(file):
            datagram = find_datagram(link, octets)
            if isinstance(datagram, str):
                left_out[CUT if not is_whole and datagram != OTHER else datagram] += 1
                continue
            source, to, message = datagram
            question = _question(message)
            if to != port:
                if question is not None:
                    ports[to] += 1
                left_out[OTHER] += 1
            elif question is None:
                left_out[_NOT_DNS] += 1
            else:
                yield time, source, question


def _question(message: bytes) -> Question | None:
    """The question of a query; None if it cannot be sent again."""
    try:
        query = decode(message)
    except BadQuery:
        return None
    if query.opcode != Opcode.QUERY or query.qclass != RRClass.IN or query.whole:
        return None
    edns = query.edns
    return Question(
        query.qname,
        query.qtype,
        RECORDED,
        query.flags & (RD | CD | AD),
        edns.payload_size if edns is not None else 0,
        edns is not None and edns.do,
    )


def _nothing(path: str, problem: str, port: int, ports: Counter[int]) -> str:
    found = f"{problem}, and there is no query before" if problem else f"there is no query in {path}"  # fmt: skip
    if ports:
        other, count = ports.most_common(1)[0]
        told = f"{count} that may be queries to port {other}; -replay-port {other} takes these"
        return f"{found} to port {port}, but {told}"
    return found
