"""What was right at which time, over a synthetic cluster of four Services: svc-1 and svc-3 are headless."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from hsdns.cluster.objects import EndpointSlice, Object, Service
from hsdns.load.questions import Question
from hsdns.load.verify import truth as module
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.truth import MOST, States, Timeline, Truth
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape, SyntheticCluster
from hsdns.wire.iana import RRType, type_from_text
from hsdns.wire.name import Name
from tests.load.clusters import ENDPOINTS, SERVICES, put, remove, with_block
from tests.support.tables import paragraphs

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
def test_states(scene: str) -> None:
    assert states_of(scene) == scene


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
        shown = [1.0, 1.9, 1.9, 1.9, 1.9, 5.0] if leads else asked
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
