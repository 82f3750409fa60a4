"""What a reply says: the short way says the same as the decoder of all replies, and leaves to it what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import (
    AHEAD,
    AWAY,
    BEHIND,
    EARLY,
    RIGHT,
    STALE,
    TRUNCATED,
    UNDECIDED,
    UNKNOWN,
    WRONG,
    Answer,
    Verdict,
)
from hsdns.load.verify.verifier import Judged, Verifier, answer_of, read_answer
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv

NAME = Name.from_text("web.shop.svc.cluster.local.")
ONE = Question(NAME, RRType.A, "service")
TC = 0x200


class Said:
    """What is true: address 1, from 10.0 on address 2, and from 20.0 on address 3."""

    def __init__(self) -> None:
        self.since: list[float] = [float("-inf"), 10.0, 20.0]
        self.base = 0
        self.away = False
        self.known = True
        self.late: tuple[float, float] | None = None
        self.outage: tuple[float, float] | None = None
        self.learnt: list[Question] = []
        self.held = 0.0  # seconds after which the servers are shown a change

    def is_away(self) -> bool:
        return self.away

    def was_away(self, begin: float, end: float) -> bool:
        return self.outage is not None and self.outage[0] < end and self.outage[1] > begin

    def was_late(self, begin: float, end: float) -> bool:
        return self.late is not None and self.late[0] < end and self.late[1] > begin

    def shown(self, time: float) -> float:
        return time + self.held

    def states(self, question: int) -> tuple[Sequence[float], int] | None:
        return (self.since, self.base) if self.known else None

    def expected(self, question: int, state: int) -> Answer | None:
        return Answer(0, frozenset({(RRType.A, bytes((10, 0, 0, state + 1)))}))

    def add_question(self, question: Question) -> int:
        self.learnt.append(question)
        return len(self.learnt)


def reply(*last: int, flags: int = 0x8400) -> bytes:
    """A reply without its ID, with these addresses."""
    question = ONE.section
    records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + bytes((10, 0, 0, each)) for each in last)
    header = flags.to_bytes(2, "big") + b"\0\1" + len(last).to_bytes(2, "big") + b"\0\0\0\0"
    return header + question + records


def verifier(said: Said) -> Verifier:
    return Verifier(said, [ONE], slack=0.1)


@pytest.mark.parametrize(
    ("address", "asked", "verdict"),
    [
        (2, 15.0, Verdict(RIGHT)),
        (1, 10.0625, Verdict(UNDECIDED, 0.0625, BEHIND)),
        (1, 15.0, Verdict(STALE, 5.0)),
        (3, 19.9375, Verdict(UNDECIDED, 0.0625, AHEAD)),
        (9, 15.0, Verdict(WRONG)),
    ],
)
def test_verdicts(address: int, asked: float, verdict: Verdict) -> None:
    found = verifier(Said())
    found.remember(1, 0, reply(address))
    at_once = found.judge(0, 0x8400, 1, asked - 1, asked, asked)
    if verdict.word == RIGHT:
        assert at_once == Judged(0, asked - 1, asked, verdict)
        assert not found.waits
    else:
        assert at_once is None
        assert list(found.settled(asked + 0.9)) == []
        assert list(found.settled(asked + 1.0)) == [Judged(0, asked - 1, asked, verdict)]
    assert list(found.settled(float("inf"))) == []


def test_the_watch_that_sees_a_change_after_the_answer() -> None:
    said = Said()
    said.since = said.since[:2]
    found = verifier(said)
    found.remember(1, 0, reply(3))
    assert found.judge(0, 0x8400, 1, 19.9, 19.9, 19.95) is None
    said.since.append(20.0)
    (judged,) = found.settled(21.0)
    assert (judged.verdict.word, judged.verdict.reason) == (UNDECIDED, AHEAD)


def test_while_the_watch_is_away_nothing_is_stale() -> None:
    said = Said()
    said.away = True
    found = verifier(said)
    found.remember(1, 0, reply(1))
    assert found.judge(0, 0x8400, 1, 15.0, 15.0, 15.0) is None
    assert [each.verdict for each in found.settled(16.0)] == [Verdict(UNDECIDED, 5.0, AWAY)]


@pytest.mark.parametrize("outage", [(12.0, 15.5), (15.5, 15.6), (1.0, 99.0)])
@pytest.mark.parametrize("address", [1, 3, 9])
def test_an_outage_that_is_over_is_not_forgotten(address: int, outage: tuple[float, float]) -> None:
    """The server may have seen a change before the generator, whose watch came back later."""
    said = Said()
    said.outage = outage
    found = verifier(said)
    found.remember(1, 0, reply(address))
    assert found.judge(0, 0x8400, 1, 15.0, 15.0, 15.0) is None
    (judged,) = found.settled(21.0)
    assert (judged.verdict.word, judged.verdict.reason) == (UNDECIDED, AWAY)


@pytest.mark.parametrize(
    ("address", "late", "verdict"),
    [
        (3, (15.5, 19.0), Verdict(UNDECIDED, 5.0, AWAY)),
        (3, (10.0, 12.0), Verdict(EARLY, 5.0)),
        (3, (21.0, 22.0), Verdict(EARLY, 5.0)),
        (9, (15.5, 15.6), Verdict(UNDECIDED, 0.0, AWAY)),
        (9, (17.0, 18.0), Verdict(WRONG)),
        (1, (10.0, 30.0), Verdict(STALE, 5.0)),
    ],
)
def test_a_watch_that_was_late_itself(
    address: int, late: tuple[float, float], verdict: Verdict
) -> None:
    said = Said()
    said.late = late
    found = verifier(said)
    found.remember(1, 0, reply(address))
    assert found.judge(0, 0x8400, 1, 15.0, 15.0, 15.0) is None
    assert [each.verdict for each in found.settled(100.0)] == [verdict]


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        (0.0, Verdict(STALE, 0.5)),
        (0.375, Verdict(STALE, 0.5)),
        (0.4375, Verdict(UNDECIDED, 0.0625, BEHIND)),
        (0.75, Verdict(UNDECIDED, 0.0, BEHIND)),
    ],
)
def test_a_change_that_the_generator_has_held_back(held: float, verdict: Verdict) -> None:
    said = Said()
    said.held = held
    found = verifier(said)
    found.remember(1, 0, reply(1))
    assert found.judge(0, 0x8400, 1, 10.5, 10.5, 10.5) is None
    assert [each.verdict for each in found.settled(100.0)] == [verdict]


def test_what_is_truncated_or_not_known_is_undecided() -> None:
    said = Said()
    found = verifier(said)
    found.remember(1, 0, reply(1))
    cut = found.judge(0, 0x8400 | TC, 1, 1.0, 1.0, 1.0)
    assert cut == Judged(0, 1.0, 1.0, Verdict(UNDECIDED, reason=TRUNCATED))
    said.known = False
    unknown = found.judge(0, 0x8400, 1, 1.0, 1.0, 1.0)
    assert unknown == Judged(0, 1.0, 1.0, Verdict(UNDECIDED, reason=UNKNOWN))


@pytest.mark.parametrize("rcode", [1, 2, 5])
def test_errors_are_no_answers(rcode: int) -> None:
    found = verifier(Said())
    assert found.judge(0, 0x8400 | rcode, 1, 1.0, 1.0, 1.0) is None
    assert not found.waits


def test_a_reply_to_another_question_is_none() -> None:
    found = verifier(Said())
    found.remember(1, 0, reply(1).replace(b"\3web", b"\3wxb"))
    assert found.judge(0, 0x8400, 1, 1.0, 1.0, 1.0) is None
    assert not found.waits


def test_numbers_that_are_used_again() -> None:
    found = verifier(Said())
    found.remember(1, 0, reply(1))
    assert found.judge(0, 0x8400, 1, 1.0, 1.0, 1.0) is not None
    found.forget([1])
    found.remember(1, 0, reply(2))
    assert found.judge(0, 0x8400, 1, 15.0, 15.0, 15.0) is not None


def test_a_question_that_is_learnt() -> None:
    said = Said()
    verifier = Verifier(said, [])
    verifier.add_question(Question(NAME, RRType.A, "service"))
    verifier.remember(1, 0, reply(1))
    judged = verifier.judge(0, 0x8400, 1, 4.0, 4.0, 5.0)
    assert judged == Judged(0, 4.0, 4.0, Verdict(RIGHT))
    assert [each.name for each in said.learnt] == [NAME]


def test_servers_that_learn_different_questions() -> None:
    """Their numbers are each server's own; the truth has all of them."""

    class Numbered(Said):
        def states(self, question: int) -> tuple[Sequence[float], int] | None:
            asked.append(question)
            return super().states(question)

    said = Numbered()
    asked: list[int] = []
    servers = [verifier(said), verifier(said)]
    for each in servers:
        each.add_question(Question(NAME, RRType.A, "search"))
        each.remember(1, 1, reply(2))
        assert each.judge(1, 0x8400, 1, 15.0, 15.0, 15.0) is not None
    assert asked == [1, 2]


class Alternating(Said):
    """Addresses 1, 2 and 3 in turn, so that an answer says many states."""

    def states(self, question: int) -> tuple[Sequence[float], int] | None:
        return self.since[self.base :], self.base

    def expected(self, question: int, state: int) -> Answer | None:
        return super().expected(question, state % 3)


TENTHS = st.integers(0, 60)
ASKED = st.tuples(
    st.integers(0, 1),  # question
    st.integers(1, 6),  # reply: of addresses 1 to 4, an error and a truncated one
    TENTHS,
    st.integers(0, 12),  # until the reply
    st.sampled_from([0, 0, 0, 0, 1, 2]),  # whether there was one
)
STEPS = st.lists(
    st.lists(ASKED, max_size=8) | TENTHS | st.integers(-2, -1),  # answers, a change, or what is forgotten
    min_size=1,
    max_size=12,
)  # fmt: skip


@given(steps=STEPS)
def test_verdicts_do_not_depend_on_what_is_remembered(
    steps: list[list[tuple[int, ...]] | int],
) -> None:
    said = Alternating()
    replies = [
        reply(1),
        reply(2),
        reply(3),
        reply(4),
        reply(flags=0x8402),
        reply(1, flags=0x8400 | TC),
    ]
    remembering, plain = (Verifier(said, [ONE, ONE], slack=0.5) for _ in range(2))
    for each in (remembering, plain):
        for number, content in enumerate(replies, 1):
            each.remember(number, 0, content)
    for step in steps:
        if isinstance(step, int):
            if step >= 0:
                said.since.append(max(said.since[-1], step / 10))
            else:
                said.base = min(len(said.since) - 1, said.base - step)
            continue
        outcomes = []
        for question, number, sent, passed, fate in step:
            flags = int.from_bytes(replies[number - 1][:2], "big")
            received = ((sent + passed) * SECOND // 10, LOST, NOT_SENT)[fate]
            outcomes.append(
                (question, flags, number, sent * SECOND // 10, sent * SECOND // 10, received)
            )
        right, others = remembering.judge_all(outcomes)
        expected = [
            plain.judge(question, flags, number, planned / SECOND, sent / SECOND, received / SECOND)
            for question, flags, number, planned, sent, received in outcomes
            if received > LOST
        ]
        known = [each for each in expected if each is not None]
        assert [each / SECOND for each in right] == [
            each.planned for each in known if each.verdict.word == RIGHT
        ]
        assert others == [each for each in known if each.verdict.word != RIGHT]
    assert list(remembering.settled(float("inf"))) == list(plain.settled(float("inf")))


def test_a_reply_that_was_right_is_not_compared_again() -> None:
    compared = []

    class Counting(Said):
        def expected(self, question: int, state: int) -> Answer | None:
            compared.append(state)
            return super().expected(question, state)

    found = verifier(Counting())
    found.remember(1, 0, reply(2))
    times = [11 * SECOND, 12 * SECOND, 13 * SECOND]
    outcomes = [(0, 0x8400, 1, each, each, each + 1) for each in times]
    assert found.judge_all(outcomes) == (times, [])
    assert compared == [1]
    # Another state is true by then.
    assert found.judge_all([(0, 0x8400, 1, 25 * SECOND, 25 * SECOND, 25 * SECOND)]) == ([], [])
    assert found.waits


MIXED_CASE = Name.from_text("Web.shop.svc.cluster.local.")
TARGETS = [Name.from_text(each) for each in ("a.b.", "A-1.web.shop.svc.cluster.local.", ".")]
RECORDS = st.one_of(
    st.binary(min_size=4, max_size=4).map(lambda rdata: (RRType.A, rdata)),
    st.binary(min_size=16, max_size=16).map(lambda rdata: (RRType.AAAA, rdata)),
    st.sampled_from(TARGETS).map(lambda target: (RRType.PTR, target.wire)),
    st.sampled_from(TARGETS).map(lambda target: (RRType.CNAME, target.wire)),
    st.builds(
        lambda weight, target: (RRType.SRV, srv(0, weight, 80, target)),
        st.integers(0, 100),
        st.sampled_from(TARGETS),
    ),
    st.just((RRType.TXT, b"\1x")),
)


def content_of(reply: Reply, asked: Question) -> bytes:
    return encode(asked.query(), reply, 65_535)[2:]


def slowly(content: bytes, asked: Question) -> Answer | None:
    try:
        reply = decode_reply(b"\0\0" + content, asked.query())
    except BadReply:
        return None
    return answer_of(reply.rcode, reply.answer)


@given(
    found=st.lists(RECORDS, max_size=5),
    owner=st.sampled_from([MIXED_CASE, MIXED_CASE, MIXED_CASE, TARGETS[1]]),
    rcode=st.sampled_from([Rcode.NOERROR, Rcode.NXDOMAIN]),
    cut=st.none() | st.integers(0, 300),
    changed=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)),
)
def test_it_says_what_the_decoder_of_all_replies_says(
    found: list[tuple[int, bytes]],
    owner: Name,
    rcode: int,
    cut: int | None,
    changed: tuple[int, int] | None,
) -> None:
    asked = Question(MIXED_CASE, RRType.A, "service")
    answer = tuple(RR(owner, rrtype, 5, rdata) for rrtype, rdata in found)
    content = content_of(Reply(rcode=rcode, answer=answer), asked)
    assert read_answer(content, asked) == slowly(content, asked) == answer_of(rcode, answer)
    damaged = bytearray(content[:cut])
    if changed is not None and changed[0] < len(damaged):
        damaged[changed[0]] = changed[1]
    said = slowly(bytes(damaged), asked)
    if said is not None:  # else only what follows the answer section may be damaged
        assert read_answer(bytes(damaged), asked) == said


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda octets: octets[:9], id="shorter than a header"),
        pytest.param(lambda octets: b"\0" + octets[1:], id="a query"),
        pytest.param(lambda octets: octets[:-3], id="cut in its last record"),
        pytest.param(lambda octets: octets.replace(b"\3Web", b"\3wob"), id="another question"),
        pytest.param(lambda octets: octets[:-6] + b"\0\5" + octets[-4:], id="an address of 5"),
    ],
)
def test_what_is_no_reply(damage: Callable[[bytes], bytes]) -> None:
    asked = Question(MIXED_CASE, RRType.A, "service")
    reply = Reply(answer=(RR(MIXED_CASE, RRType.A, 5, b"\1\2\3\4"),))
    content = content_of(reply, asked)
    assert read_answer(content, asked) == Answer(0, frozenset({(RRType.A, b"\1\2\3\4")}))
    assert read_answer(damage(content), asked) is None


def test_in_any_case_and_with_any_weight() -> None:
    target, same = Name.from_text("A.B."), Name.from_text("a.b.")
    one = RR(same, RRType.SRV, 5, srv(1, 7, 80, target))
    other = RR(target, RRType.SRV, 30, srv(1, 100, 80, same))
    assert answer_of(0, [one]) == answer_of(0, [other])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(2, 7, 80, target))])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(1, 7, 81, target))])
