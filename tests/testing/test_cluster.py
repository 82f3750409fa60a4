import gc
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsdns.testing import Cluster, ClusterError
from tests.testing.asking import ask, web

pytestmark = pytest.mark.sockets

SHOP = """\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{name: http, port: 80}]}
"""


def test_manifests_and_the_demo_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP)
    with Cluster(tmp_path, demo=True, ttl=1) as cluster:
        assert ask(cluster, "web.shop.svc.cluster.local") == ["10.96.7.7"]
        workers = cluster["jobs/workers"]
        assert ask(cluster, workers.dns_name) == sorted(workers.addresses)
        workers[workers.addresses[0]].not_ready()
        assert ask(cluster, workers.dns_name) == sorted(workers.addresses[1:])
        cluster["shop/web"].delete()
        assert ask(cluster, "web.shop.svc.cluster.local") == ["NXDOMAIN"]


def test_endpoints_of_a_dump_can_be_changed(cluster: Cluster) -> None:
    """Neither a mirrored Endpoints nor a pod with a status of its own follows an annotation."""
    cluster.apply(
        SHOP.replace("clusterIP: 10.96.7.7", "clusterIP: None").replace("shop", "default")
    )
    cluster.apply({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}]}],
    })  # fmt: skip
    cluster["web"]["10.0.0.1"].not_ready()
    assert web(cluster) == "10.0.0.2"
    cluster.service("pods", headless=True, selector={"app": "one"})
    cluster.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"app": "one"}},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    })  # fmt: skip
    assert ask(cluster, "pods.default.svc.cluster.local") == ["10.1.0.1"]
    cluster["pods"].not_ready()
    assert ask(cluster, "pods.default.svc.cluster.local") == ["NXDOMAIN"]


def test_names_outside_do_not_exist(cluster: Cluster) -> None:
    cluster.service("db", external_name="db.example.org")
    assert ask(cluster, "example.org") == ["NXDOMAIN"]
    assert ask(cluster, "db.default.svc.cluster.local") == ["db.example.org."]
    assert ask(cluster, "db.default.svc.cluster.local", tcp=True) == ["db.example.org."]


REFUSED: list[tuple[type[Exception], Callable[[Cluster], Any], str]] = [
    (ClusterError, lambda cluster: cluster["wbe"], 'there is no Service "wbe"; did you mean "web"?'),
    (ClusterError, lambda cluster: cluster["shop/db"], 'there is no Service "shop/db"; there is web'),
    (ClusterError, lambda cluster: cluster.service("web"), 'there is a Service "default/web" already; it is cluster["default/web"]'),
    (
        ClusterError,
        lambda cluster: cluster.service("Web"),
        'service(): Service default/Web: metadata.name: "Web" is not a DNS label; use at most 63 lower-case letters, digits and "-", without "-" at the ends',
    ),
    (
        ClusterError,
        lambda cluster: cluster.service("api", cluster_ip="10.96.0.300"),
        'service(): Service default/api: spec.clusterIP: "10.96.0.300" is not an IP address; write one such as 10.96.0.10, or None for a headless Service',
    ),
    (
        ClusterError,
        lambda cluster: cluster.service("api", headless=True, cluster_ip="10.96.0.3"),
        'Service "api" is headless, so it has no cluster_ip; leave one of them out',
    ),
    (TypeError, lambda cluster: cluster.service("api", headles=True), 'service() has no keyword "headles"; did you mean "headless"?'),  # type: ignore[call-arg]  # what the row is about
    (TypeError, lambda cluster: cluster.pod(image="alpine"), 'pod() has no keyword "image"; it has name, namespace, resolver'),  # type: ignore[call-arg]  # what the row is about
    (TypeError, lambda cluster: Cluster(dem=True), 'Cluster() has no keyword "dem"; did you mean "demo"?'),  # type: ignore[call-arg]  # what the row is about
    (ClusterError, lambda cluster: cluster.statefulset("db", service="wob"), 'there is no Service "wob"; did you mean "web"?'),
    (
        ClusterError,
        lambda cluster: cluster.statefulset("db", service="web"),
        '<Service default/web> has no selector, so it has no pods; make it with selector={"app": "db"}',
    ),
    (
        ClusterError,
        lambda cluster: cluster.statefulset("db", service="web", ports={"pg": 5432}),
        'the ports are those of the Service "web"; leave `ports` out',
    ),
    (
        ClusterError,
        lambda cluster: cluster.statefulset("db", replicas=-1),
        "statefulset(): StatefulSet default/db: spec.replicas: -1 is below zero; write 0 or more",
    ),
    (
        ClusterError,
        lambda cluster: (cluster.statefulset("db"), cluster.statefulset("db")),
        'there is a StatefulSet "default/db" already; scale() it',
    ),
    (ClusterError, lambda cluster: cluster.pod(resolver="musl"), 'a pod has no resolver "musl"; there is system'),
    (ClusterError, lambda cluster: cluster.patch(resolver="glib"), 'there is no model of a resolver "glib"; did you mean "glibc"?'),
    (
        ClusterError,
        lambda cluster: (cluster.pod("a"), cluster.pod("a")),
        'there was a pod "a" already; choose another name',
    ),
    (ClusterError, lambda cluster: Cluster("nowhere.yaml"), 'there is no file or folder "nowhere.yaml"; correct the path or create it'),
    (
        ClusterError,
        lambda cluster: cluster.apply(SHOP + "---\nkind: Service\napiVersion: v1\nmetadata: {}\n"),
        "manifest:8: Service: metadata.name: the name is missing; add one (generateName is not supported)",
    ),
    (ClusterError, lambda cluster: cluster.__enter__(), "a cluster starts once; make another one with Cluster()"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "sentence"), REFUSED, ids=[row[2][:40] for row in REFUSED])  # fmt: skip
def test_bad_input_changes_nothing(
    cluster: Cluster, error: type[Exception], call: Callable[[Cluster], Any], sentence: str
) -> None:
    cluster.service("web", headless=True).endpoints("10.0.0.1")
    with pytest.raises(error) as raised:
        call(cluster)
    assert str(raised.value) == sentence
    assert web(cluster) == "10.0.0.1"
    assert ask(cluster, "web.shop.svc.cluster.local") == ["NXDOMAIN"]


ENDED = (
    "this cluster has ended; use it within `with Cluster() as cluster:`, or while its fixture lives"
)
CALLS: dict[str, Callable[[Cluster], Any]] = {
    "port": lambda cluster: cluster.port,
    "service": lambda cluster: cluster.service("api"),
    "statefulset": lambda cluster: cluster.statefulset("db"),
    "apply": lambda cluster: cluster.apply(SHOP),
    "getitem": lambda cluster: cluster["web"],
    "wait_answer": lambda cluster: cluster.wait_answer("web", []),
    "pod": lambda cluster: cluster.pod().__enter__(),
    "command": lambda cluster: cluster.pod().command(["true"]),
    "patch": lambda cluster: cluster.patch(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_use_after_the_end(call: Callable[[Cluster], Any]) -> None:
    with Cluster() as cluster:
        web = cluster.service("web").endpoints("10.0.0.1")
    for used in (call, lambda cluster: web.not_ready(), lambda cluster: web["10.0.0.1"]):
        with pytest.raises(ClusterError) as raised:
            used(cluster)
        assert str(raised.value) == ENDED
    assert repr(cluster) == "<Cluster that has ended>"


def test_use_before_the_start() -> None:
    with pytest.raises(ClusterError, match="this cluster was not started; use it within"):
        Cluster().service("web")


def test_wait_answer_is_of_what_is_served(cluster: Cluster) -> None:
    cluster.wait_answer("web", [])
    cluster.service("web", headless=True).endpoints("10.0.0.1", "fd00::1")
    cluster.wait_answer("web", ["10.0.0.1"])
    cluster.wait_answer("web.default", ["10.0.0.1", "fd00::1"])
    assert len(cluster.queries) == 0, "waits are not noted"


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def test_clusters_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "hsdns.faults")  # pytest keeps what is logged

    def use() -> None:
        with Cluster() as cluster, socket.create_connection((cluster.address, cluster.port)):
            cluster.service("web", headless=True).endpoints("10.0.0.1")
            assert web(cluster) == "10.0.0.1"
            with cluster.patch(), cluster.fault("ttl 1", name="web") as fault:
                assert socket.gethostbyname("web") == "10.0.0.1"
            assert fault.hits == 1

    use()  # loads what the first use loads
    gc.collect()
    before = open_files(), set(threading.enumerate()), len(gc.get_objects())
    for _ in range(25):
        use()
    gc.collect()
    files, threads, objects = open_files(), set(threading.enumerate()), len(gc.get_objects())
    assert files == before[0]
    assert threads <= before[1]  # other tests leave some that end meanwhile
    assert objects - before[2] < 25, "less than one object for each"


def test_changes_of_several_threads(cluster: Cluster) -> None:
    service = cluster.service("web", headless=True)
    addresses = [f"10.0.0.{number}" for number in range(1, 21)]
    threads = [threading.Thread(target=service.endpoints, args=(each,)) for each in addresses]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(service.addresses) == sorted(addresses)
