"""What was right at which time, over a synthetic cluster of four Services: svc-1 and svc-3 are headless."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address

import pytest
from msgspec import structs

from hsdns.cluster.objects import EndpointSlice, Object, ObjectMeta, Service
from hsdns.load.cluster.changes import Changes
from hsdns.load.questions import Question
from hsdns.load.report import OfServer, Run, make_report
from hsdns.load.results import Results
from hsdns.load.schedule import SECOND
from hsdns.load.verify import truth as module
from hsdns.load.verify.judge import RIGHT, Answer, judge
from hsdns.load.verify.truth import MOST, States, Timeline, Truth
from hsdns.load.verify.verifier import Judged
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape, SyntheticCluster
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv
from tests.load.clusters import ENDPOINTS, SERVICES, put, remove, with_block
from tests.load.test_report import MACHINE, PLAN

ZONE = "ns-0.svc.cluster.local."
NXDOMAIN = Answer(3)


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
    return Question(Name.from_text(name), qtype, "x")


def reverse(address: str) -> Question:
    return ask(f"{ip_address(address).reverse_pointer}.", RRType.PTR)


def a(*addresses: str) -> Answer:
    return Answer(0, frozenset((RRType.A, ip_address(each).packed) for each in addresses))


def ptr(name: str) -> Answer:
    return Answer(0, frozenset({(RRType.PTR, Name.from_text(name).wire)}))


def history(truth: Truth, question: int) -> list[tuple[float, Answer | None]]:
    states = truth.states(question)
    assert states is not None
    since, base = states
    return [(time, truth.expected(question, base + at)) for at, time in enumerate(since)]


BEGIN = float("-inf")


def test_states_of_a_change() -> None:
    questions = [
        ask(f"svc-1.{ZONE}"),
        ask(f"svc-1-0.svc-1.{ZONE}"),
        ask(f"svc-1-1.svc-1.{ZONE}"),
        reverse(ADDRESSES[0]),
        reverse(NEW),
        ask(f"svc-3.{ZONE}"),
        ask(f"_http._tcp.svc-1.{ZONE}", RRType.SRV),
        ask(f"svc-1.{ZONE}", RRType.AAAA),
    ]

    async def test(block: Kubernetes) -> None:
        times = iter((0.0, 5.0))
        truth = Truth(block, questions, lambda: next(times))
        put(block, moved())
        names = [f"svc-1-{number}.svc-1.{ZONE}" for number in range(2)]
        targets = Answer(
            0,
            frozenset(
                (RRType.SRV, b"\0\0" + srv(0, 50, 8080, Name.from_text(name))[4:]) for name in names
            ),
        )
        assert [history(truth, at) for at in range(len(questions))] == [
            [(BEGIN, a(*ADDRESSES)), (5.0, a(NEW, ADDRESSES[1]))],
            [(BEGIN, a(ADDRESSES[0])), (5.0, a(NEW))],
            [(BEGIN, a(ADDRESSES[1])), (5.0, a(ADDRESSES[1]))],
            [(BEGIN, ptr(names[0])), (5.0, NXDOMAIN)],
            [(BEGIN, NXDOMAIN), (5.0, ptr(names[0]))],
            [(BEGIN, history(truth, 5)[0][1])],
            [(BEGIN, targets), (5.0, targets)],
            [(BEGIN, Answer(0)), (5.0, Answer(0))],
        ]
        assert list(truth.changes) == [5.0]

    with_block(test)


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


def test_a_service_that_goes_and_comes() -> None:
    questions = [ask(f"svc-0.{ZONE}"), reverse("172.16.0.0")]

    async def test(block: Kubernetes) -> None:
        times = iter((0.0, 5.0, 6.0))
        truth = Truth(block, questions, lambda: next(times))
        service = OBJECTS["svc-0"]
        assert isinstance(service, Service)
        remove(block, Service(ObjectMeta(name="svc-0", namespace="ns-0")))
        put(block, service)
        address, name = a("172.16.0.0"), ptr(f"svc-0.{ZONE}")
        assert history(truth, 0) == [(BEGIN, address), (5.0, NXDOMAIN), (6.0, address)]
        assert history(truth, 1) == [(BEGIN, name), (5.0, NXDOMAIN), (6.0, name)]

    with_block(test)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (ask("www.example.com."), None),
        (ask(f"absent.{ZONE}"), NXDOMAIN),
        (ask("absent.absent.svc.cluster.local."), NXDOMAIN),
        (ask("10-1-2-3.ns-0.pod.cluster.local."), a("10.1.2.3")),
        (ask("svc.cluster.local."), Answer(0)),
        (ask("nowhere.cluster.local."), NXDOMAIN),
    ],
)
def test_what_does_not_change(question: Question, answer: Answer | None) -> None:
    async def test(block: Kubernetes) -> None:
        truth = Truth(block, [question], lambda: 5.0)
        if answer is None:
            assert truth.states(0) is None
        else:
            assert history(truth, 0) == [(BEGIN, answer)]
        assert not truth.is_away()

    with_block(test)


def test_what_the_cluster_does_not_say(tmp_path: object) -> None:
    """An ExternalName leads to other names."""
    service = Service(ObjectMeta(name="far", namespace="ns-0", resource_version="1"))
    external = structs.replace(
        service,
        spec=structs.replace(service.spec, type="ExternalName", external_name="example.com"),
    )

    async def test(block: Kubernetes) -> None:
        put(block, external)
        truth = Truth(block, [ask(f"far.{ZONE}")], lambda: 5.0)
        assert history(truth, 0) == [(BEGIN, None)]

    with_block(test)


def test_when_the_watch_was_late() -> None:
    async def test(block: Kubernetes) -> None:
        times = iter((1.0, 1.02, 1.5, 1.52))
        truth = Truth(block, [], lambda: next(times))
        for _ in range(3):
            truth.beat()
        spans = [(0.0, 1.0), (0.0, 1.03), (1.2, 1.3), (1.49, 2.0), (1.5, 9.0)]
        assert [truth.was_late(*each) for each in spans] == [False, True, True, True, False]

    with_block(test)


@pytest.mark.parametrize("leads", [True, False])
def test_when_a_change_is_shown_to_the_servers(leads: bool) -> None:
    """A change that is noted in a turn which takes long is written to them after that turn."""

    async def test(block: Kubernetes) -> None:
        times = iter((1.0, 1.02, 1.5, 1.9, 1.92))
        truth = Truth(block, [], lambda: next(times), leads=leads)
        for _ in range(4):
            truth.beat()
        found = [truth.shown(each) for each in (1.0, 1.02, 1.2, 1.6, 1.9, 5.0)]
        assert found == (
            [1.0, 1.9, 1.9, 1.9, 1.9, 5.0] if leads else [1.0, 1.02, 1.2, 1.6, 1.9, 5.0]
        )

    with_block(test)


def test_when_the_watch_was_away() -> None:
    async def test(block: Kubernetes) -> None:
        times = iter((1.0, 1.02, 1.04, 1.06, 1.08))
        truth = Truth(block, [], lambda: next(times))
        for lost in ("", "2026-11-23 06:00:00", "2026-11-23 06:00:00", ""):
            block.store.lost = lost
            truth.beat()
        spans = [(0.0, 1.02), (0.0, 1.03), (1.05, 2.0), (1.06, 9.0)]
        assert [truth.was_away(*each) for each in spans] == [False, True, True, False]

    with_block(test)


def test_questions_that_are_learnt_after_the_change() -> None:
    async def test(block: Kubernetes) -> None:
        times = iter((0.0, 5.0, 6.0))
        truth = Truth(block, [], lambda: next(times), grows=True)
        service = OBJECTS["svc-0"]
        assert isinstance(service, Service)
        put(block, moved())
        new = structs.replace(service.metadata, name="new")
        put(block, structs.replace(service, metadata=new))
        for number, (name, qtype) in enumerate(
            (
                (f"svc-1.{ZONE}", RRType.A),
                (f"new.{ZONE}", RRType.A),
                (f"new.{ZONE}", RRType.AAAA),
                (f"svc-1.{ZONE}{ZONE}", RRType.A),
                (f"nothing.{ZONE}", RRType.A),
                ("svc-1.svc.cluster.local.", RRType.A),
                ("svc-1.cluster.local.", RRType.A),
                ("www.example.com.", RRType.A),
                ("4.3.2.10.in-addr.arpa.", RRType.PTR),
            )
        ):
            assert truth.add_question(ask(name, qtype)) == number
        assert truth.add_question(ask(f"New.{ZONE}", RRType.AAAA)) == 2  # of another server
        assert [history(truth, at) for at in range(7)] == [
            [(BEGIN, a(*ADDRESSES)), (5.0, a(NEW, ADDRESSES[1]))],
            [(BEGIN, NXDOMAIN), (6.0, a("172.16.0.0"))],
            [(BEGIN, NXDOMAIN), (6.0, Answer(0))],
            [(BEGIN, NXDOMAIN)],
            [(BEGIN, NXDOMAIN)],
            [(BEGIN, NXDOMAIN)],
            [(BEGIN, NXDOMAIN)],
        ]
        assert [truth.states(at) for at in (7, 8)] == [None, None]
        assert list(truth.changes) == [5.0, 6.0]

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


def said_by(truth: Truth, question: int, base: int, state: int) -> Answer | None:
    return truth.expected(question, base + state)


def test_a_frozen_server_is_found_with_its_age() -> None:
    """A change and a query each millisecond: the reported age is the time since the freeze but for what is between them."""
    ms, frozen, end = 0.001, 2.0, 10.0

    async def test(block: Kubernetes) -> None:
        now = 0.0
        made = SyntheticCluster(Shape(SERVICES, ENDPOINTS, seed=1))
        slices = [each for each in made.objects() if isinstance(each, EndpointSlice)]
        changes = Changes(slices, {"renumber": 1}, 1, made.unused_addresses())
        questions = [ask(f"svc-{number}.{ZONE}", RRType.A) for number in range(SERVICES)]
        truth = Truth(block, questions, lambda: now)
        results = Results(questions, 0)
        told = [truth.latest(number) for number in range(SERVICES)]
        asked: list[tuple[int, float, Answer | None]] = []
        for step in range(round(end / ms)):
            now = step * ms
            changed = changes.next()
            metadata = structs.replace(changed.metadata, resource_version=f"changed-{step}")
            put(block, structs.replace(changed, metadata=metadata))
            now += ms / 2
            if now < frozen:
                told = [truth.latest(number) for number in range(SERVICES)]
            asked.append((step % SERVICES, now, told[step % SERVICES]))
        for question, time, answer in asked:
            found = truth.states(question)
            assert found is not None
            assert answer is not None
            since, base = found
            said = partial(said_by, truth, question, base)
            verdict = judge(since, said, time, time, answer, 0.1, forgotten=base > 0)
            assert (verdict.word == RIGHT) or time > frozen
            results.add_verdict(Judged(question, time, time, verdict))
            at = round(time * SECOND)
            results.add([(question, 0x8400, 1, at, at, at + 1)])
        run = Run("2026-01-01T00:00:00.000Z", PLAN, MACHINE, 0.1, [])
        report = make_report(run, [OfServer("a", "a", "", end, results)])
        (server,) = report.servers
        assert len(server.per_second) == end
        for second in server.per_second[3:]:
            age = (second.second + 1 - frozen) * 1000
            assert 0 <= age - second.worst_age_ms <= 5
        assert server.verdicts is not None
        stopped, length = server.verdicts.old_since_s, server.verdicts.old_for_s
        assert stopped == pytest.approx(frozen, abs=0.005)
        assert length == pytest.approx(end - frozen, abs=0.005)
        assert server.per_second[-1].worst_age_ms == pytest.approx((end - frozen) * 1000, abs=5)
        assert {word for word, count in server.verdicts.counts.items() if count} == {"right", "stale", "undecided"}  # fmt: skip

    with_block(test)


def test_states() -> None:
    timeline = Timeline("a")
    timeline.add(5.0, "b")
    assert timeline.states == States(0, [float("-inf"), 5.0], ["a", "b"])
    assert timeline.latest == "b"


def test_the_oldest_are_forgotten_and_what_was_taken_stays() -> None:
    timeline = Timeline(0)
    for number in range(1, MOST):
        timeline.add(float(number), number)
    taken = timeline.states
    timeline.add(float(MOST), MOST)
    base, since, values = timeline.states
    assert base == MOST // 2
    assert values == list(range(base, MOST + 1))
    assert since == [float(value) for value in values]
    assert (taken.base, taken.values) == (0, list(range(MOST)))


def test_what_had_ended_is_forgotten() -> None:
    timeline = Timeline("a")
    for time, value in ((1.0, "b"), (2.0, "c"), (3.0, "d")):
        timeline.add(time, value)
    assert timeline.forget(0.5) == 4
    assert timeline.forget(2.5) == 2
    assert timeline.states == States(2, [2.0, 3.0], ["c", "d"])
    assert timeline.forget(9.0) == 1
    assert timeline.latest == "d"
