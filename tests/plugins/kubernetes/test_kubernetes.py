"""The kubernetes plugin: its start, state, snapshot, and what it tells others.  Its answers are in tests/scenarios/kubernetes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import dns.edns
import dns.message
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.cluster import snapshot
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.cluster.objects import (
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.schema import parse
from hsdns.cluster.source import Deliver, Report
from hsdns.cluster.store import Store, StoreSettings
from hsdns.corefile.tree import CorefileError, Token
from hsdns.plugins import kubernetes
from hsdns.plugins.kubernetes import Kubernetes, client_values, question_values
from hsdns.plugins.kubernetes.options import named_source
from hsdns.plugins.kubernetes.watch import ClusterState
from hsdns.sources.manifests import Manifests
from hsdns.sources.snapshot_file import SnapshotFile
from hsdns.sources.synthetic import Shape, Synthetic
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, encode_query
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import Name
from tests import strategies
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import endpoint_slice, pod, service, upserts
from tests.support.coroutines.eager import finish
from tests.support.effort import tries
from tests.support.plugins.requests import make_request, next_with, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up
from tests.support.servers.memory_server import MemoryServer
from tests.support.tables import columns

ZONE = "testns.svc.cluster.local."
WEB = service("testns/web", "10.0.0.1")
SHARED = (Name.from_text("clusterset.local"),)


# --- names that pass on, earlier states, the answer table ---


def test_addresses_lead_to_names_in_the_first_forward_zone() -> None:
    cluster = Cluster(WEB, zones="10.in-addr.arpa cluster.local a.test")
    assert section(cluster.ask("1.0.0.10.in-addr.arpa. PTR").answer) == [
        f"1.0.0.10.in-addr.arpa. 5 IN PTR web.{ZONE}"
    ]


def test_a_lookup_of_an_external_name_that_is_dropped_leaves_no_cname() -> None:
    cluster = Cluster(service("testns/ext", external="www.example.org"))
    cluster.runtime.resolver = lambda request: Reply(dropped=True)
    found = cluster.ask(f"ext.{ZONE}")
    assert (found.rcode, found.answer, len(found.authority)) == (Rcode.NOERROR, (), 1)


FIRST, SECOND = f"web.{ZONE} 5 IN A 10.0.0.1", f"web.{ZONE} 5 IN A 10.0.0.2"


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("web.testns.svc.clusterset.local. A", True),
        ("web.testns.svc.clusterset.local. AAAA", False),
        ("nope.testns.svc.clusterset.local. A", False),
        ("clusterset.local. SOA", False),
        (f"web.{ZONE} AAAA", True),
    ],
)
def test_replies_with_the_other_serial_are_not_for_the_table(question: str, whole: bool) -> None:
    ports = [ServicePort(80, "http", "TCP")]
    imported = ServiceImport(
        ObjectMeta("web", "testns"), ServiceImportSpec("ClusterSetIP", ["10.0.1.1"], ports)
    )
    cluster = Cluster(WEB, imported, zones="cluster.local clusterset.local", multicluster=SHARED)
    dependencies = Dependencies(NoCounters())
    request = make_request(*question.split()).replace(dependencies=dependencies)
    assert finish(cluster.plugin.handle(request, next_with(unwritten(Rcode.SERVFAIL)))).fresh
    assert dependencies.is_cacheable is whole


# --- pods: search lists, metadata ---

HERE = pod("testns/here", "127.0.0.1")


@pytest.mark.parametrize(
    ("objects", "options", "qname", "path"),
    [
        ((HERE,), {}, f"x.{ZONE}", f"{ZONE} svc.cluster.local. cluster.local. lab. ."),
        ((HERE,), {"zones": "."}, "x.", "testns.svc. svc. . lab. ."),
        ((HERE,), {}, "example.org.", None),
        ((HERE,), {"pods": "insecure"}, f"x.{ZONE}", None),
        ((pod("testns/there", "10.5.0.1"),), {}, f"x.{ZONE}", None),
    ],
)
def test_search_paths(
    objects: tuple[Object, ...], options: dict[str, object], qname: str, path: str | None,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\nsearch LAB\n")
    monkeypatch.setattr(kubernetes, "RESOLV_CONF", str(tmp_path / "resolv.conf"))
    cluster = Cluster(*objects, **({"pods": "verified"} | options))  # type: ignore[arg-type]  # options of any type
    found = cluster.plugin.search_path(make_request(qname))
    assert (None if found is None else " ".join(name.to_text() for name in found)) == path


def texts(values: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    return {label.removeprefix("kubernetes/"): value() for label, value in values.items()}


EMPTY = dict.fromkeys(("port-name", "protocol", "endpoint", "service", "namespace", "kind"), "")


@pytest.mark.parametrize(
    ("row", "expected"), columns(Path(__file__).parents[1] / "tables.txt", "metadata of a question")
)
def test_metadata_of_a_question(row: str, expected: str) -> None:
    """All labels, of which the row has those with a value; of a name without form only that it has none."""
    name, *options = row.split()
    flags = {each: each in options for each in ("zonal", "multicluster")}
    parsed = parse(tuple(name.encode().split(b".")) if name != "." else (), **flags)
    found = texts(question_values(parsed, **flags))
    assert {k: v for k, v in found.items() if v} == dict(
        re.findall(r"([a-z-]+)=([^=]+)(?: |$)", expected)
    )
    assert parsed is None or EMPTY.keys() <= found.keys()


@pytest.mark.parametrize("keeps", [False, True])
def test_metadata_of_a_client(keeps: bool) -> None:
    store = Store(StoreSettings(pod_labels=keeps), wall=lambda: 0.0, warn=pytest.fail)
    web = pod("shop/web-0", "10.5.0.1")
    web = msgspec.structs.replace(
        web, metadata=msgspec.structs.replace(web.metadata, labels={"app": "web"})
    )
    store.apply(upserts(web, pod("other/db-0", "10.5.0.2")))
    own = {"client-namespace": "shop", "client-pod-name": "web-0"}
    assert texts(client_values(store.pods, "10.5.0.1")) == own | (
        {"client-label/app": "web"} if keeps else {}
    )
    assert texts(client_values(store.pods, "10.5.0.3")) == {}


def test_metadata_of_a_query_is_both() -> None:
    cluster = Cluster(pod("testns/web-0", "127.0.0.1"), pods="verified")
    client = {"client-namespace": "testns", "client-pod-name": "web-0"}
    asked = {"service": "web", "namespace": "testns", "kind": "svc"}
    assert texts(cluster.plugin.metadata(make_request(f"web.{ZONE}"))) == EMPTY | client | asked
    assert texts(cluster.plugin.metadata(make_request("example.org."))) == client
    assert Cluster().plugin.metadata(make_request("example.org.")) == {}


@pytest.mark.parametrize("others", [frozenset(), frozenset({"metadata"})])
def test_labels_of_pods_are_kept_where_metadata_is_in_the_block(others: frozenset[str]) -> None:
    text = "kubernetes cluster.local {\n pods verified\n}"
    block = make_block()._replace(plugins=others)
    assert Kubernetes.setup(directives(text), block).state.settings.pod_labels is bool(others)


# --- Extended DNS Errors, with `explain` ---

OBJECTS: tuple[Object, ...] = (
    service("testns/db"),
    endpoint_slice("testns/db-1", "db", "172.0.0.1 ready=false", "172.0.0.2 ready=false"),
    WEB,
)
LOST = "2026-01-02T03:04:05Z"
UNREAD = "EDE 14: the cluster has not been read yet"


def errors(cluster: Cluster, question: str) -> list[str]:
    """The errors in the reply to a client with EDNS."""
    name, qtype = (*question.split(), "A")[:2]
    query = make_request(f"{name}.{ZONE}", qtype, edns=Edns(1232)).query
    sent = dns.message.from_wire(
        encode(query, cluster.ask(f"{name}.{ZONE} {qtype}", edns=Edns(1232)), 1232)
    )
    found = [each for each in sent.options if isinstance(each, dns.edns.EDEOption)]
    return [f"EDE {int(each.code)}: {each.text}" for each in found]


def test_before_the_cluster_has_been_read() -> None:
    cluster = Cluster(*OBJECTS, synced=False, explain=True)
    assert errors(cluster, "nope") == [UNREAD]
    assert errors(cluster, "web") == [], "it has an answer"
    cluster.plugin.store.lose(LOST)
    assert errors(cluster, "nope") == [f"{UNREAD}; the API server cannot be watched since {LOST}"]


def test_a_state_that_may_be_old_is_told_after_the_reason() -> None:
    cluster = Cluster(*OBJECTS, explain=True)
    assert errors(cluster, "db") == ["EDE 0: 0 of 2 endpoints ready"]
    assert errors(cluster, "web") == ["EDE 0: no endpoints"]
    cluster.plugin.store.lose(LOST)
    old = f"as of {LOST}, since when the API server cannot be watched"
    assert errors(cluster, "db") == ["EDE 0: 0 of 2 endpoints ready", f"EDE 19: {old}"]
    assert errors(cluster, "web") == ["EDE 0: no endpoints", f"EDE 3: {old}"]
    assert errors(cluster, "web AAAA") == ["EDE 0: no IPv6 address", f"EDE 3: {old}"]
    cluster.plugin.store.lose("")
    assert errors(cluster, "web") == ["EDE 0: no endpoints"]


def test_a_snapshot_does_not_know_the_number_of_endpoints() -> None:
    cluster = Cluster(synced=False, explain=True)
    cluster.plugin.store.restore(OBJECTS, 0.0)
    old = "as of 1970-01-01T00:00:00Z, from a snapshot: the cluster has not been read yet"
    assert errors(cluster, "db") == ["EDE 0: no ready endpoints", f"EDE 19: {old}"]
    assert errors(cluster, "web") == ["EDE 0: no ready endpoints", f"EDE 3: {old}"]
    cluster.apply(Synced())
    assert errors(cluster, "web") == ["EDE 0: no such Service in the namespace"]


@pytest.mark.parametrize("question", ["db", "web", "web AAAA", "nope"])
def test_without_the_option_there_are_no_errors(question: str) -> None:
    cluster = Cluster(*OBJECTS)
    cluster.plugin.store.lose(LOST)
    assert errors(cluster, question) == []


COREFILE = (
    ".:53 {{\ncache\nk8s_external ext.test {{\nheadless\n}}\n"
    "kubernetes cluster.local in-addr.arpa {{\npods insecure\n{option}}}\n}}\n"
)


@settings(max_examples=tries(20))
@given(seed=strategies.seeds, history=strategies.histories(), data=st.data())
def test_a_reply_is_the_same_but_for_the_errors(
    seed: int, history: list[Event], data: st.DataObject
) -> None:
    """Octet for octet without EDNS; with it, once the errors are cut out of its OPT record."""
    plain, explained = (
        MemoryServer(COREFILE.format(option=option), None) for option in ("", "explain\n")
    )
    at = data.draw(st.integers(0, len(history)))
    for server in (plain, explained):
        server.apply(*history[:at])
    questions = strategies.questions(
        seed, strategies.remaining(history), ("cluster.local.", "in-addr.arpa.", "ext.test."), 9
    )
    chance = Random(seed)
    for qname, qtype in (*questions, (Name.from_text("nope.default.svc.cluster.local."), 6)):
        edns = chance.choice([None, Edns(1232), Edns(4096, do=True, options=((10, bytes(8)),))])
        wire = encode_query(Query.ask(qname, qtype, edns=edns), 7)
        expected = plain.from_chain(wire, "tcp", stores=False)
        found = explained.from_chain(wire, "tcp", stores=False)
        assert expected is not None
        assert found is not None
        if edns is not None:
            opt = edns.to_wire()
            found = found[: found.rindex(opt[:9])] + opt
        assert found == expected


# --- sources, start, readiness, snapshots ---


@pytest.mark.parametrize("validating", [True, False])
def test_a_missing_path_is_a_warning_of_validate_alone(validating: bool) -> None:
    warnings: list[str] = []
    (line,) = directives("kubernetes {\nsource manifests /no/such/path\n}")[0].lines
    found = named_source(line, make_block(warnings=warnings, validating=validating))
    assert isinstance(found, Manifests)
    sentence = 'Corefile:3:8: source manifests: there is no file or folder "/no/such/path"; correct the path or create it'
    assert warnings == [sentence] * validating
    word = Token("synthetic", line.name.position)
    assert isinstance(named_source(line, make_block()._replace(source=(word,))), Synthetic), (
        "of the command line"
    )


def test_start_outside_of_a_cluster_says_what_to_do() -> None:
    plugin = set_up(Kubernetes, "kubernetes cluster.local")
    with pytest.raises(CorefileError) as caught:
        finish(plugin.start(FakeRuntime()))
    assert caught.value.message == (
        'not in a cluster: KUBERNETES_SERVICE_HOST is not set; give "endpoint URL" or "kubeconfig FILE" in the '
        'kubernetes block to reach a cluster from outside; to serve a cluster from files add "source manifests PATH" '
        'to the kubernetes block, or start with "hsdns serve --conf COREFILE --source manifests PATH"'
    )


class Steered(Synthetic):
    """A source that was last heard of when the test says."""

    silent_for = 0.0

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver nothing."""

    def silence(self, now: float) -> float:
        """As steered."""
        return self.silent_for


def steered(text: str) -> tuple[Kubernetes, Steered, FakeRuntime]:
    plugin = set_up(Kubernetes, f"kubernetes cluster.local {{\n source synthetic\n{text}\n}}")
    plugin.watch.source = source = Steered(Shape(services=0))
    runtime = FakeRuntime()
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    return plugin, source, runtime


@pytest.mark.parametrize(
    ("text", "silent_for", "ready"),
    [("", 1e9, True), ("max_silence 90s", 89.0, True), ("max_silence 90s", 91.0, False)],
    ids=["as CoreDNS", "strict, heard of", "strict, silent"],
)
def test_ready_while_the_api_server_is_away(text: str, silent_for: float, ready: bool) -> None:
    plugin, source, _ = steered(text)
    assert not plugin.ready()
    plugin.store.apply([Synced()])
    source.silent_for = silent_for
    assert plugin.ready() is ready
    assert plugin.may_relapse is bool(text)


def begun(found: SnapshotFile | None = None) -> ClusterState:
    state = ClusterState(StoreSettings(), found)
    state.begin(
        FakeRuntime(), lambda level, message: logging.getLogger("hsdns.test").log(level, message)
    )
    return state


def test_a_state_serves_once_the_cluster_has_been_read() -> None:
    assert not ClusterState(StoreSettings()).serves
    state = begun()
    state.apply([Upserted(Namespace(ObjectMeta(name="shop")))])
    assert (state.serves, state.names.has_namespace(b"shop")) == (False, True)
    state.apply([Synced()])
    assert (state.serves, state.names.open) == (True, True)


def test_a_damaged_snapshot_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text("nonsense\n")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert not begun(SnapshotFile(str(path))).serves
    assert "starting without it" in caplog.text


def test_a_snapshot_is_served_until_the_cluster_has_been_read(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)
    objects: list[Object] = [Namespace(ObjectMeta(name="default"))]
    for name, address in (("kept", "10.96.0.1"), ("gone", "10.96.0.2")):
        objects.append(
            Service(ObjectMeta(name=name, namespace="default"), ServiceSpec(cluster_ip=address))
        )
    store.apply([*map(Upserted, objects), Synced()])
    words = {"namespaces": "", "pods": "disabled", "source": str(Synthetic(Shape()))}
    path.write_bytes(
        b"".join(snapshot.pieces(store, version="0", saved=1_700_000_000.0, settings=words))
    )
    path.chmod(0o600)
    plugin, _, runtime = steered(f"snapshot {path}")
    assert plugin.ready()
    assert (
        plugin.remark()
        == "serving the snapshot of 2023-11-14 22:13:20+00:00, the cluster has not been read yet"
    )
    gauge = runtime.metrics.gauge("hsdns_kubernetes_snapshot_serving", ("path",))
    assert gauge.values == {(str(path),): 1.0}

    def rcodes() -> list[int]:
        requests = [
            make_request(f"{name}.default.svc.cluster.local.") for name in ("kept", "gone", "other")
        ]
        return [
            finish(plugin.handle(each, next_with(unwritten(Rcode.SERVFAIL)))).rcode
            for each in requests
        ]

    assert rcodes() == [Rcode.NOERROR, Rcode.NOERROR, Rcode.NXDOMAIN]
    plugin.watch.deliver([*map(Upserted, objects[:2]), Synced()])
    assert rcodes() == [Rcode.NOERROR, Rcode.NXDOMAIN, Rcode.NXDOMAIN]
    assert (plugin.ready(), plugin.remark(), gauge.values) == (True, "", {(str(path),): 0.0})
