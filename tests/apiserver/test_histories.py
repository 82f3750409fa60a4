"""Any history of a cluster over any connection: no wrong answer ever, and the right ones once changes have stopped.

A state machine: the cluster changes, the watches go on by some lines, and everything goes wrong that can.  No socket,
no loop, no clock.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES, Scope, is_protobuf
from hsdns.apiserver.watch_event import status_text
from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.store import Store, StoreSettings
from loadtest.apiserver.fake_cluster import FakeCluster, Response
from loadtest.apiserver.faults import Fault, FaultInjector
from loadtest.apiserver.watch_cache import Manifest, Watch
from tests.support.apiserver import faults
from tests.support.cluster.reverse_index import owners_by_address
from tests.support.effort import tries

HISTORIES = tries(75)
SCOPES = (Scope(SERVICES), Scope(ENDPOINT_SLICES), Scope(NAMESPACES), Scope(PODS))
GARBAGE = (
    b"<html>\n",
    b"null\n",
    b'{"type":"ADDED"}\n',
    b"\xff\n",
    b'{"type":"ERROR","object":{"code":500}}\n',
)
FAULTS: tuple[Fault, ...] = (
    faults.too_many_requests(), faults.unavailable(3), faults.html_page(), faults.html_page(200),
    faults.internal_error(), faults.not_found(), faults.expired(), faults.expired_event(), faults.refused(),
    faults.cut(0), faults.cut(300), faults.ended(0), faults.ended(450), faults.silent(200), faults.slowly(7),
)  # fmt: skip

names = st.sampled_from(["a", "b", "c"])
namespaces = st.sampled_from(["one", "two"])
hosts = st.lists(st.integers(1, 12), max_size=3, unique=True)
scopes = st.integers(0, len(SCOPES) - 1)


def service(namespace: str, name: str, address: int) -> Manifest:
    cluster_ip = f"10.96.0.{address}" if address else "None"
    meta = {"namespace": namespace, "name": name}
    return {"kind": "Service", "metadata": meta, "spec": {"clusterIP": cluster_ip}}


def endpoint_slice(namespace: str, name: str, owner: str, addresses: Sequence[int]) -> Manifest:
    labels = {"kubernetes.io/service-name": owner}
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": f"{name}-slice", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [f"10.0.0.{each}"]} for each in addresses],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }


def pod(namespace: str, name: str, address: int) -> Manifest:
    return {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "status": {"podIP": f"10.0.0.{address}", "phase": "Running"},
    }


class Connection:
    """A reflector and its current response, if any."""

    def __init__(self, cluster: FakeCluster, store: Store, scope: Scope, random: Random) -> None:
        self.cluster = cluster
        self.store = store
        self.reflector = Reflector(scope, self.take, Observer(), random)
        self.answer: Response | None = None
        self.injector = FaultInjector(Fault())
        self.now = 0.0

    def take(self, events: Sequence[Event]) -> None:
        self.store.apply(events)

    def go(self, lines: int | None = None) -> bool:
        """Send a request, or receive some lines; return whether anything happened."""
        if self.answer is None:
            return self._ask()
        body, injector = self.answer.body, self.injector
        data = b"".join(body.take(lines)) if isinstance(body, Watch) else body
        pieces = injector.feed(data) if data and not injector.outcome else []
        for piece in pieces:
            if not self.reflector.receive_data(piece):
                self.close()
                return True
        if injector.outcome:
            self.close({"cut": "it was cut", "silent": "it fell silent"}.get(injector.outcome, ""))
        elif not isinstance(body, Watch) or body.ended:
            self.close()
        else:
            return bool(pieces)
        return True

    def close(self, error: str = "") -> None:
        if self.answer is None:
            return
        if isinstance(self.answer.body, Watch):
            self.answer.body.close()
        self.answer = None
        self.now += 10.0
        self.reflector.close(self.now, error)
        assert 0.0 <= self.reflector.pause(self.now) <= 120.0

    def _ask(self) -> bool:
        ask = self.reflector.next_request()
        response = self.cluster.answer(ask.path, ask.query, accept=ask.accept)
        if response.fault.refused:
            self.reflector.fail("connection refused")
        elif response.status != 200:
            body = response.body if isinstance(response.body, bytes) else b""
            is_binary = is_protobuf(response.headers.get("Content-Type", ""))
            text = status_text(body) if is_binary else body.decode()
            self.reflector.refuse(response.status, text)
        else:
            self.answer, self.injector = response, FaultInjector(response.fault)
            self.reflector.open(self.now, response.headers.get("Content-Type", ""))
        return True


class Histories(RuleBasedStateMachine):
    """A cluster, four watches of it, and a store."""

    protobuf = False

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster(protobuf=self.protobuf)
        self.store = Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)
        self.connections = [
            Connection(self.cluster, self.store, scope, Random(7)) for scope in SCOPES
        ]
        # Every state that a slice, a Service or a pod ever had, by its version.
        self.states: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.newest: dict[tuple[str, str, str], int] = {}
        self.goes_back = False
        for namespace in ("one", "two"):
            self.cluster.apply({"kind": "Namespace", "metadata": {"name": namespace}})

    # The cluster changes.

    def put(self, manifest: Manifest, state: Any) -> None:
        stamped = self.cluster.apply(manifest)
        meta = stamped["metadata"]
        key = manifest["kind"], meta["namespace"], meta["name"]
        self.states.setdefault(key, {})[meta["resourceVersion"]] = state

    @rule(namespace=namespaces, name=names, address=st.integers(0, 3))
    def put_service(self, namespace: str, name: str, address: int) -> None:
        self.put(service(namespace, name, address), address)

    @rule(namespace=namespaces, name=names, owner=names, addresses=hosts)
    def put_slice(self, namespace: str, name: str, owner: str, addresses: list[int]) -> None:
        self.put(endpoint_slice(namespace, name, owner, addresses), (owner, tuple(addresses)))

    @rule(namespace=namespaces, name=names, address=st.integers(1, 12))
    def put_pod(self, namespace: str, name: str, address: int) -> None:
        self.put(pod(namespace, name, address), address)

    @rule(kind=st.sampled_from(["Service", "EndpointSlice", "Pod", "Namespace"]), data=st.data())
    def delete(self, kind: str, data: st.DataObject) -> None:
        there = self.cluster.objects(kind)
        if there:
            self.cluster.delete(data.draw(st.sampled_from(there)))

    @rule(namespace=namespaces, name=names, addresses=hosts)
    def recreate_slice(self, namespace: str, name: str, addresses: list[int]) -> None:
        manifest = endpoint_slice(namespace, name, name, addresses)
        if manifest["metadata"]["name"] in {
            each["metadata"]["name"]
            for each in self.cluster.objects("EndpointSlice")
            if each["metadata"]["namespace"] == namespace
        }:
            self.cluster.delete(manifest)
        self.put(manifest, (name, tuple(addresses)))

    @rule(namespace=namespaces)
    def put_namespace(self, namespace: str) -> None:
        self.cluster.apply({"kind": "Namespace", "metadata": {"name": namespace}})

    # The watches go on, or do not.

    @rule(which=scopes, lines=st.integers(1, 4))
    def go(self, which: int, lines: int) -> None:
        self.connections[which].go(lines)

    @rule()
    def go_all(self) -> None:
        for connection in self.connections:
            connection.go()

    @rule(which=scopes, data=st.data())
    def cut(self, which: int, data: st.DataObject) -> None:
        connection = self.connections[which]
        if connection.answer is not None:
            body = connection.answer.body
            due = b"".join(body.take(2)) if isinstance(body, Watch) else body
            half = due[: data.draw(st.integers(0, len(due)))]
            if not half or connection.reflector.receive_data(half):
                connection.close(data.draw(st.sampled_from(["it was cut", ""])))
            else:
                connection.close()

    @rule(which=scopes)
    def distrust(self, which: int) -> None:
        self.connections[which].close()
        self.connections[which].reflector.relist("distrust")

    @rule(fault=st.sampled_from(FAULTS), times=st.integers(1, 3))
    def fail(self, fault: Fault, times: int) -> None:
        self.cluster.fail(fault, times=times)

    @rule(streaming=st.sampled_from([True, True, False, "ignored"]))
    def change_streaming(self, streaming: bool | str) -> None:
        self.cluster.streaming = streaming

    @rule(as_event=st.booleans())
    def compact(self, as_event: bool) -> None:
        self.cluster.expired_as_event = as_event
        self.cluster.compact()

    @rule()
    def expire_watches(self) -> None:
        self.cluster.send_line(faults.expired_event().body)
        self.cluster.end_watches()

    @rule()
    def bookmark(self) -> None:
        self.cluster.bookmark()

    @rule(count=st.integers(1, 3))
    def repeat(self, count: int) -> None:
        self.cluster.repeat(count)
        # A server that sends several events again is believed: versions are compared with nothing.
        self.goes_back |= count > 1

    @rule(line=st.sampled_from(GARBAGE))
    def send_garbage(self, line: bytes) -> None:
        self.cluster.send_line(line)

    @rule()
    def end_watches(self) -> None:
        self.cluster.end_watches()

    # What must hold at any time.

    @invariant()
    def every_slice_is_in_a_state_that_it_had(self) -> None:
        served = {}
        for (namespace, owner), value in self.store.services.values.items():
            for part in value.slices:
                key = "EndpointSlice", namespace.decode(), part.name
                had_owner, addresses = self.states[key][part.resource_version]
                assert owner.decode() == had_owner
                assert part.addresses == bytes(
                    octet for each in addresses for octet in (10, 0, 0, each)
                )
                assert key not in served
                served[key] = int(part.resource_version)
            if value.kind is not None:
                key = "Service", namespace.decode(), owner.decode()
                address = self.states[key][value.resource_version]
                assert value.cluster_ips == ((bytes((10, 96, 0, address)),) if address else ())
                served[key] = int(value.resource_version)
        for key, version in served.items():
            assert self.goes_back or version >= self.newest.get(key, 0), f"{key} went back"
        self.newest.update(served)

    @invariant()
    def every_pod_address_is_one_that_it_had(self) -> None:
        for address, keys in self.store.pods.by_address.items():
            for namespace, name in keys:
                assert address[3] in self.states["Pod", namespace.decode(), name].values()

    @precondition(lambda self: any(each.reflector.synced for each in self.connections))
    @rule()
    def settle(self) -> None:
        self.quiet()

    def teardown(self) -> None:
        self.quiet()

    def quiet(self) -> None:
        """Let all requests succeed until nothing changes; then the store must equal the cluster."""
        self.cluster.faults.clear()
        self.cluster.expired_as_event = False
        if self.cluster.streaming == "ignored":
            # Such a server is left by its silence.
            for connection in self.connections:
                if connection.answer is not None and not connection.reflector.synced:
                    connection.go()
                    connection.close("it fell silent")
        for _ in range(40):
            went_on = [connection.go() for connection in self.connections]
            if not any(went_on):
                if all(each.reflector.synced for each in self.connections) and not any(
                    each.reflector.read_timeout < 100 for each in self.connections
                ):
                    break
                for connection in self.connections:
                    if connection.reflector.read_timeout < 100:
                        connection.close("it fell silent")
        expected = Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)
        for connection in self.connections:
            answer = connection.cluster.answer(connection.reflector.scope.path, {})
            fresh = Reflector(connection.reflector.scope, expected.apply, Observer(), Random(0))
            assert isinstance(answer.body, bytes)
            _list_into(fresh, answer.body)
        expected.apply([Synced()])
        assert visible(self.store) == visible(expected)
        for connection in self.connections:
            kind = connection.reflector.scope.resource.kind
            there = {
                (each["metadata"].get("namespace", ""), each["metadata"]["name"])
                for each in self.cluster.objects(kind)
            }
            assert connection.reflector.known == there


def _list_into(fresh: Reflector, body: bytes) -> None:
    fresh.next_request()
    fresh.refuse(422, "")
    fresh.next_request()
    fresh.open(0.0)
    fresh.receive_data(body)
    fresh.close(0.0)
    assert fresh.synced


def visible(store: Store) -> dict[str, Any]:
    """Return the contents of a store in a comparable form."""
    return {
        "services": {
            key: (value.kind, value.cluster_ips, value.ports, sorted(value.slices))
            for key, value in store.services.values.items()
        },
        "namespaces": set(store.namespaces),
        "pods": {address: sorted(keys) for address, keys in store.pods.by_address.items()},
        "endpoint_ips": owners_by_address(store.services.endpoint_ips),
        "cluster_ips": owners_by_address(store.services.cluster_ips),
    }


class HistoriesInProtobuf(Histories):
    """The same over protobuf, where the compiled part is there to ask for it."""

    protobuf = True


TestHistories = Histories.TestCase
TestHistoriesInProtobuf = HistoriesInProtobuf.TestCase
TestHistories.settings = TestHistoriesInProtobuf.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
