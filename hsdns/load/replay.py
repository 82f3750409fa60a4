"""Queries of a recording or a capture, with their times and clients.

Path: cli/settings.py -> here -> questions.Recorded, which the process that sends takes.
Rule 1: the first query is due at the begin, the others at their original distance from it, divided by the speed.
        Queries that are out of order in a capture are sorted.
Rule 2: question, flags (RD, CD, AD), payload size and DO of a query are kept.  EDNS options, such as cookies, belong to
        the client and are omitted; a recording has only the question.
Rule 3: everything that is omitted is counted.  A damaged file is refused or, on request, used up to the damage.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from hsdns.load.captures import cdns, dnstap
from hsdns.load.captures.file import BEGIN_LEN, Damaged, decompressing, open_file
from hsdns.load.captures.packets import CUT, OTHER, find_datagram, is_capture, read_capture
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, Recorded
from hsdns.load.schedule import SECOND, Schedule, Stage
from hsdns.recording.entry import RecordedQuery
from hsdns.recording.reader import BadRecording, Recording
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.dnstap import BEGIN
from hsdns.wire.iana import Opcode, RRClass, type_from_text
from hsdns.wire.message import AD, CD, RD
from hsdns.wire.name import Name

RECORDED: Final = "recorded"  # the arrival, and the group of the questions
MOST_QUERIES: Final = 50_000_000  # queries
DNS_PORT: Final = 53
_NOT_DNS: Final = "no queries"
_OTHER: Final = "other messages"
_NOTHING: Final = (b"", 0, 0, 0, False)
_CUT: Final = "without the message"

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


def read_replay(path: str, *, speed: float, port: int | None, longest: float | None) -> Replay:
    """Read a recording or a capture; raise LoadError, except for an incomplete file, or OSError.

    `port` is the destination port of queries in a capture of packets, None for that of DNS; what is due after
    `longest` seconds is omitted.
    """
    left_out: Counter[str] = Counter()
    ports: Counter[int] = Counter()
    problem = ""
    found: list[Asked] = []
    try:
        with decompressing():
            for asked in _queries(path, port, left_out, ports):
                found.append(asked)
                if len(found) > MOST_QUERIES:
                    raise LoadError(
                        f"{path} has more than {MOST_QUERIES} queries; cut it into parts"
                    )
    except Damaged as damage:
        problem = f"{path} {damage}"
    found.sort(key=lambda each: each[0])
    if not found:
        raise LoadError(_nothing(path, problem, port or DNS_PORT, ports))
    first = found[0][0]
    numbers: dict[Question, int] = {}
    clients: dict[object, int] = {}
    times, order, asking = array("q"), array("I"), array("I")
    per_second: Counter[int] = Counter()
    for at, client, question in found:
        due = round((at - first) / speed)
        if longest is not None and due >= longest * SECOND:
            left_out["after --time"] += 1
            continue
        times.append(due)
        order.append(numbers.setdefault(question, len(numbers)))
        asking.append(clients.setdefault(client, len(clients)))
        per_second[due // SECOND] += 1
    seconds = times[-1] / SECOND
    return Replay(
        path,
        speed,
        list(numbers),
        Recorded(times.tobytes(), order.tobytes(), asking.tobytes()),
        len(times),
        max(seconds, 0.001),
        max(per_second.values()),
        len(clients),
        dict(sorted(left_out.items())),
        problem,
    )


def _queries(
    path: str, port: int | None, left_out: Counter[str], ports: Counter[int]
) -> Iterator[Asked]:
    """The queries of a file, whose form its first octets tell."""
    with open_file(path) as file:
        begin = file.read(BEGIN_LEN)
    if is_capture(begin):
        yield from _of_packets(path, port or DNS_PORT, left_out, ports)
    elif port is not None:
        raise LoadError(f"--replay-port is for captures of packets, and {path} is none; remove it")
    elif begin.startswith(BEGIN):
        yield from _of_messages(path, left_out)
    elif cdns.NAME in begin:
        yield from _of_blocks(path, left_out)
    else:
        yield from _of_recording(path, left_out)


def _of_recording(path: str, left_out: Counter[str]) -> Iterator[Asked]:
    """The queries of `hsdns record`."""
    try:
        recording = Recording.open(path)
    except BadRecording as error:
        raise LoadError(
            f"{error}; it is not a capture in pcap, pcapng, dnstap or C-DNS either"
        ) from None
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


def _of_packets(
    path: str, port: int, left_out: Counter[str], ports: Counter[int]
) -> Iterator[Asked]:
    """The queries over UDP to a port; `ports` counts possible queries to other ports."""
    with open_file(path) as file:
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


def _of_messages(path: str, left_out: Counter[str]) -> Iterator[Asked]:
    """The queries of dnstap."""
    with open_file(path) as file:
        for found in dnstap.read_dnstap(file):
            time, client, message = found or (0, b"", b"")
            if (question := _question(message)) is not None:
                yield time, client, question
            else:
                left_out[_OTHER if found is None else _NOT_DNS if message else _CUT] += 1


def _of_blocks(path: str, left_out: Counter[str]) -> Iterator[Asked]:
    """The queries of C-DNS."""
    with open_file(path) as file:
        for found in cdns.read_cdns(file):
            time, client, (wire, qtype, flags, size, do) = found or (0, b"", _NOTHING)
            try:
                name = Name.from_labels([*_labels(wire)])
            except (ValueError, IndexError):
                left_out[_NOT_DNS] += 1
            else:
                yield time, client, Question(name, qtype, RECORDED, flags, size, do)


def _labels(wire: bytes) -> Iterator[bytes]:
    """The labels of an uncompressed name; raise IndexError if it is cut."""
    at = 0
    while length := wire[at]:
        yield wire[at + 1 : at + 1 + length]
        at += length + 1


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
        told = f"{count} that may be queries to port {other}; --replay-port {other} takes these"
        return f"{found} to port {port}, but {told}"
    return found
