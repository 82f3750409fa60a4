"""A cluster of a test, and its server."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from pathlib import Path

import dns.message
import pytest

from hsdns.cluster.objects import Event
from hsdns.testing import Cluster, ClusterError, Do, Service, When  # noqa: F401 - for the calls
from hsdns.testing.cluster import wait_answer
from hsdns.testing.pod import ZONE
from hsdns.testing.queries import Query
from hsdns.testing.server import ServerThread
from tests.testing.asking import ask, ask_web
from tests.testing.conftest import calls

pytestmark = pytest.mark.sockets
SVC = "default.svc.cluster.local"

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
    assert ask_web(cluster) == "10.0.0.2"
    cluster.service("pods", headless=True, selector={"app": "one"})
    cluster.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"app": "one"}},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    })  # fmt: skip
    assert ask(cluster, "pods.default.svc.cluster.local") == ["10.1.0.1"]
    cluster["pods"].not_ready()
    assert ask(cluster, "pods.default.svc.cluster.local") == ["NXDOMAIN"]


@pytest.mark.parametrize(("call", "found"), calls("changes"))
def test_change_is_answered_when_the_call_returns(
    cluster: Cluster, web: Service, call: str, found: str
) -> None:
    eval(call)
    assert ask_web(cluster) == found


@pytest.mark.parametrize(("call", "found"), calls("answers"))
def test_answers(cluster: Cluster, web: Service, call: str, found: str) -> None:
    assert str(eval(call)) == found


@pytest.mark.parametrize(("call", "sentence"), calls("refused"))
def test_bad_input_changes_nothing(
    cluster: Cluster, web: Service, call: str, sentence: str
) -> None:
    with pytest.raises(TypeError if " has no keyword " in sentence else ClusterError) as raised:
        eval(call)
    assert str(raised.value) == sentence
    if "was deleted" not in sentence:
        assert ask_web(cluster) == "10.0.0.1 10.0.0.2"
    assert ask(cluster, "web.shop.svc.cluster.local") == ["NXDOMAIN"]


def test_a_call_that_fails_half_way_changes_nothing(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"spec\.replicas: -1 is below zero"):
        cluster.statefulset("db", replicas=-1)
    assert ask(cluster, "db.default.svc.cluster.local") == ["NXDOMAIN"]
    cluster.service("db")


def test_all_errors_and_warnings_are_told(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ClusterError) as raised:
        cluster.apply(SHOP.replace("10.96.7.7", "10.96") + "---\n" + SHOP.replace("web", "Web"))
    places = [line.split(": ")[0] for line in str(raised.value).splitlines()]
    assert places == ["manifest:4", "manifest:8"]
    cluster.apply(SHOP.replace("clusterIP: 10.96.7.7", "clusterIp: None"))
    assert len(caplog.records) == 1


ENDED = (
    "this cluster has ended; use it within `with Cluster() as cluster:`, or while its fixture lives"
)


@pytest.mark.parametrize(("call", "nothing"), calls("ended"))
def test_use_after_the_end(call: str, nothing: str) -> None:
    with Cluster() as cluster:
        web = cluster.service("web").endpoints("10.0.0.1")
    for used in (call, "web.not_ready()", "web['10.0.0.1']"):
        with pytest.raises(ClusterError) as raised:
            eval(used, globals(), {"cluster": cluster, "web": web})
        assert str(raised.value) == ENDED
    assert repr(cluster) == "<Cluster that has ended>"


def test_use_before_the_start() -> None:
    with pytest.raises(ClusterError, match="this cluster was not started; use it within"):
        Cluster().service("web")


def test_wait_answer_is_of_what_is_served(cluster: Cluster) -> None:
    cluster.wait_answer("web", [])
    cluster.service("web", headless=True).endpoints("10.0.0.1", "fd00::1")
    cluster.wait_answer("web", ["10.0.0.1"])
    cluster.wait_answer("web.default", ["fd00::1", "10.0.0.1"])
    assert len(cluster.queries) == 0, "waits are not noted"
    cluster["web"].endpoints(*(f"10.0.{high}.{low}" for high in (1, 2) for low in range(200)))
    cluster.wait_answer("web", [each for each in cluster["web"].addresses if "." in each])


def test_wait_answer_waits_for_a_change(cluster: Cluster, web: Service) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now >= 0.02 and len(web.addresses) < 3:
            web.endpoints("10.0.0.3")

    wait_answer(
        cluster.server.ask, "web", ["10.0.0.1", "10.0.0.2", "10.0.0.3"], 0.05, lambda: now, sleep
    )
    assert 0.02 <= now < 0.03


@pytest.mark.parametrize(("given", "text"), calls("what a wait shows"))
def test_wait_answer_shows_what_was_answered(cluster: Cluster, web: Service, given: str, text: str) -> None:  # fmt: skip
    name, *addresses = given.split()
    with pytest.raises(AssertionError) as raised:
        cluster.wait_answer(name, addresses, within=0)
    assert str(raised.value) == text


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def test_clusters_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "hsdns.faults")  # pytest keeps what is logged

    def use() -> None:
        with Cluster() as cluster, socket.create_connection((cluster.address, cluster.port)):
            cluster.service("web", headless=True).endpoints("10.0.0.1")
            assert ask_web(cluster) == "10.0.0.1"
            with cluster.patch(), cluster.fault("ttl 1", When.NAME("web")) as fault:
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


def test_statefulset(cluster: Cluster) -> None:
    db = cluster.statefulset("db", replicas=3, ports={"pg": 5432})
    first, second, third = db.addresses
    assert ask(cluster, f"db.{SVC}") == sorted([first, second, third])
    assert ask(cluster, f"db-1.db.{SVC}") == [second]
    db.not_ready(1)
    assert ask(cluster, f"db.{SVC}") == sorted([first, third])
    db.scale(2)
    assert ask(cluster, f"db.{SVC}") == [first]
    db.scale(3)
    assert db.addresses == [first, second, third], "an ordinal has its address again"
    db.not_ready().ready(0)
    assert ask(cluster, f"db.{SVC}") == [first]
    db.ready().delete()
    assert ask(cluster, f"db.{SVC}") == ["NXDOMAIN"]
    assert cluster["db"].addresses == []


# --- its server ---

WEB = f"web.default.svc.{ZONE}"


def test_every_query_is_noted(cluster: Cluster) -> None:
    """Also the second one of a question, over either transport: there is no answer table."""
    cluster.service("web", headless=True).endpoints("10.0.0.1")
    for tcp in (False, False, True, True):
        ask(cluster, WEB.upper(), tcp=tcp)
    assert [(each.name, each.type, each.transport, each.rcode) for each in cluster.queries] == [
        (WEB, "A", transport, "NOERROR") for transport in ("udp", "udp", "tcp", "tcp")
    ]


def test_a_query_is_noted_before_its_sender_reads_the_reply(cluster: Cluster) -> None:
    """It waits for no reply at all: the assertion takes what has arrived."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for number in range(200):
            wire = dns.message.make_query(f"n{number}.{ZONE}", "AAAA").to_wire()
            sock.sendto(wire, (cluster.address, cluster.port))
            cluster.queries.assert_asked(f"n{number}.{ZONE}", "AAAA", times=1)


def test_it_runs_beside_a_loop_of_the_test(cluster: Cluster) -> None:
    async def test() -> list[str]:
        service = cluster.service("web", headless=True).endpoints("10.0.0.1")
        found = await asyncio.to_thread(ask, cluster, WEB)
        service.endpoints("10.0.0.2")
        return found + await asyncio.to_thread(ask, cluster, WEB)

    assert asyncio.run(test()) == ["10.0.0.1", "10.0.0.1", "10.0.0.2"]


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    noted: list[Query] = []
    thread = ServerThread(events, noted.append, ttl=99999)
    with pytest.raises(Exception, match="99999"):
        thread.start()
    thread.stop()
    assert not thread._thread.is_alive()
