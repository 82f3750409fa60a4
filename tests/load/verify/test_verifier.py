"""Verdicts, of which verdicts.txt has a table, and what was right at which time, over a synthetic cluster of four Services."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hsdns.cluster.objects import Endpoint, EndpointSlice, Object, Service
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify import truth as module
from hsdns.load.verify.judge import (
    AHEAD,
    BEHIND,
    EARLY,
    RIGHT,
    STALE,
    UNDECIDED,
    WRONG,
    Answer,
    Verdict,
    answer_of,
    judge,
)
from hsdns.load.verify.truth import MOST, States, Timeline, Truth
from hsdns.load.verify.verifier import Judged, Verifier
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape, SyntheticCluster
from hsdns.wire.iana import Rcode, RRType, type_from_text
from hsdns.wire.message import RR, TC
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv
from tests.load.clusters import ENDPOINTS, SERVICES, put, remove, with_block
from tests.support.tables import lines, paragraphs

NAME = Name.from_text("web.shop.svc.cluster.local.")
ONE = Question(NAME, RRType.A, "service")


class Said(Truth):
    """What is true: address 1, from 10.0 on address 2, and from 20.0 on address 3."""

    def __init__(self) -> None:
        self.since: list[float] = [float("-inf"), 10.0, 20.0]
        self.base = 0
        self.away = False
        self.known = True
        self.late: tuple[float, ...] | None = None
        self.outage: tuple[float, ...] | None = None
        self.learnt: list[Question] = []
        self.leads = False
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


SOA = b"\0\0\6\0\1\0\0\0\5\0\x16" + bytes(22)


def reply(*last: int, flags: int = 0x8500) -> bytes:
    """A reply without its ID, with these addresses, or a SOA record."""
    records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + bytes((10, 0, 0, each)) for each in last)
    counts = bytes((0, 1, 0, len(last), 0, not last, 0, 0))
    return flags.to_bytes(2, "big") + counts + ONE.section + (records or SOA)


def verifier(said: Said) -> Verifier:
    return Verifier(said, [ONE], slack=0.1)


class Letters(Said):
    """The addresses ab, then bc, then cd, and what else the words of a row say."""

    def __init__(self, words: dict[str, str]) -> None:
        super().__init__()
        self.words = words
        self.away, self.known, self.leads = (
            "away" in words,
            "unknown" not in words,
            "leads" in words,
        )
        self.held, self.base = float(words.get("held", 0)), int(words.get("forgotten", 0))
        self.since = self.since[self.base :]
        self.outage, self.late = (
            tuple(map(float, words[each].split("-"))) if each in words else None
            for each in ("outage", "late")
        )

    def expected(self, question: int, state: int) -> Answer | None:
        if "absent" in self.words:
            return Answer(Rcode.NXDOMAIN)
        return None if "undetermined" in self.words else addresses(("ab", "bc", "cd")[state])


def addresses(letters: str, rcode: int = 0) -> Answer:
    return Answer(rcode, frozenset((RRType.A, bytes((10, 0, 0, ord(each)))) for each in letters))


@pytest.mark.parametrize("row", lines(Path(__file__).with_name("verdicts.txt")))
def test_verdict(row: str) -> None:
    text, expected = row.split(" => ")
    asked, received, letters, *more = text.split()
    words = {name: value for name, _, value in (each.partition("=") for each in more)}
    found, flags = verifier(Letters(words)), 0x8500 | int(words.get("rcode", 0)) | TC * ("truncated" in words)  # fmt: skip
    content = reply(*map(ord, letters.strip("-")), flags=flags)
    found.remember(1, 0, content.replace(b"web", b"wxb") if "other-question" in words else content)
    due = words.get("due", asked)
    times = [round(float(each) * SECOND) for each in (due, asked, received)]
    right, judged = found.judge_all([(0, flags, 1, times[0], times[1], times[2])])
    if found.waits:
        assert (right, judged, list(found.settled(float(received) + 0.9))) == ([], [], [])
        judged += found.settled(float(received) + 1.0)
    assert not found.waits
    told = ["right" for _ in right]
    for question, *both, (word, age, reason) in judged:
        assert (question, both) == (0, [float(due), float(asked)])
        told.append(" ".join(filter(None, (word, f"{age:g}" * bool(age), reason))))
    assert told == ([] if expected == "none" else [expected])


def test_numbers_that_are_used_again() -> None:
    found = verifier(Said())
    for number, at in ((1, 1.0), (2, 15.0)):
        found.remember(1, 0, reply(number))
        assert found.judge(0, 0x8500, 1, at, at, at) == Judged(0, at, at, Verdict(RIGHT))
        found.forget([1])


def test_questions_that_are_learnt() -> None:
    """Their numbers are each server's own; the truth has all of them."""

    class Numbered(Said):
        def states(self, question: int) -> tuple[Sequence[float], int] | None:
            asked.append(question)
            return super().states(question)

    said = Numbered()
    asked: list[int] = []
    for each in (verifier(said), verifier(said)):
        each.add_question(Question(NAME, RRType.A, "search"))
        each.remember(1, 1, reply(2))
        assert each.judge(1, 0x8500, 1, 15.0, 15.0, 15.0) == Judged(1, 15.0, 15.0, Verdict(RIGHT))
    assert (asked, [each.name for each in said.learnt]) == ([1, 2], [NAME, NAME])


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
    replies = [*map(reply, range(1, 5)), reply(flags=0x8502), reply(1, flags=0x8500 | TC)]
    remembering, plain = (Verifier(said, [ONE, ONE], slack=0.5) for _ in range(2))
    for each in (remembering, plain):
        for number, content in enumerate(replies, 1):
            each.remember(number, 0, content)
    for step in steps:
        if isinstance(step, int) and step >= 0:
            said.since.append(max(said.since[-1], step / 10))
        elif isinstance(step, int):
            said.base = min(len(said.since) - 1, said.base - step)
        else:
            outcomes, known = [], []
            for question, number, sent, passed, fate in step:
                flags, at = int.from_bytes(replies[number - 1][:2], "big"), sent * SECOND // 10
                received = ((sent + passed) * SECOND // 10, LOST, NOT_SENT)[fate]
                outcomes.append((question, flags, number, at, at, received))
                if received > LOST:
                    times = at / SECOND, at / SECOND, received / SECOND
                    known.append(plain.judge(question, flags, number, *times))
            right, others = remembering.judge_all(outcomes)
            judged = [each for each in known if each is not None]
            assert others == [each for each in judged if each.verdict.word != RIGHT]
            expected = [each.planned for each in judged if each.verdict.word == RIGHT]
            assert [each / SECOND for each in right] == expected
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
    outcomes = [(0, 0x8500, 1, each, each, each + 1) for each in times]
    assert found.judge_all(outcomes) == (times, [])
    assert compared == [1]
    # Another state is true by then.
    assert found.judge_all([(0, 0x8500, 1, 25 * SECOND, 25 * SECOND, 25 * SECOND)]) == ([], [])
    assert found.waits


def test_in_any_case_and_with_any_weight() -> None:
    target, same = Name.from_text("A.B."), Name.from_text("a.b.")
    one = RR(same, RRType.SRV, 5, srv(1, 7, 80, target))
    other = RR(target, RRType.SRV, 30, srv(1, 100, 80, same))
    assert answer_of(0, [one]) == answer_of(0, [other])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(2, 7, 80, target))])
    assert answer_of(0, [one]) != answer_of(0, [RR(same, RRType.SRV, 5, srv(1, 7, 81, target))])


@given(
    gaps=st.lists(st.floats(0.001, 3.0), max_size=12),
    shown=st.integers(0, 12),
    asked=st.floats(-5.0, 40.0),
    took=st.floats(0.0, 1.0),
    slack=st.sampled_from([0.0, 0.01, 0.1, 1.0]),
)
def test_any_sequence_of_states(
    gaps: list[float], shown: int, asked: float, took: float, slack: float
) -> None:
    """Each state is of its own, so an answer says exactly one of them."""
    since = [float("-inf")]
    for gap in gaps:
        since.append((0.0 if since[-1] < 0 else since[-1]) + gap)
    shown = min(shown, len(gaps))
    received = asked + took
    states = [addresses(chr(97 + number)) for number in range(len(since))]
    found = judge(since, states.__getitem__, asked, received, states[shown], slack)
    end = since[shown + 1] if shown < len(gaps) else float("inf")
    begin = since[shown]
    if begin <= received and end > asked:
        assert found == Verdict(RIGHT)
    elif begin > received:
        early = begin - received
        assert found.age == early
        assert (found.word, found.reason) == (
            (UNDECIDED, AHEAD) if begin <= received + slack else (EARLY, "")
        )
    else:
        age = asked - end
        assert found.age == age
        assert (found.word, found.reason) == ((UNDECIDED, BEHIND) if age <= slack else (STALE, ""))
    never = judge(since, states.__getitem__, asked, received, addresses("z"), slack)
    assert never.word == WRONG


# --- the truth: svc-1 and svc-3 are headless ---

ZONE = "ns-0.svc.cluster.local."
TYPES = {each: type_from_text(each) for each in ("A", "AAAA", "PTR", "SRV", "CNAME")}
SCENES = paragraphs(Path(__file__).with_name("truth.txt"))


def objects() -> dict[str, Object]:
    cluster = SyntheticCluster(Shape(SERVICES, ENDPOINTS, seed=1))
    return {each.metadata.name: each for each in cluster.objects()}


OBJECTS = objects()
SLICE = OBJECTS["svc-1-v4-0"]
assert isinstance(SLICE, EndpointSlice)
assert SLICE.endpoints is not None
ADDRESSES = [(each.addresses or [""])[0] for each in SLICE.endpoints]
NEW = "10.99.0.1"


def moved(version: str = "900", address: str = NEW) -> EndpointSlice:
    """The slice of svc-1, with another first address."""
    assert isinstance(SLICE, EndpointSlice)
    assert SLICE.endpoints is not None
    first, *rest = SLICE.endpoints
    return structs.replace(
        SLICE,
        metadata=structs.replace(SLICE.metadata, resource_version=version),
        endpoints=[structs.replace(first, addresses=[address]), *rest],
    )


def ask(name: str, qtype: int = RRType.A) -> Question:
    return Question(Name.from_text(f"{name.rstrip('.')}."), qtype, "x")


def a(*addresses: str) -> Answer:
    return Answer(0, frozenset((RRType.A, ip_address(each).packed) for each in addresses))


def history(truth: Truth, question: int) -> list[tuple[float, Answer | None]]:
    states = truth.states(question)
    assert states is not None
    since, base = states
    return [(time, truth.expected(question, base + at)) for at, time in enumerate(since)]


def text_of(found: Answer | None) -> str:
    """The rcode, and the addresses or names in the records; the weight of SRV records is none."""
    if found is None:
        return "unknown"
    words = []
    for rrtype, rdata in sorted(found.records):
        if rrtype in (RRType.A, RRType.AAAA):
            words.append(str(ip_address(rdata)))
        else:
            assert rrtype != RRType.SRV or rdata[:4] == b"\0\0\x1f\x90"
            words.append(Name(rdata[4 if rrtype == RRType.SRV else 0 :]).to_text())
    return " ".join(words) or {0: "no data", 3: "no such name"}[found.rcode]


EXTERNAL = {"type": "ExternalName", "external_name": "example.com", "cluster_ip": None, "cluster_ips": None}  # fmt: skip


def step(block: Kubernetes, action: str, name: str, address: str = "") -> None:
    """Change the cluster as a line of the table says."""
    service = OBJECTS["svc-0"]
    assert isinstance(service, Service)
    if action == "move":
        put(block, moved(address=address))
    elif action == "names":
        metadata = structs.replace(SLICE.metadata, name=f"{name}-names")
        put(block, EndpointSlice(metadata, "FQDN", [Endpoint([address])]))
    elif action == "remove":
        remove(block, service)
    else:
        more: dict[str, Any] = EXTERNAL if action == "external" else {}
        metadata = structs.replace(service.metadata, name=name, resource_version=f"{action}-1")
        put(block, Service(metadata, structs.replace(service.spec, **more)))


def states_of(scene: str) -> str:
    """A scene of truth.txt with the states of its questions."""
    title, *lines = scene.split("\n")
    asked = [
        each.partition(" => ")[0]
        for each in lines
        if each.split()[1:2] in [[type_] for type_ in TYPES]
    ]
    steps = [
        each.split()
        for each in lines
        if each[0].isdigit() and each.partition(" => ")[0] not in asked
    ]

    async def test(block: Kubernetes) -> list[str]:
        times, is_later = iter((0.0, *(float(at) for at, *_ in steps))), "later" in lines
        questions = [ask(name, TYPES[rrtype]) for name, rrtype in map(str.split, asked)]
        truth = Truth(block, [] if is_later else questions, lambda: next(times), grows=is_later)
        for _, *words in steps:
            step(block, *words)
        if is_later:
            assert [truth.add_question(each) for each in questions * 2] == [*range(len(asked))] * 2
        assert (list(truth.changes), truth.is_away()) == ([float(at) for at, *_ in steps], False)
        found = [" ".join(each) for each in steps] + ["later"] * is_later
        for number, text in enumerate(asked):
            states = [] if truth.states(number) is None else history(truth, number)
            told = ", ".join(
                text_of(each) if at < 0 else f"from {at:g} on {text_of(each)}"
                for at, each in states
            )
            found.append(f"{text} => {told or 'not judged'}")
        return found

    return "\n".join([title, *with_block(test)])


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.partition("\n")[0])
def test_states(scene: str, caplog: pytest.LogCaptureFixture) -> None:
    assert states_of(scene) == scene
    assert not caplog.messages


def test_the_states_of_all_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more than four, those of svc-1 that had ended before the newest four are forgotten; svc-3 never changed."""
    monkeypatch.setattr(module, "MOST_STATES", 4)
    questions = [ask(f"svc-1.{ZONE}"), ask(f"svc-3.{ZONE}")]

    async def test(block: Kubernetes) -> None:
        times = iter(range(10))
        truth = Truth(block, questions, lambda: float(next(times)))
        for number in range(1, 6):
            put(block, moved(f"90{number}", f"10.9.9.{number}"))
        assert history(truth, 0) == [
            (float(number), a(f"10.9.9.{number}", ADDRESSES[1])) for number in (2, 3, 4, 5)
        ]
        since, base = truth.states(0) or ([], 0)
        assert (list(since), base) == ([2.0, 3.0, 4.0, 5.0], 2)
        assert len(history(truth, 1)) == 1

    with_block(test)


@pytest.mark.parametrize("leads", [True, False])
def test_when_the_watch_was_late_or_away(leads: bool) -> None:
    """A change that is noted in a turn which takes long is written to the servers after that turn, by who leads."""

    async def test(block: Kubernetes) -> None:
        times = iter((1.0, 1.02, 1.5, 1.9, 1.92, 1.94, 1.96))
        truth = Truth(block, [], lambda: next(times), leads=leads)
        for lost in ("", "", "", "", "2026-11-23 06:00:00", "2026-11-23 06:00:01"):
            block.store.lost = lost
            truth.beat()
        late = [(0.0, 1.02), (0.0, 1.03), (1.2, 1.3), (1.89, 2.0), (1.9, 9.0)]
        assert [truth.was_late(*each) for each in late] == [False, True, True, True, False]
        away = [(0.0, 1.92), (0.0, 1.93), (1.95, 2.0), (1.96, 9.0)]
        assert [truth.was_away(*each) for each in away] == [False, True, True, False]
        asked = [1.0, 1.02, 1.2, 1.6, 1.9, 5.0]
        shown = [1.9, 1.9, 1.9, 1.9, 1.9, 5.0] if leads else asked
        assert ([truth.shown(each) for each in asked], truth.is_away()) == (shown, True)

    with_block(test)


def test_changes_are_told_and_questions_found_by_service() -> None:
    async def test(block: Kubernetes) -> None:
        told: list[tuple[object, ...]] = []
        questions = [
            ask(f"svc-1.{ZONE}", RRType.SRV),
            ask(f"svc-1.{ZONE}", RRType.A)._replace(group="headless"),
        ]
        truth = Truth(block, questions, lambda: 5.0)
        truth.follow = lambda *change: told.append(change)
        assert truth.by_service() == {(b"ns-0", b"svc-1"): [1, 0]}
        put(block, moved())
        (found,) = told
        assert found[:3] == ((b"ns-0", b"svc-1"), 1, 5.0)
        assert truth.expected(1, 0) != truth.expected(1, 1)

    with_block(test)


def test_what_had_ended_is_forgotten_and_what_was_taken_stays() -> None:
    timeline = Timeline(0)
    for number in range(1, MOST):
        timeline.add(float(number), number)
    taken = timeline.states
    timeline.add(float(MOST), MOST)
    values = list(range(MOST // 2, MOST + 1))
    assert timeline.states == States(MOST // 2, [float(value) for value in values], values)
    assert (taken.base, taken.values) == (0, list(range(MOST)))
    assert [timeline.forget(each) for each in (0.5, MOST - 0.5, MOST + 9.0)] == [len(values), 2, 1]
    assert (timeline.latest, timeline.states.base) == (MOST, MOST)
