"""Changes of slices, in a simulated cluster and in a namespace of a real one; changes.txt and namespace.txt have them written out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.objects import Endpoint, EndpointSlice, Event, ObjectMeta
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT, KINDS, Changes
from hsdns.load.cluster.churn import Churn, OwnNamespace, Size, due_changes
from hsdns.load.cluster.job import ApiWriter
from hsdns.load.errors import LoadError
from hsdns.sources.synthetic import Shape
from tests.support.tables import lines, paragraphs

ALL = dict.fromkeys(KINDS, 1)
SHAPE = Shape(4, 2, seed=3)


def changes(kinds: Mapping[str, int], seed: int = 1, count: int = 3, endpoints: int = 2) -> Changes:
    slices = [
        EndpointSlice(
            ObjectMeta(name=f"s-{at}"),
            "IPv4",
            [Endpoint([f"10.0.{at}.{each}"], hostname=f"e-{each}") for each in range(endpoints)],
        )
        for at in range(count)
    ]
    return Changes(slices, kinds, seed, [f"10.1.0.{number}" for number in range(250)])


def text_of(found: EndpointSlice) -> str:
    """Its name and its endpoints; those that are not ready in brackets."""
    endpoints = []
    for each in found.endpoints or ():
        text = f"{each.hostname} {(each.addresses or [''])[0]}"
        is_ready = each.conditions is None or each.conditions.ready is not False
        endpoints.append(text if is_ready else f"[{text}]")
    return f"{found.metadata.name}: {', '.join(endpoints)}".rstrip()


@pytest.mark.parametrize("section", paragraphs(Path(__file__).with_name("changes.txt")))
def test_kinds(section: str) -> None:
    kind, *expected = section.split("\n")
    found = changes({kind: 1})
    assert [text_of(found.next()) for _ in expected] == expected


@given(
    kinds=st.dictionaries(st.sampled_from(KINDS), st.integers(1, 5), min_size=1),
    seed=st.integers(0, 99),
    count=st.integers(1, 60),
)
def test_a_change_is_one_endpoint_of_one_slice(
    kinds: dict[str, int], seed: int, count: int
) -> None:
    found, again = changes(kinds, seed), changes(kinds, seed)
    for _ in range(count):
        before = list(found.slices)
        changed = found.next()
        assert again.next() == changed
        (at,) = [at for at, each in enumerate(found.slices) if each is not before[at]]
        assert changed is found.slices[at] != before[at]
        old, new = (
            set(text_of(each).partition(": ")[2].split(", ")) for each in (before[at], changed)
        )
        assert max(len(old - new), len(new - old)) <= 1
        assert len(changed.endpoints or ()) <= 4 or "kill" in kinds
        used = [each.addresses for slice_ in found.slices for each in slice_.endpoints or ()]
        assert len(used) == len({address for each in used for address in each or ()})
        assert len(found._free) + len(used) == 250 + 6


def test_nothing_to_change() -> None:
    with pytest.raises(LoadError) as error:
        changes({"ready": 1}, endpoints=0)
    assert str(error.value) == "--churn: a cluster without endpoints has nothing to change"


def test_how_many_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late ones are made at once, and there is always a pause."""
    now, slept = 10.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += max(seconds, (0.0, 0.5625, 0.0)[len(slept) - 1])

    async def test() -> list[int]:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        due = due_changes([(1.0, 8.0)], lambda: now)
        return [await anext(due) for _ in range(3)]

    assert (asyncio.run(test()), slept) == ([1, 4, 1], [0.125, 0.125, 0.0625])


class Running:
    """A clock that runs a millisecond for each look at it, and what was written until there is enough."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[tuple[str, float]] = []
        self.enough = asyncio.Event()

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    def wrote(self, version: str, time: float) -> None:
        self.written.append((version, time))
        if len(self.written) == 20:
            self.enough.set()

    def until_enough(self, start: Callable[[], Any]) -> None:
        async def test() -> None:
            running = asyncio.create_task(start())
            await self.enough.wait()
            running.cancel()

        asyncio.run(test())
        assert len(self.written) <= self.now * 400
        assert all(0 < time <= self.now for _, time in self.written)
        versions = [int(version) for version, _ in self.written]
        assert versions == sorted(versions)


def test_changes_at_a_rate() -> None:
    run, events = Running(), list[Event]()
    churn = Churn(SHAPE, ALL, 1, events.extend, run.clock, run.wrote)
    first = churn.history.version + 1
    run.until_enough(lambda: churn.run(ClusterApi(churn.history, "127.0.0.1", 0), [(1.0, 400.0)]))
    assert [int(version) for version, _ in run.written] == [*range(first, first + len(run.written))]
    assert len(events) >= len(run.written)


SLICES = "/apis/discovery.k8s.io/v1/namespaces/hsdns-load-1/endpointslices"


class Server(ApiWriter):
    """Takes everything but what `refuses` has, by method and path, with a resourceVersion for each write."""

    def __init__(self, *refuses: tuple[str, str]) -> None:
        self.refuses = refuses
        self.sent: list[str] = []
        self.busy: set[str] = set()
        self.overlaps = 0

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = ""
    ) -> tuple[int, str]:
        self.overlaps += path in self.busy
        self.busy.add(path)
        await asyncio.sleep(0)
        self.busy.discard(path)
        self.sent.append(f"{method} {path}" + (f" {json.dumps(body)}" if body else ""))
        if (method, path) in self.refuses:
            return 403, json.dumps({"kind": "Status", "message": "no rights"})
        answer = {"metadata": {"resourceVersion": str(len(self.sent))}}
        return {"POST": 201, "PUT": 200, "DELETE": 200}[method], json.dumps(answer)


def namespace(server: Server, kinds: Mapping[str, int] = DEFAULT, **more: Any) -> OwnNamespace:
    more = {"clock": lambda: 0.0} | more
    return OwnNamespace(server, "hsdns-load-1", Size(2, 2), kinds, 1, **more)


MADE_AND_REMOVED = lines(Path(__file__).with_name("namespace.txt"))


NEEDS = "; this account needs the rights to create and delete namespaces, and to write services and endpointslices in them"  # fmt: skip


@pytest.mark.parametrize(
    ("refused", "sentence", "sent"),
    [
        (("", ""), "", MADE_AND_REMOVED),
        (("POST", "/api/v1/namespaces"), f"--churn-api: Namespace hsdns-load-1 cannot be made: 403 no rights{NEEDS}", MADE_AND_REMOVED[:1]),
        (("POST", SLICES), f"--churn-api: EndpointSlice svc-0-load cannot be made: 403 no rights{NEEDS}", [*MADE_AND_REMOVED[:4], *MADE_AND_REMOVED[5:]]),
        (("DELETE", "/api/v1/namespaces/hsdns-load-1"), "--churn-api: the namespace hsdns-load-1 cannot be removed (403 {\"kind\": \"Status\", \"message\": \"no rights\"}); remove it with kubectl delete namespace hsdns-load-1", MADE_AND_REMOVED),
        (("PUT", f"{SLICES}/svc-0-load"), f"--churn-api: {SLICES}/svc-0-load cannot be written: 403 no rights", None),
    ],
)  # fmt: skip
def test_what_is_refused(refused: tuple[str, str], sentence: str, sent: list[str] | None) -> None:
    """It is made and removed once; nothing stays without the rights; a change that is refused ends the changes."""

    async def live(server: Server) -> None:
        own = namespace(server, clock=asyncio.get_running_loop().time)
        if sent is None:
            await own.run([(1.0, 400.0)])
        await own.make()
        await own.remove()
        await own.remove()

    server, found = Server(refused), ""
    try:
        asyncio.run(live(server))
    except (LoadError, ExceptionGroup) as error:
        found = str(error.exceptions[0] if isinstance(error, ExceptionGroup) else error)
    assert found == sentence
    assert server.sent == sent or sent is None


def test_changes_are_written_in_order_and_told() -> None:
    run, server = Running(), Server()
    own = namespace(server, ALL, clock=run.clock, written=run.wrote)
    run.until_enough(lambda: own.run([(1.0, 400.0)]))
    begins = {each.partition(" {")[0] for each in server.sent}
    assert server.overlaps == 0
    assert begins <= {f"PUT {SLICES}/svc-{each}-load" for each in (0, 1)}
