"""The API of a simulated cluster, watched by hsdns's own client, and what is asked of a real one about a Job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from hsdns.apiserver.access import Access, Endpoint
from hsdns.cli.offline import configure, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.cluster.objects import EndpointSlice, Namespace, ObjectMeta, Service, ServiceSpec
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import DEFAULT
from hsdns.load.cluster.churn import Churn
from hsdns.load.cluster.history import PATHS, ApiHistory
from hsdns.load.cluster.job import ApiWriter, Job, JobApi, packed, read_namespace, reports_of
from hsdns.load.errors import LoadError
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.synthetic import Shape
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from loadtest.ports import free_port
from tests.load.clusters import with_block
from tests.load.servers import http_server
from tests.support.apiserver.fixed_access import FixedAccess
from tests.support.tables import columns

SHAPE = Shape(3, 2, dual_stack=0.5)
CHANGES = 20
TABLES = Path(__file__).parents[1] / "tables.txt"
COREFILE = """cluster.local {{
    bind 127.0.0.1
    kubernetes cluster.local {{
        endpoint {}
        ttl 30
    }}
}}
"""

pytestmark = pytest.mark.sockets


def test_hsdns_watches_it(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "Corefile"
    file.write_text(COREFILE.format(f"http://127.0.0.1:{port}"))

    async def test() -> list[str]:
        churn = Churn(SHAPE, DEFAULT, 1, lambda events: None, lambda: 0.0)
        api = ClusterApi(churn.history, "127.0.0.1", port)
        await api.start()
        configuration, _ = configure(str(file), None)
        (block,) = kubernetes_blocks(configuration)
        runtime = make_runtime(configuration)
        await block.start(runtime)
        try:
            await wait_for_clusters(runtime, [block])
            before = block.store.changes
            for _ in range(CHANGES):
                churn.apply(churn.changes.next())
            api.changed()
            await runtime.wait_until(lambda: block.store.changes >= before + CHANGES, 10.0)
            return names(block)
        finally:
            await block.stop()
            await runtime.tasks.cancel()
            await api.stop()

    async def expected(block: Kubernetes) -> list[str]:
        churn = Churn(SHAPE, DEFAULT, 1, block.watch.deliver, lambda: 0.0)
        for _ in range(CHANGES):
            churn.apply(churn.changes.next())
        return names(block)

    words = ("synthetic", "services=3", "endpoints=2", "dual_stack=0.5")
    assert asyncio.run(test()) == with_block(expected, *words)


def names(block: Kubernetes) -> list[str]:
    """All records of the forward zone but the SOA record, which has a time in it."""
    rrsets = block.answer_set().of_zone(Name.from_text("cluster.local."))
    return sorted(f"{record.owner} {record.rrtype} {record.rdata!r}" for rrset in rrsets for record in rrset if record.rrtype in (RRType.A, RRType.AAAA, RRType.SRV))  # fmt: skip


def test_a_bookmark_is_due_after_its_time_alone() -> None:
    async def test() -> list[bytes]:
        history = ApiHistory(1)
        api = ClusterApi(history, "127.0.0.1", 0, bookmark_every=1e6)
        await api.start()
        path = f"{api.url}/api/v1/services?watch=1&allowWatchBookmarks=true&resourceVersion=1"
        told = []
        async with aiohttp.ClientSession() as session, session.get(path) as watch:
            for name in "abc":
                history.put(Service(ObjectMeta(name=name, namespace="shop")))
                api.changed()
                told.append(await watch.content.readline())
        await api.stop()
        return told

    assert [each[:16] for each in asyncio.run(test())] == [b'{"type":"ADDED",'] * 3


def test_what_a_watch_is_told() -> None:
    """Bookmarks tell a quiet watch the version, if it takes them; a version that is too old is to be listed again."""

    async def test() -> list[bytes]:
        history = ApiHistory(1)
        api = ClusterApi(history, "127.0.0.1", 0, bookmark_every=0.001)
        await api.start()
        second = ClusterApi(history, "127.0.0.1", int(api.url.rpartition(":")[2]))
        with pytest.raises(LoadError, match=r"^--api: 127.0.0.1:[0-9]+ cannot be listened on: "):
            await second.start()
        await second.stop()
        history.put(Namespace(ObjectMeta(name="shop")))
        path = f"{api.url}/api/v1/services?watch=1&allowWatchBookmarks="
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{path}true&resourceVersion=1") as watch:
                told = [await watch.content.readline()]
                assert await watch.content.readline() == told[0], "again and again"
            async with (
                session.get(f"{path}false&resourceVersion=1") as watch,
                session.get(f"{path}true&resourceVersion=1") as other,
            ):
                await other.content.readline()  # the first watch was due a bookmark, too
                history.put(Service(ObjectMeta(name="web", namespace="shop")))
                api.changed()
                told.append(await watch.content.readline())
            everything = f"{api.url}/api/v1/namespaces?watch=1"
            async with session.get(everything) as watch:
                told.append(await watch.content.readline())
                history.put(Namespace(ObjectMeta(name="shop")))
                api.changed()
                told.append(await watch.content.readline())
            async with session.get(f"{path}true&resourceVersion=1") as answer:
                assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")
        await api.stop()
        return told

    told, quiet, *others = asyncio.run(test())
    assert told == (
        b'{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1",'
        b'"metadata":{"resourceVersion":"1","annotations":{}}}}\n'
    )
    assert [each[:16] for each in (quiet, *others)] == [b'{"type":"ADDED",'] * 2 + [
        b'{"type":"MODIFIE'
    ]


def service(name: str, address: str = "10.96.0.1") -> Service:
    return Service(ObjectMeta(name=name, namespace="shop"), ServiceSpec(cluster_ip=address))


def facts(line: bytes) -> str:
    """What happened to which object, and the version."""
    event = json.loads(line)
    meta = event["object"]["metadata"]
    words = (event["type"], meta.get("name", ""), meta["resourceVersion"])
    return " ".join(filter(None, (*words, *(meta.get("annotations") or ()))))


def test_history() -> None:
    """Lists, what has changed since each version, and what is no longer remembered: of seven changes the first."""
    history, web = ApiHistory(6), service("web")
    for each in (Namespace(ObjectMeta(name="shop")), web, service("a"), service("a", "10.96.0.2")):
        history.put(each)
    history.remove(web)
    history.put(web)
    found = json.loads(history.listed(Service))
    items = [(each["kind"], each["apiVersion"], each["metadata"]["name"], each["metadata"]["resourceVersion"], each["spec"]["clusterIP"]) for each in found.pop("items")]  # fmt: skip
    assert items == [("Service", "v1", "a", "4", "10.96.0.2"), ("Service", "v1", "web", "6", "10.96.0.1")]  # fmt: skip
    assert found == {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "6"}}  # fmt: skip
    every = ["ADDED web 2", "ADDED a 3", "MODIFIED a 4", "DELETED web 5", "ADDED web 6"]
    for version, more in enumerate((0, 0, 1, 2, 3, 4)):
        assert [facts(each) for each in history.since(Service, version) or ()] == every[more:]
    initial = [facts(each) for each in history.initial(Service)]
    assert initial == ["ADDED a 4", "ADDED web 6", "BOOKMARK 6 k8s.io/initial-events-end"]
    history.put(service("b"))
    assert history.since(Service, 0) is None
    assert len(history.since(Service, 1) or ()) == 6
    assert json.loads(history.listed(EndpointSlice))["apiVersion"] == "discovery.k8s.io/v1"
    assert set(PATHS) == {
        "/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices",
    }  # fmt: skip


# --- Jobs ---

JOB = Job("load", "4711", 4)
SPEC = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
READ = {"metadata": {"uid": "4711"}, "spec": SPEC}
PATH = "/apis/batch/v1/namespaces/load/jobs/load"


def access(port: int) -> FixedAccess:
    """Access to a port, with a token."""
    return FixedAccess(Access(f"http://127.0.0.1:{port}", authorization="Bearer t"))


@contextmanager
def api(answers: list[tuple[int, Any]]) -> Iterator[tuple[JobApi, list[tuple[str, str, bytes]]]]:
    """An API server that answers in turn; what it was asked."""

    def answer() -> tuple[int, bytes]:
        status, found = answers.pop(0)
        return status, found if isinstance(found, bytes) else json.dumps(found).encode()

    with http_server(answer) as (port, asked):
        yield JobApi(access(port), "load"), asked


@pytest.mark.sockets
def test_a_job_and_its_report() -> None:
    """The report is in a list of ConfigMaps as in one of them."""
    with api([(200, READ), (200, {})]) as (found, asked):
        assert found.job("load") == JOB
        assert found.put_report(JOB, 3, b'{"format": "x"}') == "load-3"
    (before, (_, path, octets)) = asked
    assert before == ("GET Bearer t", PATH, b"")
    body = json.loads(octets)
    assert path == "/api/v1/namespaces/load/configmaps/load-3?fieldManager=hsdns-load&force=true"
    assert body["metadata"]["labels"] == {"hsdns-load/job": "load"}
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "load", "uid": "4711"}
    ]
    for each in (body, {"apiVersion": "v1", "items": [body]}):
        assert reports_of(json.dumps(each).encode(), "-") == [("load-3", b'{"format": "x"}')]


@pytest.mark.sockets
def test_where_the_pods_of_a_job_meet() -> None:
    """One that is left of an earlier Job of this name is not the place."""
    with api([(200, {})]) as (found, asked):
        assert found.own_address() == "127.0.0.1"
        found.put_coordinator(JOB, "10.1.2.3", 40_000)
    body = json.loads(asked[0][2])
    old = {**body, "metadata": {"ownerReferences": [{"uid": "4710"}]}}
    with api([(200, {"items": each}) for each in ([], [old], [body])]) as (found, asked):
        places = [found.coordinator(JOB) for _ in range(3)]
    assert places == [None, None, ("10.1.2.3", 40_000)]
    path = "/api/v1/namespaces/load/configmaps?fieldSelector=metadata.name%3Dload-coordinator"
    assert {each[1] for each in asked} == {path}


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([(200, {**READ, "spec": {"completions": 4}})], "--job: the Job load has no indexes; set completionMode: Indexed in its spec"),
        ([(200, {**READ, "spec": {**SPEC, "parallelism": 2}})], "--job: the Job load runs 2 of its 4 generators at a time, and they begin together; set parallelism to completions in its spec"),
        ([(403, {"message": "jobs is forbidden"})], f"the API server answers GET {PATH} with 403: jobs is forbidden"),
        ([(502, b"<html>")], f"the API server answers GET {PATH} with 502: <html>"),
    ],
)  # fmt: skip
def test_what_goes_wrong(answers: list[tuple[int, Any]], sentence: str) -> None:
    with api(answers) as (found, _), pytest.raises(LoadError) as error:
        found.job("load")
    assert str(error.value) == sentence


def test_a_report_that_is_too_large() -> None:
    sentence = (
        "^the report has 1000328 octets when compressed, more than a ConfigMap holds; give a "
    )
    with pytest.raises(LoadError, match=sentence):
        packed(Random(1).randbytes(1_000_000))


@pytest.mark.parametrize(("text", "sentence"), columns(TABLES, "no reports"))
def test_no_reports(text: str, sentence: str) -> None:
    """Without a sentence it is no list, but may be a report."""
    try:
        found = "".join(map(str, reports_of(text.encode(), "-")))
    except LoadError as error:
        found = str(error)
    assert found == sentence


@pytest.mark.sockets
def test_requests_that_write(tmp_path: Path) -> None:
    """A redirect is not followed; without a server or an account there is an error."""

    async def sent(port: int, *request: Any) -> tuple[int, str]:
        writer = ApiWriter(Endpoint([f"http://127.0.0.1:{port}"]))
        try:
            return await writer.send(*request)
        finally:
            await writer.close()

    with api([(307, {})]) as (found, asked):
        port = int(found._source.server.rpartition(":")[2])
        assert asyncio.run(sent(port, "POST", "/x", {"kind": "Namespace"})) == (307, "{}")
    assert [(*each[:2], json.loads(each[2])) for each in asked] == [("POST None", "/x", {"kind": "Namespace"})]  # fmt: skip
    port = free_port()
    with pytest.raises(LoadError, match=r"^--churn-api: .*127.0.0.1"):
        asyncio.run(sent(port, "GET", "/x"))
    with pytest.raises(LoadError, match=f"^--job: http://127.0.0.1:{port} "):
        JobApi(access(port), "load").job("load")
    with pytest.raises(LoadError, match="this is not a pod with a service account"):
        read_namespace(str(tmp_path))
