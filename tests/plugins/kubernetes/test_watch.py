"""The watch of a cluster, shared by the instances of successive configurations."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import assemble
from hsdns.cluster.freshness import service_counter
from hsdns.cluster.objects import (
    Event,
    Namespace,
    ObjectMeta,
    Service,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.cluster.store import Store
from hsdns.cluster.value import Key
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.kubernetes.watch import ClusterWatch
from hsdns.plugins.whoami import Whoami
from hsdns.sources.api_server import ApiServer
from hsdns.sources.synthetic import Shape, Synthetic
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from loadtest.apiserver.fake_api import FakeApi
from tests.server import loopback
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import DEADLINE, run, until
from tests.support.plugins.requests import make_request
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

ROUNDS = "bind 127.0.0.1\nerrors\n"


# A cluster of one namespace.
WHOLE: Sequence[Event] = (Upserted(Namespace(ObjectMeta(name="shop"))), Synced())


class Watched(Synthetic):
    """A source that counts what is asked of it; load() delivers `events`."""

    def __init__(self) -> None:
        super().__init__(Shape(services=0))
        self.calls: list[str] = []
        self.loaded_in = 0
        self.events = WHOLE
        self.title = "watched"

    def __str__(self) -> str:
        return self.title

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver a cluster."""
        self.calls.append("load")
        self.loaded_in = threading.get_ident()
        deliver(self.events)

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Wait until cancelled."""
        self.calls.append("watch")
        try:
            await asyncio.Event().wait()
        finally:
            self.calls.append("end")


def plugin(text: str = "", zones: Sequence[str] = ("cluster.local",)) -> Kubernetes:
    """An instance that has a source of its own."""
    made = set_up(Kubernetes, f"kubernetes {{\nsource synthetic\n{text}\n}}", zones)
    made.watch.source = Watched()
    return made


def calls(of: Kubernetes | ClusterWatch) -> list[str]:
    """What was asked of the source."""
    assert isinstance(of.source, Watched)
    return of.source.calls


@pytest.mark.parametrize(
    ("old", "new", "inherits"),
    [
        pytest.param(("ttl 30",), ("ttl 30",), True, id="same"),
        pytest.param(("ttl 30",), ("# a comment\n\n   ttl    30",), True, id="same but for space"),
        pytest.param(("ttl 30",), ("ttl 31",), False, id="other option"),
        pytest.param(("ttl 30",), ("ttl 30\npods insecure",), False, id="one more"),
        pytest.param(("",), ("", ("other.local",)), False, id="other zones of the block"),
    ],
)
async def test_a_block_takes_over_the_watch_of_one_with_the_same_configuration(
    old: tuple[Any, ...], new: tuple[Any, ...], inherits: bool
) -> None:
    runtime = FakeRuntime()
    before, after = plugin(*old), plugin(*new)
    await before.start(runtime)
    assert after.inherit(before) is inherits
    await after.start(runtime)
    assert (after.store is before.store, after.names is before.names) == (inherits, inherits)
    await before.stop()
    await asyncio.sleep(0)
    assert after.ready()
    assert calls(after).count("load") == 1
    await after.stop()
    await runtime.stop_tasks()


async def test_nothing_is_inherited_from_another_plugin_or_one_that_does_not_run() -> None:
    runtime = FakeRuntime()
    before, after = plugin(), plugin()
    assert not after.inherit(before)
    assert not after.inherit(Whoami())
    await before.start(runtime)
    await before.stop()
    assert not after.inherit(before)
    await runtime.stop_tasks()


def test_what_a_batch_changes_is_shown() -> None:
    """From the state at the start on; batches without a change in DNS show nothing."""
    made, runtime = plugin(), FakeRuntime()
    shown: list[list[str]] = []
    made.show_changes = shown.append
    finish(made.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    spec = ServiceSpec(cluster_ip="10.0.0.1", ports=[])
    for name in ("web", "web", "api"):
        meta = ObjectMeta(name=name, namespace="shop", resource_version="1")
        made.watch.deliver([Upserted(Service(meta, spec))])
    assert shown == [
        ["+ 10.0.0.1 web.shop.svc.cluster.local"],
        ["+ 10.0.0.1 api.shop.svc.cluster.local"],
    ]


@pytest.mark.parametrize("reads_only", [True, False])
def test_a_reader_saves_no_snapshot(reads_only: bool, tmp_path: Path) -> None:
    made, runtime = plugin(f"snapshot {tmp_path}/state"), FakeRuntime()
    made.watch.reads_only = reads_only
    finish(made.start(runtime))
    assert ("kubernetes snapshot" not in runtime.spawned) is reads_only
    for coro in runtime.spawned.values():
        coro.close()


@pytest.mark.parametrize(("lost", "source", "is_restored"), values(TABLES, "a snapshot is not restored in place of a live state"))  # fmt: skip
async def test_a_snapshot_is_not_restored_in_place_of_a_live_state(
    lost: str | None, source: str, is_restored: bool, tmp_path: Path
) -> None:
    """The file has an older state than the instance before a reload, if that one follows the cluster."""
    runtime = FakeRuntime()
    snapshot = f"snapshot {tmp_path}/state"
    before, after = plugin(snapshot), plugin(f"{snapshot}\nttl 30")
    await before.start(runtime)
    await asyncio.sleep(0)
    await runtime.stop_tasks()  # saves
    assert isinstance(after.source, Watched)
    after.source.events = ()
    if lost is not None:
        before.store.lose(lost)
        after.source.title = source
        assert not after.inherit(before)
    await after.start(runtime)
    assert after.state.serves is is_restored
    assert (after.remark() != "") is is_restored
    assert runtime.time == (0.0 if is_restored else 5.0), "waits for the cluster"
    after.watch.deliver(WHOLE)
    assert (after.ready(), after.remark()) == (True, "")
    await after.stop()
    await before.stop()
    await runtime.stop_tasks()


class ReloadableServer(loopback.ReloadableServer):
    """A server of a cluster behind an API server, with a Corefile that can be rewritten."""

    def __init__(self, folder: Path, api: FakeApi, *, watches_apart: bool = False) -> None:
        self.api = api
        super().__init__(folder, ROUNDS, watches_apart=watches_apart)

    def write(self, around: str, options: str = "") -> None:
        """Replace the Corefile."""
        kubernetes = f"kubernetes cluster.local {{\nendpoint {self.api.url}\n{options}\n}}\n"
        super().write(f". {{\n{around}\n{kubernetes}}}\n")

    @property
    def store(self) -> Store:
        """The cluster's state."""
        plugins = self.server.configuration.plugins
        return next(each.store for each in plugins if isinstance(each, Kubernetes))


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[ReloadableServer]:
    """A site that has started."""
    async with FakeApi() as api:
        api.apply({"kind": "Namespace", "metadata": {"name": "shop"}})
        api.apply(service("web", "10.0.0.1"))
        reloadable = ReloadableServer(folder, api)
        await reloadable.server.start()
        try:
            yield reloadable
        finally:
            await reloadable.server.close()


def service(name: str, address: str) -> dict[str, Any]:
    """A Service's manifest."""
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": address, "clusterIPs": [address]},
    }


def is_known(store: Store, key: Key) -> bool:
    """Whether an event has arrived."""
    return key in store.services.values


@pytest.mark.sockets
async def test_a_reload_lists_again_only_what_its_block_says_anew(tmp_path: Path) -> None:
    async with serving(tmp_path) as reloadable:
        api, name = reloadable.api, "web.shop.svc.cluster.local."
        begun = list(api.requests)
        assert len(begun) == 3
        for number, around in enumerate(("log", "cache 30", "loadbalance"), 1):
            reloadable.write(ROUNDS + around)
            assert await reloadable.server.reload()
            assert api.requests == begun
            assert "10.0.0.1" in await reloadable.ask(name)
            # What happens after a reload is seen as before.
            api.apply(service(f"new-{number}", f"10.0.1.{number}"))
            key = (b"shop", b"new-%d" % number)
            await until(partial(is_known, reloadable.store, key), "the new Service")
            assert f"10.0.1.{number}" in await reloadable.ask(
                f"new-{number}.shop.svc.cluster.local."
            )
        reloadable.write(ROUNDS, "ttl 30")
        assert await reloadable.server.reload()
        instance = reloadable.server.instance
        assert instance is not None
        assert instance.is_reload
        assert len(api.requests) == 2 * len(begun)
        await until(lambda: len(api.cluster.watches) == len(begun), "the old watches end")
        assert "10.0.0.1" in await reloadable.ask(name)


@pytest.mark.sockets
async def test_a_reload_that_fails_ends_no_watch(tmp_path: Path) -> None:
    async with serving(tmp_path) as reloadable:
        begun = list(reloadable.api.requests)
        missing = tmp_path / "weights"
        reloadable.write(ROUNDS + f"loadbalance weighted {missing} {{\nreload 0s\n}}")
        assert not await reloadable.server.reload()
        assert reloadable.api.requests == begun
        assert len(reloadable.api.cluster.watches) == len(begun)
        reloadable.api.apply(service("late", "10.0.2.1"))
        await until(partial(is_known, reloadable.store, (b"shop", b"late")), "the late Service")
        assert "10.0.2.1" in await reloadable.ask("late.shop.svc.cluster.local.")


class ApiThread:
    """A fake API server in a thread of its own, which goes on while the loop of the test stands still."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> ApiThread:
        self.thread.start()
        self.call(self.api.start())
        return self

    def __exit__(self, *error: object) -> None:
        self.call(self.api.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def call(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine there, and wait for it."""
        asyncio.run_coroutine_threadsafe(coro, self.loop).result(DEADLINE)

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Add or replace objects."""

        async def apply() -> None:
            for manifest in manifests:
                self.api.apply(manifest)

        self.call(apply())


def stand_still_until(condition: Callable[[], bool]) -> None:
    """Block the loop of the test until a condition holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.sockets
def test_events_are_applied_while_the_main_loop_stands_still(tmp_path: Path) -> None:
    key = (b"shop", b"web")

    async def test(reloadable: ReloadableServer, api: ApiThread) -> None:
        server = reloadable.server
        reloadable.write(ROUNDS)
        await server.start()
        try:
            assert "10.0.0.1" in await reloadable.ask("web.shop.svc.cluster.local.")
            store, counter = reloadable.store, service_counter(*key)
            for round_number in range(2, 5):
                before: int = server.counters.read(counter)
                api.apply(service("web", f"10.0.0.{round_number}"))
                stand_still_until(
                    lambda before=before: server.counters.read(counter) > before  # type: ignore[misc]  # mypy cannot infer a default's type
                )
                assert store.services.values[key].cluster_ips == (bytes((10, 0, 0, round_number)),)
            assert "10.0.0.4" in await reloadable.ask("web.shop.svc.cluster.local.")
            dog = server._watchdog
            await until(lambda: dog is not None and dog.is_settled, "the cluster has been read")
        finally:
            await server.close()

    with ApiThread() as api:
        api.apply({"kind": "Namespace", "metadata": {"name": "shop"}}, service("web", "10.0.0.1"))
        run(test(ReloadableServer(tmp_path, api.api, watches_apart=True), api))


@pytest.mark.parametrize("question", ["web.shop.svc.cluster.local.", "nope.cluster.local."])
def test_a_late_watch_is_waited_for_before_the_store_is_read(question: str) -> None:
    late = asyncio.Future[None](loop=(loop := asyncio.new_event_loop()))
    loop.close()
    runtime = FakeRuntime()
    instance = plugin()
    finish(instance.start(runtime))
    request = make_request(question)

    async def following(request: object) -> Reply:
        raise AssertionError("it is in the zone")

    assert finish(instance.handle(request, following)).rcode == Rcode.NXDOMAIN
    asked: list[float] = []

    def look(now: float) -> asyncio.Future[None]:
        asked.append(now)
        return late

    runtime.late = look
    waiting = instance.handle(request, following)
    assert waiting.send(None) is late
    assert asked == [request.now]
    waiting.close()
    for coro in runtime.spawned.values():
        coro.close()


# --- blocks over the same API server ---

TLS = "tls cert key ca"


def blocks(
    *options: str, endpoints: Sequence[str] = ("http://192.0.2.1:8001",) * 4
) -> list[Kubernetes]:
    """The kubernetes plugins of a Corefile with a block each."""
    text = "".join(
        f"z{number}.local {{\nkubernetes {{\nendpoint {endpoint}\n{each}\n}}\n}}\n"
        for number, (each, endpoint) in enumerate(zip(options, endpoints, strict=False))
    )
    tree = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    plugins = assemble(tree, warn=lambda sentence: None).plugins
    return [each for each in plugins if isinstance(each, Kubernetes)]


@pytest.mark.parametrize(
    ("one", "other", "shares"),
    [
        pytest.param("", "", "state", id="same"),
        pytest.param("ttl 5", "ttl 6\nfallthrough", "state", id="options of answers"),
        pytest.param("", "pods insecure", "state", id="pods that are not watched"),
        pytest.param("", "pods verified", "watch", id="pods"),
        pytest.param("labels a=b", "labels a=c", "watch", id="selectors"),
        pytest.param("", "noendpoints", "watch", id="noendpoints"),
        pytest.param("", "endpoint_pod_names", "watch", id="endpoint_pod_names"),
        pytest.param("", "zonal", "watch", id="zonal"),
        pytest.param("", "multicluster z1.local", "watch", id="multicluster"),
        pytest.param("", "snapshot a.json", "watch", id="snapshot"),
        pytest.param("", TLS, "", id="credentials"),
        pytest.param("", "source synthetic", "", id="source"),
    ],
)
def test_blocks_over_one_api_server_share_a_watch(one: str, other: str, shares: str) -> None:
    first, second = blocks(one, other)
    assert (first.watch is second.watch) is bool(shares)
    assert (first.state is second.state) is (shares == "state")


def test_blocks_over_other_api_servers_share_nothing() -> None:
    urls = [f"http://192.0.2.{number}:8001" for number in (1, 2, 1)]
    first, second, third = blocks("", "", "", endpoints=urls)
    assert first.watch is third.watch
    assert first.watch is not second.watch


def test_all_states_are_told_since_when_the_server_cannot_be_watched() -> None:
    runtime = FakeRuntime()
    both = blocks("labels app=a", "labels app=b")
    for each in both:
        each._startup_timeout = 0.0
        finish(each.start(runtime))
    source = both[0].source
    assert isinstance(source, ApiServer)
    for since in ("2026-01-02T03:04:05Z", ""):
        source.on_lost(since)
        assert [each.store.lost for each in both] == [since, since]
    for coro in runtime.spawned.values():
        coro.close()


def addresses(store: Store) -> list[str]:
    """The clusterIPs of the Service shop/web."""
    found = store.services.values[b"shop", b"web"].cluster_ips
    return [".".join(map(str, address)) for address in found]
