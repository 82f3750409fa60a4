"""Changes of simulated slices: what each kind does, and that addresses are used once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.objects import Endpoint, EndpointSlice, Event, ObjectMeta, Service, Upserted
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT, KINDS, Changes
from hsdns.load.cluster.churn import TICK, Churn, OwnNamespace, Pace, Size
from hsdns.load.errors import LoadError
from hsdns.sources.synthetic import Shape

SPARE = [f"10.1.0.{number}" for number in range(250)]


def slices(count: int = 3, endpoints: int = 2) -> list[EndpointSlice]:
    return [
        EndpointSlice(
            ObjectMeta(name=f"s-{at}"),
            "IPv4",
            [
                Endpoint([f"10.0.{at}.{number}"], hostname=f"e-{number}")
                for number in range(endpoints)
            ],
        )
        for at in range(count)
    ]


def changes(kinds: Mapping[str, int], seed: int = 1, **shape: int) -> Changes:
    return Changes(slices(**shape), kinds, seed, SPARE)


def addresses(found: EndpointSlice) -> list[str]:
    return [address for each in found.endpoints or () for address in each.addresses or ()]


def ready(found: EndpointSlice) -> list[str]:
    return [
        address
        for each in found.endpoints or ()
        if each.conditions is None or each.conditions.ready is not False
        for address in each.addresses or ()
    ]


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
        assert changed is found.slices[at]
        assert changed != before[at]
        old, new = set(ready(before[at])), set(ready(changed))
        assert len(old - new) <= 1
        assert len(new - old) <= 1
        used = [address for each in found.slices for address in addresses(each)]
        assert len(used) == len(set(used))


@pytest.mark.parametrize(
    ("kind", "counts"),
    [("renumber", {2}), ("rollout", {2}), ("ready", {2}), ("kill", {0, 1, 2}), ("scale", {0, 1, 2, 3, 4})],
)  # fmt: skip
def test_how_many_endpoints_there_are(kind: str, counts: set[int]) -> None:
    found = changes({kind: 1})
    seen = {len(found.next().endpoints or ()) for _ in range(300)}
    assert seen <= counts
    if kind == "scale":
        assert seen == counts


def test_a_roll_out_replaces_each_endpoint_of_a_slice() -> None:
    found = changes({"rollout": 1}, count=5, endpoints=3)
    before = list(found.slices)
    names = {found.next().metadata.name for _ in range(3)}
    assert len(names) == 1
    (rolled,) = [at for at, each in enumerate(found.slices) if each is not before[at]]
    assert not set(addresses(before[rolled])) & set(addresses(found.slices[rolled]))
    hostnames = [each.hostname for each in found.slices[rolled].endpoints or ()]
    assert hostnames == ["e-0", "e-1", "e-2"]


def test_readiness_flips_and_comes_back() -> None:
    found = changes({"ready": 1}, count=1, endpoints=1)
    assert [ready(found.next()) for _ in range(4)] == [[], ["10.0.0.0"], [], ["10.0.0.0"]]


def test_what_was_killed_comes_back_with_another_address() -> None:
    found = changes({"kill": 1}, count=1, endpoints=1)
    assert addresses(found.next()) == []
    back = addresses(found.next())[0]
    assert back in SPARE
    assert [each.hostname for each in found.slices[0].endpoints or ()] == ["e-0"]


def test_nothing_to_change() -> None:
    with pytest.raises(LoadError) as error:
        changes({"ready": 1}, endpoints=0)
    assert str(error.value) == "-churn: a cluster without endpoints has nothing to change"


SHAPE = Shape(4, 2, seed=3)
ALL = dict.fromkeys(KINDS, 1)


def test_the_truth_has_a_change_before_the_api() -> None:
    delivered: list[tuple[int, Event]] = []
    churn: Churn

    def deliver(events: object) -> None:
        assert isinstance(events, list)
        delivered.extend((churn.history.version, each) for each in events)

    churn = Churn(SHAPE, DEFAULT, 1, deliver, lambda: 0.0)
    before = churn.history.version
    versions = [churn.change(), churn.change()]
    assert [version for version, _ in delivered] == [before, before + 1]
    slices = [each.object for _, each in delivered if isinstance(each, Upserted)]
    assert all(isinstance(each, EndpointSlice) for each in slices)
    assert [each.metadata.resource_version for each in slices] == versions
    lines = churn.history.since(EndpointSlice, before) or []
    assert [f'"resourceVersion":"{version}"'.encode() in line for version, line in zip(versions, lines, strict=True)] == [True, True]  # fmt: skip
    assert churn.history.since(Service, before) == []


@pytest.mark.parametrize("kinds", [DEFAULT, ALL])
def test_the_seed_says_which(kinds: dict[str, int]) -> None:
    found = []
    for seed in (1, 1, 2):
        events: list[Event] = []
        churn = Churn(SHAPE, kinds, seed, events.extend, lambda: 0.0)
        for _ in range(5):
            churn.change()
        found.append(events)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("now", "due", "left"), [(10.0, 0, 0.1), (10.5, 5, 0.1), (10.55, 5, 0.05), (12.0, 20, 0.1)]
)
def test_how_many_are_due(now: float, due: int, left: float) -> None:
    clock = iter((10.0, now, now, now, 99.0))
    pace = Pace(10.0, lambda: next(clock))
    assert (pace.due(), pace.due()) == (due, 0)
    assert pace.left() == pytest.approx(left)
    assert pace.left() == TICK


def test_changes_at_a_rate() -> None:
    """On a clock that runs a millisecond for each look at it."""

    async def test() -> None:
        now = 0.0
        events: list[Event] = []
        written: list[tuple[str, float]] = []
        enough = asyncio.Event()

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        def deliver(some: Sequence[Event]) -> None:
            events.extend(some)

        def wrote(version: str, time: float) -> None:
            written.append((version, time))
            if len(written) == 8:
                enough.set()

        churn = Churn(SHAPE, ALL, 1, deliver, clock, wrote)
        first = churn.history.version + 1
        api = ClusterApi(churn.history, "127.0.0.1", 0)
        running = asyncio.create_task(churn.run(api, 400.0))
        await enough.wait()
        running.cancel()
        assert len(events) <= now * 400
        assert [int(version) for version, _ in written] == list(range(first, first + len(written)))
        assert sorted(time for _, time in written) == [time for _, time in written]

    asyncio.run(test())


SIZE = Size(2, 2)
NAME = "hsdns-load-1"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAME}/endpointslices"
SERVICES = f"/api/v1/namespaces/{NAME}/services"
NEEDS = "; this account needs the rights to create and delete namespaces, and to write services and endpointslices in them"  # fmt: skip


class Server:
    """Takes everything but what `refuses` has, by method and path, with a resourceVersion for each write."""

    def __init__(self, *refuses: tuple[str, str]) -> None:
        self.refuses = refuses
        self.sent: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.enough = asyncio.Event()
        self.limit = 0

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        await asyncio.sleep(0)
        self.sent.append((method, path))
        self.bodies.append(json.loads(json.dumps(body)) if body else {})
        if (method, path) in self.refuses:
            return 403, json.dumps({"kind": "Status", "message": "no rights"})
        if len(self.sent) == self.limit:
            self.enough.set()
        answer = {"metadata": {"resourceVersion": str(len(self.sent))}}
        return {"POST": 201, "PUT": 200, "DELETE": 200}[method], json.dumps(answer)


def namespace(server: Server, kinds: Mapping[str, int] = DEFAULT, **more: Any) -> OwnNamespace:
    return OwnNamespace(server, NAME, SIZE, kinds, 1, **({"clock": lambda: 0.0} | more))


MADE = [
    ("POST", "/api/v1/namespaces"),
    *[("POST", SERVICES)] * 2,
    *[("POST", SLICES)] * 2,
]
REMOVED = [
    ("DELETE", SLICES),
    ("DELETE", SERVICES),
    ("DELETE", f"/api/v1/namespaces/{NAME}"),
]


def test_it_is_made_and_removed() -> None:
    async def test() -> None:
        server = Server()
        own = namespace(server)
        await own.make()
        await own.remove()
        await own.remove()
        assert server.sent == [*MADE, *REMOVED]
        assert server.bodies[:5] == [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(NAME)},
            {"apiVersion": "v1", "kind": "Service", "metadata": meta("svc-0"), "spec": {"ports": PORTS}},
            {"apiVersion": "v1", "kind": "Service", "metadata": meta("svc-1"), "spec": {"ports": PORTS, "clusterIP": "None"}},
            slice_of(0, [("198.18.0.0", None), ("198.18.0.1", None)]),
            slice_of(1, [("198.18.0.2", "svc-1-0"), ("198.18.0.3", "svc-1-1")]),
        ]  # fmt: skip

    asyncio.run(test())


PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]
READY = {"ready": True, "serving": True, "terminating": False}


def meta(name: str) -> dict[str, Any]:
    return {"name": name, "labels": {"app.kubernetes.io/managed-by": "hsdns-load"}}


def slice_of(number: int, endpoints: list[tuple[str, str | None]]) -> dict[str, Any]:
    labels = {
        "kubernetes.io/service-name": f"svc-{number}",
        "endpointslice.kubernetes.io/managed-by": "hsdns-load",
        "app.kubernetes.io/managed-by": "hsdns-load",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"svc-{number}-load", "namespace": NAME, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [address], "conditions": READY}
            | ({"hostname": hostname} if hostname else {})
            for address, hostname in endpoints
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


@pytest.mark.parametrize(
    ("refused", "sentence", "sent"),
    [
        (("POST", "/api/v1/namespaces"), f"-churn-api: Namespace {NAME} cannot be made: 403 no rights{NEEDS}", MADE[:1]),
        (("POST", SLICES), f"-churn-api: EndpointSlice svc-0-load cannot be made: 403 no rights{NEEDS}", [*MADE[:4], *REMOVED]),
    ],
)  # fmt: skip
def test_without_the_rights_nothing_stays(
    refused: tuple[str, str], sentence: str, sent: list[tuple[str, str]]
) -> None:
    async def test() -> None:
        server = Server(refused)
        with pytest.raises(LoadError) as error:
            await namespace(server).make()
        assert str(error.value) == sentence
        assert server.sent == sent

    asyncio.run(test())


def test_what_cannot_be_removed_is_told() -> None:
    async def test() -> None:
        server = Server(REMOVED[-1])
        own = namespace(server)
        await own.make()
        with pytest.raises(LoadError) as error:
            await own.remove()
        assert str(error.value).endswith(f"remove it with kubectl delete namespace {NAME}")

    asyncio.run(test())


def test_changes_are_written_in_order_and_told() -> None:
    """On a clock that runs a millisecond for each look at it."""

    async def test() -> None:
        now = 0.0

        def clock() -> float:
            nonlocal now
            now += 0.001
            return now

        server = Server()
        server.limit = 30
        written: list[tuple[str, float]] = []
        own = namespace(
            server,
            dict.fromkeys(KINDS, 1),
            clock=clock,
            written=lambda *each: written.append(each),
        )
        running = asyncio.create_task(own.run(400.0))
        await server.enough.wait()
        running.cancel()
        assert {method for method, _ in server.sent} == {"PUT"}
        assert {path for _, path in server.sent} <= {f"{SLICES}/svc-{each}-load" for each in (0, 1)}
        versions = [int(version) for version, _ in written]
        assert versions == sorted(versions)
        assert all(0 < time <= now for _, time in written)

    asyncio.run(test())


def test_a_change_that_is_refused_ends_the_changes() -> None:
    async def test() -> None:
        paths = [f"{SLICES}/svc-{each}-load" for each in (0, 1)]
        own = namespace(
            Server(*(("PUT", path) for path in paths)), clock=asyncio.get_running_loop().time
        )
        with pytest.raises(ExceptionGroup) as error:
            await own.run(400.0)
        (found, *_) = error.value.exceptions
        assert isinstance(found, LoadError)
        assert str(found).startswith(f"-churn-api: {SLICES}/svc-")
        assert str(found).endswith("-load cannot be written: 403 no rights")

    asyncio.run(test())
