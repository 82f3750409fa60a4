"""One pass of an audit: queries all servers at the same time, and judges their answers as they arrive.

Path: audit/cli.py -> here -> load/send/process.py for each server -> report.py.
Rule 1: a query is sent once over UDP; if the answer is truncated once more over TCP, and if it is lost once more, as a
        resolver does.  If a server has lost many queries, or IN_A_ROW of the repeated ones, the others are not
        repeated.
Rule 2: at any rate, no more queries wait for a server than it can accept: an audit checks answers, not load.
Rule 3: an interrupted pass keeps its results; the report omits questions that were not sent.

The answers of one server: a verdict for each question, its latency and its TTL:
Rule 1: every question ends with one result; without a reply it is LOST, with an rcode other than NOERROR and NXDOMAIN
        it is an ERROR.
Rule 2: a truncated answer is not judged here: run.py sends the query again over TCP, and passes the reply.  A lost
        query is sent once more too.
Rule 3: the TTL of an answer is that of its first record: those of an RRset are equal (RFC 2181 section 5.2).

The questions of an audit: every RRset of a cluster's zones, and some names that must not exist:
Rule 1: each RRset is queried once, by its owner and type.  SOA, NS and the address of the name server are omitted: they
        describe the server itself.
Rule 2: the RRset is the right answer at that moment, so it is not computed again when an answer is judged.
Rule 3: absent names are derived from existing ones, with a seed: a Service with another name, and an endpoint that a
        headless Service does not have.

The DNS servers behind a Service of the cluster: one for each ready endpoint:
Rule: the port is the slice's UDP port named dns, or else its first UDP port: the port of the pods, which need not be
      53.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from random import Random
from typing import Final, NamedTuple

from hsdns.cluster.address import is_reverse
from hsdns.cluster.answer_set import AnswerSet
from hsdns.cluster.schema import SVC
from hsdns.cluster.value import HEADLESS, Port, ServiceValue
from hsdns.load.outcome import END, FORGET, OUTCOMES, REPLY, unpack_numbers, unpack_outcomes
from hsdns.load.questions import ABSENT, Question
from hsdns.load.run import AHEAD, Sending
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import RIGHT, TRUNCATED, UNDECIDED, Answer, Verdict, answer_of
from hsdns.load.verify.verifier import JUDGED, Judged, Verifier
from hsdns.wire.decode import HEADER_LEN, BadReply, decode_reply
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, TC
from hsdns.wire.name import MAX_LABEL_LEN, Name

LOST: Final = "lost"
ERROR: Final = "error"
_POINTER: Final = b"\xc0\x0c"  # refers to the name of the question
_TTL_AT: Final = 6  # octets from the begin of a record whose owner is a pointer


class Result(NamedTuple):
    """The result of a question.

    `word` is one of verify/judge.py or of this file; `age` and `latency` in seconds, the latency None without a reply;
    `rcode` -1 without one; `ttl` None without records.
    """

    word: str
    age: float = 0.0
    latency: float | None = None
    rcode: int = -1
    ttl: int | None = None
    reason: str = ""


class Answers:
    """The results of one server, in the order of the questions.  `edns` is the payload size in the queries."""

    def __init__(self, questions: Sequence[Question], verifier: Verifier, edns: int) -> None:
        self.results: list[Result] = [Result(LOST)] * len(questions)
        self.asked = 0  # questions with a reply, or with none in time, so far
        self._questions = questions
        self._verifier = verifier
        self._edns = edns
        self._ends = [HEADER_LEN + len(each.name.wire) + 4 for each in questions]
        self._replies: dict[int, bytes] = {}
        self._content: dict[int, bytes] = {}  # contents of replies that are not right, by question
        self._next_reply = -1

    @property
    def truncated(self) -> list[int]:
        """The questions whose answers were truncated."""
        return [
            question for question, result in enumerate(self.results) if result.reason == TRUNCATED
        ]

    @property
    def lost(self) -> list[int]:
        """The questions without a reply."""
        return [at for at, result in enumerate(self.results) if result.word == LOST]

    @property
    def waits(self) -> bool:
        """Whether answers wait to be judged."""
        return self._verifier.waits

    def take(self, kind: bytes, content: bytes) -> None:
        """Process a message of the sending process."""
        if kind == REPLY:
            number, question = (int.from_bytes(content[at : at + 4], "big") for at in (0, 4))
            self._replies[number] = content[8:]
            self._verifier.remember(number, question, content[8:])
        elif kind == FORGET:
            numbers = unpack_numbers(content)
            for number in numbers:
                self._replies.pop(number, None)
            self._verifier.forget(numbers)
        elif kind == OUTCOMES:
            for outcome in unpack_outcomes(content):
                self._answered(*outcome)

    def take_again(self, question: int, octets: bytes, asked: float, received: float) -> None:
        """Process the answer to a repeated query; `octets` include its ID, times are in monotonic seconds."""
        number, self._next_reply = self._next_reply, self._next_reply - 1
        content = octets[2:]
        self._replies[number] = content
        self._verifier.remember(number, question, content)
        self.asked -= 1
        flags = int.from_bytes(octets[2:4], "big")
        times = (round(asked * SECOND), round(asked * SECOND), round(received * SECOND))
        self._answered(question, flags, number, *times)

    def settle(self, now: float) -> None:
        """Judge answers that have waited long enough."""
        for judged in self._verifier.settled(now):
            self._judged(judged)

    def records(self, question: int) -> Sequence[RR]:
        """The records of an answer that is not right; empty if there are none."""
        content = self._content.get(question)
        if content is None:
            return ()
        try:
            query = self._questions[question].query(self._edns)
            return decode_reply(b"\0\0" + content, query).answer
        except BadReply:
            return ()

    def _answered(
        self, question: int, flags: int, reply: int, planned: int, sent: int, received: int
    ) -> None:
        self.asked += 1
        if received <= 0:
            return
        rcode, content = flags & 15, self._replies[reply]
        latency = (received - sent) / SECOND  # the schedule waits for the server (run.py)
        if rcode not in JUDGED:
            self.results[question] = Result(ERROR, 0.0, latency, rcode)
            return
        ttl = None if flags & TC else self._ttl(question, content)
        times = planned / SECOND, sent / SECOND, received / SECOND
        judged = self._verifier.judge(question, flags, reply, *times)
        word, age, reason = (UNDECIDED, 0.0, "") if judged is None else judged.verdict
        self.results[question] = Result(word, age, latency, rcode, ttl, reason)
        if word != RIGHT:
            self._content[question] = content

    def _judged(self, judged: Judged) -> None:
        verdict: Verdict = judged.verdict
        before = self.results[judged.question]
        self.results[judged.question] = before._replace(
            word=verdict.word, age=verdict.age, reason=verdict.reason
        )
        if verdict.word == RIGHT:
            self._content.pop(judged.question, None)

    def _ttl(self, question: int, content: bytes) -> int | None:
        if not int.from_bytes(content[4:6], "big"):
            return None
        at = self._ends[question] - 2  # `content` has no ID
        if content[at : at + 2] == _POINTER:
            return int.from_bytes(content[at + _TTL_AT : at + _TTL_AT + 4], "big")
        try:
            query = self._questions[question].query(self._edns)
            return decode_reply(b"\0\0" + content, query).answer[0].ttl
        except (BadReply, IndexError):
            return None


TURN: Final = 0.01  # seconds to wait for one server before the others are checked
TICK: Final = 0.1  # seconds between two checks of answers that wait to be judged


MOST_AGAIN: Final = 1000  # lost queries of a server that are repeated, one by one
IN_A_ROW: Final = 3
# Repeats a query, over TCP if True; returns the reply with the times of query and arrival, or None.
AskAgain = Callable[[int, bool], tuple[bytes, float, float] | None]


class Asking(NamedTuple):
    """A server and its queries."""

    sending: Sending
    answers: Answers
    ask_again: AskAgain


def carry_out(
    servers: Sequence[Asking],
    show: Callable[[int], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> bool:
    """Query all servers; return whether the pass is complete.

    `show` takes the number of finished questions of all servers; `clock` gives monotonic seconds.
    """
    is_whole = True
    for each in servers:
        each.sending.prepare()
    begin = round(clock() * SECOND) + AHEAD
    for each in servers:
        each.sending.start(begin)
    open_ = list(servers)
    while open_:
        try:
            for each in list(open_):
                for kind, content in each.sending.messages(TURN):
                    if kind == END and each in open_:
                        open_.remove(each)
                    each.answers.take(kind, content)
                each.answers.settle(clock())
            show(sum(each.answers.asked for each in servers))
        except KeyboardInterrupt:
            is_whole = False
            for each in servers:
                each.sending.stop()
    if is_whole:
        try:
            _again(servers)
        except KeyboardInterrupt:
            is_whole = False
    while any(each.answers.waits for each in servers):
        try:
            sleep(TICK)
            now = clock()
        except KeyboardInterrupt:
            is_whole, now = False, float("inf")
        for each in servers:
            each.answers.settle(now)
    return is_whole


def _again(servers: Sequence[Asking]) -> None:
    for each in servers:
        lost = each.answers.lost
        questions = [(question, True) for question in each.answers.truncated]
        if len(lost) <= MOST_AGAIN:
            questions += [(question, False) for question in lost]
        failures = 0
        for question, is_truncated in questions:
            found = each.ask_again(question, is_truncated)
            if found is not None:
                each.answers.take_again(question, *found)
            failures = failures + 1 if found is None else 0
            if failures == IN_A_ROW:
                break


def replicas(value: ServiceValue) -> list[tuple[str, int]]:
    """Address and port of each ready endpoint, sorted; empty if there are none."""
    found = set()
    for part in value.slices:
        port = _port(part.ports)
        if port is not None and part.width:
            found |= {(ip_address(address), port) for address in part.separate}
    ordered = sorted(found, key=lambda each: (each[0].version, int(each[0]), each[1]))
    return [(str(address), port) for address, port in ordered]


def _port(ports: Sequence[Port]) -> int | None:
    over_udp = [each for each in ports if each.protocol == b"udp" and each.number > 0]
    named = [each for each in over_udp if each.name == b"dns"]
    return (named or over_udp)[0].number if over_udp else None


SUFFIX: Final = b"-absent"
ENDPOINT: Final = b"absent"
_ASKED: Final = (RRType.A, RRType.AAAA, RRType.SRV, RRType.PTR, RRType.CNAME)


class AuditQuestions(NamedTuple):
    """Questions, and the right answers to the first of them, which are about names that exist."""

    all: list[Question]
    known: list[Answer]


def audit_questions(
    answer_sets: Sequence[AnswerSet], absent: int, random: Random
) -> AuditQuestions:
    """Questions about all names of kubernetes blocks, and about `absent` names that do not exist."""
    found: dict[tuple[bytes, int], tuple[Question, Answer]] = {}
    for answer_set in answer_sets:
        for question, right in _present(answer_set):
            found.setdefault((question.name.lower, question.qtype), (question, right))
    beside: list[Question] = []
    for answer_set in answer_sets:
        beside += _absent(answer_set, absent, random)
    questions = [question for question, _ in found.values()]
    return AuditQuestions([*questions, *beside[:absent]], [right for _, right in found.values()])


def _present(answer_set: AnswerSet) -> Iterator[tuple[Question, Answer]]:
    for zone in answer_set.zones:
        server = Name.from_labels((b"ns", b"dns", *zone.labels))
        for rrset in answer_set.of_zone(zone):
            owner, qtype = rrset[0].owner, rrset[0].rrtype
            if qtype in _ASKED and owner != server:
                question = Question(owner, qtype, _group(owner, qtype, zone))
                yield question, answer_of(Rcode.NOERROR, rrset)


def _group(owner: Name, qtype: int, zone: Name) -> str:
    if qtype == RRType.PTR and is_reverse(owner):
        return "reverse"
    if qtype == RRType.SRV:
        return "srv"
    labels = owner.below(zone)
    if not labels or labels[-1] != SVC:
        return "pod"
    return "service" if len(labels) == 3 else "endpoint"


def _absent(answer_set: AnswerSet, number: int, random: Random) -> list[Question]:
    found: list[Question] = []
    for zone in answer_set.forward_zones:
        exposed = answer_set.exposed(zone)
        keys = sorted(exposed)
        for namespace, label in random.sample(keys, min(number, len(keys))):
            below = (namespace, SVC, *zone.labels)
            if exposed[namespace, label].kind == HEADLESS and random.random() < 0.5:
                labels = (ENDPOINT, label, *below)
                if any(ENDPOINT in part.own_labels for part in exposed[namespace, label].slices):
                    continue
            else:
                other = label[: MAX_LABEL_LEN - len(SUFFIX)] + SUFFIX
                if (namespace, other) in exposed:
                    continue
                labels = (other, *below)
            found.append(Question(Name.from_labels(labels), RRType.A, ABSENT))
    return found
