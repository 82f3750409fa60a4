"""The guarantees of the source with any API server, tested with the one in this process and a real one.

A real one is used where KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hsdns.apiserver.watcher import Contact
from hsdns.fastpath import IMPLEMENTATION
from hsdns.sources.api_access import WatchOptions
from loadtest.apiserver.watch_cache import Manifest
from tests.support.apiserver import faults
from tests.support.apiserver.api_under_test import EVERYTHING, FakeUnderTest, RealUnderTest
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.apiserver.tcp_proxy import TcpProxy
from tests.support.apiserver.watching_source import WatchingSource

TEN = tuple(f"team-{number}" for number in range(10))


def namespace(name: str) -> Manifest:
    return {"kind": "Namespace", "metadata": {"name": name}}


def service(name: str, place: str = "one", *, port: int = 80) -> Manifest:
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": place},
        "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": port}]},
    }


def endpoint_slice(name: str, *addresses: str, owner: str = "", place: str = "one") -> Manifest:
    labels = {"kubernetes.io/service-name": owner or name}
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-slice", "namespace": place, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]} for address in addresses],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }


def pod(name: str) -> Manifest:
    metadata = {"name": name, "namespace": "one"}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "web", "image": "example.org/web"}]},
    }


BEGINNING = (
    namespace("one"), service("a"), endpoint_slice("a", "10.0.0.1", "10.0.0.2"), service("b"),
    endpoint_slice("b", "10.0.0.3"), pod("p"),
)  # fmt: skip


# --- what is tried ---

Scenario = Callable[[WatchingSource], Awaitable[None]]


async def initial_state(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.until_equal()
    assert source.has("a")


async def nothing_that_is_wanted(source: WatchingSource) -> None:
    await source.start(WatchOptions(labels="contract=none", pods=True))
    assert not source.store.services.values
    await source.api.apply(namespace("one"))
    await source.until(lambda: b"one" in source.store.namespaces, "namespace one")


async def more_objects_than_a_page(source: WatchingSource) -> None:
    await source.api.refuse_streams()
    await source.api.apply(namespace("one"), *(service(f"s{number}") for number in range(501)))
    await source.start()
    await source.until_equal()


async def add_update_delete(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.apply(service("c"), endpoint_slice("c", "10.0.0.9"))
    await source.until_equal()
    await source.api.apply(service("c", port=81), endpoint_slice("c", "10.0.0.8", "10.0.0.9"))
    await source.until_equal()
    await source.api.apply(endpoint_slice("c", "10.0.0.8", owner="a"))
    await source.until_equal()
    await source.api.delete(service("c"), endpoint_slice("c"))
    await source.until_equal()
    assert not source.has("c")


async def recreated_under_its_name(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.delete(service("a"), endpoint_slice("a"))
    await source.api.apply(service("a", port=82), endpoint_slice("a", "10.0.0.7"))
    await source.until_equal()


async def namespace_gone(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING, namespace("two"))
    await source.start()
    await source.api.delete(namespace("two"))
    await source.until(lambda: b"two" not in source.store.namespaces, "namespace two is gone")
    await source.until_equal()


async def changes_missed_while_disconnected(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.apply(service("d"))
    await source.until_equal()
    source.proxy.disable()
    await source.api.apply(endpoint_slice("a", "10.0.0.2", "10.0.0.4"), service("c"))
    await source.api.delete(service("b"), endpoint_slice("b"))
    await source.until_logged("cannot watch services at .* still serving")
    assert source.has("a")
    assert source.has("b")
    source.proxy.enable()
    await source.until_equal()
    assert not source.has("b")
    # Events came of them, so nothing was relisted.
    assert not [line for line in source.log if "relisted" in line]


async def changes_missed_while_history_was_forgotten(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.apply(service("d"))
    await source.until_equal()
    source.proxy.disable()
    await source.api.apply(endpoint_slice("a", "10.0.0.2", "10.0.0.4"), service("c"))
    await source.api.delete(service("b"), endpoint_slice("b"))
    await source.api.forget_history()
    assert source.has("b")
    source.proxy.enable()
    await source.until_equal()
    assert not source.has("b")
    await source.until_logged(r"services were relisted \(expired\); 1 missed deletions found")


async def server_killed(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.restart()
    assert source.has("a")
    await source.api.apply(service("c"))
    await source.api.delete(service("b"), endpoint_slice("b"))
    await source.until_equal()


async def etcd_killed(source: WatchingSource) -> None:
    assert isinstance(source.api, RealUnderTest)
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.restart_etcd()
    await source.api.apply(service("c"))
    await source.api.delete(service("b"), endpoint_slice("b"))
    await source.until_equal()


async def rights_revoked_and_given_back(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.api.grant(["services", "namespaces", "pods"])
    source.proxy.cut_connections()  # a watch that is open goes on without rights
    line = await source.until_logged(
        "cannot watch endpointslices at .* grant this account list and watch on it"
    )
    assert '"endpointslices" in API group "discovery.k8s.io"' in line
    assert "still serving" in line
    await source.api.apply(endpoint_slice("a", "10.0.0.5"))
    await source.api.grant(EVERYTHING)
    await source.until_equal()
    await source.until_logged("endpointslices can be watched at .* again")


async def rights_missing_at_the_start(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.api.grant(["services", "namespaces", "pods"])
    starting = asyncio.create_task(source.start())
    line = await source.until_logged("cannot watch endpointslices at ")
    assert "nothing has been read yet" in line
    assert not source.store.synced
    await source.api.grant(EVERYTHING)
    await starting
    await source.until_equal()


async def rights_in_ten_namespaces(source: WatchingSource) -> None:
    for name in TEN:
        await source.api.apply(
            namespace(name), service("a", name), endpoint_slice("a", "10.0.0.1", place=name)
        )
    await source.api.apply(*BEGINNING)
    await source.api.grant(["services", "endpointslices"], TEN)
    await source.start(WatchOptions(namespaces=TEN))
    await source.until_equal(within=TEN)
    await source.until_logged("this account may not watch services in the whole cluster")
    await source.api.apply(endpoint_slice("a", "10.0.0.1", "10.0.0.2", place=TEN[9]))
    await source.until_equal(within=TEN)


async def streams_refused(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.api.refuse_streams()
    await source.start()
    await source.until_equal()
    await source.api.apply(service("c"))
    await source.until_equal()


async def streams_overlooked(source: WatchingSource) -> None:
    fake(source).cluster.streaming = "ignored"
    fake(source).cluster.fail(faults.cut(4), watch=True, times=4)  # a stream that breaks off
    await streams_are_listed_instead(source)


async def streams_are_listed_instead(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    await source.until_equal()
    assert [each for each in fake(source).cluster.requests if "limit=" in each]


async def token_rotated(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    await source.start()
    source.proxy.disable()
    await source.api.rotate_token()
    await source.api.apply(service("c"))
    source.proxy.enable()
    await source.until_logged(r"rejects these credentials \(401\)")
    assert source.has("a")
    source.connect.write()
    await source.until_equal()


async def too_many_requests(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING)
    fake(source).cluster.fail(faults.too_many_requests(7), path="services")
    starting = asyncio.create_task(source.start())
    line = await source.until_logged(r"overloaded \(429\)")
    pause = re.search(r"retrying in ([\d.]+) s", line)
    assert pause is not None
    assert float(pause[1]) >= 7
    await starting
    await source.until_equal()


async def object_of_a_wrong_form(source: WatchingSource) -> None:
    await source.api.apply(*BEGINNING, {**service("odd"), "spec": "nothing"})
    await source.start()
    await source.api.apply({**endpoint_slice("b"), "endpoints": 7}, service("c"))
    await source.until(lambda: source.has("c"), "Service c")
    await source.until(lambda: len(source.rejected) == 2, "both are told")
    assert {line.partition(":")[0] for line in source.rejected} == {
        "Service one/odd",
        "EndpointSlice one/b-slice",
    }
    # What was known of the slice before it went wrong is still served.
    assert source.store.services.values[b"one", b"b"].has_endpoints
    assert not source.has("odd")


async def one_bad_answer(source: WatchingSource) -> None:
    await source.start()
    await source.api.apply(service("c"))
    await source.until_equal()


def fake(source: WatchingSource) -> FakeUnderTest:
    assert isinstance(source.api, FakeUnderTest)
    return source.api


# --- where it is tried ---

BOTH: tuple[Scenario, ...] = (
    initial_state, nothing_that_is_wanted, more_objects_than_a_page, add_update_delete,
    recreated_under_its_name, namespace_gone, changes_missed_while_disconnected,
    changes_missed_while_history_was_forgotten, server_killed, rights_revoked_and_given_back,
    rights_missing_at_the_start, rights_in_ten_namespaces, streams_refused, token_rotated,
)  # fmt: skip
FAKE: tuple[Scenario, ...] = (streams_overlooked, too_many_requests, object_of_a_wrong_form)
REAL: tuple[Scenario, ...] = (etcd_killed,)

BAD_ANSWERS = {
    "429": faults.too_many_requests(),
    "503": faults.unavailable(1),
    "a page of HTML": faults.html_page(),
    "a page of HTML with 200": faults.html_page(200),
    "500": faults.internal_error(),
    "410": faults.expired(),
    "410 as event": faults.expired_event(),
    "a connection that is refused": faults.refused(),
    "a connection that is cut": faults.cut(0),
    "half a line": faults.cut(100),
    "half a line, then the end": faults.ended(100),
    "an empty body": faults.ended(0),
    "octet by octet": faults.slowly(1),
}


def readable(scenario: Scenario) -> str:
    return scenario.__name__.replace("_", " ")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of the source, but log their real length."""

    async def wait(self: Contact, seconds: float, *, is_away: bool = False) -> bool:
        await asyncio.sleep(min(seconds, 0.02))
        return is_away

    monkeypatch.setattr(Contact, "wait", wait)


@pytest.fixture(scope="module")
def real_api() -> Iterator[RealApi]:
    reason = missing_assets()
    if reason:
        pytest.skip(reason)
    with RealApi() as api:
        yield api


def try_out(under_test: FakeUnderTest | RealUnderTest, scenario: Scenario, folder: Path) -> None:
    async def body() -> None:
        async with under_test as api, TcpProxy(api.port) as gate:
            source = WatchingSource(api, gate, folder)
            try:
                await scenario(source)
            finally:
                await source.stop()

    asyncio.run(body())


@pytest.mark.sockets
@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("scenario", [*BOTH, *FAKE], ids=readable)
def test_on_the_fake_api(scenario: Scenario, tmp_path: Path) -> None:
    try_out(FakeUnderTest(), scenario, tmp_path)


@pytest.mark.sockets
@pytest.mark.usefixtures("short_pauses")
@pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")
@pytest.mark.parametrize("scenario", BOTH, ids=readable)
def test_on_the_fake_api_in_protobuf(scenario: Scenario, tmp_path: Path) -> None:
    try_out(FakeUnderTest(protobuf=True), scenario, tmp_path)


@pytest.mark.sockets
@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("watch", [False, True], ids=["of a list", "of a watch"])
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_invalid_response_only_causes_a_pause(name: str, watch: bool, tmp_path: Path) -> None:
    async def scenario(source: WatchingSource) -> None:
        await source.api.apply(*BEGINNING)
        if not watch:
            await source.api.refuse_streams()
        fake(source).cluster.fail(BAD_ANSWERS[name], path="endpointslices", watch=watch)
        await one_bad_answer(source)

    try_out(FakeUnderTest(), scenario, tmp_path)


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("scenario", [*BOTH, *REAL], ids=readable)
def test_on_a_real_api(scenario: Scenario, real_api: RealApi, tmp_path: Path) -> None:
    try_out(RealUnderTest(real_api), scenario, tmp_path)
