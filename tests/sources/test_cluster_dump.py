"""A dump of a cluster: pages, rights, and what is left out of objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Raw

from hsdns.apiserver.transport import Obstacles, Unreachable
from hsdns.sources.cluster_dump import KINDS, NOTE, RUNNING, collect, pruner, unread_kinds
from tests.support.tables import Row, rows

KIND = {each.kind: each for each in KINDS}


class Answer:
    headers: Mapping[str, str] = {}

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self._body = status, body

    async def feed(self, take: Callable[[bytes], bool], read_timeout: Callable[[], float]) -> None:
        for piece in (self._body[:3], self._body[3:]):
            if not take(piece):
                return

    async def text(self, limit: int) -> str:
        return self._body[:limit].decode()


class Server:
    """A Transport to lists by path, each of which is cut into pages of one object; a number is a status."""

    server = "https://192.0.2.1:6443"

    def __init__(self, lists: Mapping[str, Any]) -> None:
        self.lists = lists
        self.obstacles = Obstacles()
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def reach(self) -> None:
        raise AssertionError("nothing is watched")

    def cut(self, matches: Callable[[str], bool], error: OSError) -> None:
        raise AssertionError("no active rules")

    def redact(self, text: str) -> str:
        return text.replace("secret", "***")

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = ""
    ) -> AsyncIterator[Answer]:
        assert not accept
        self.asked.append((path, query))
        found = self.lists.get(path, [])
        if isinstance(found, bytes):
            yield Answer(200, found)
        elif isinstance(found, int):
            yield Answer(found, b'{"message": "secret failure"}')
        else:
            wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
            found = [each for each in found if not wanted or each["metadata"]["name"] == wanted]
            at = int(query.get("continue", "0"))
            metadata = {"continue": str(at + 1)} if at + 1 < len(found) else {}
            page = {"kind": "XList", "metadata": metadata, "items": found[at : at + 1]}
            yield Answer(200, json.dumps(page).encode())


DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NO_ANSWERS = "no DNS server is queried with --source; the file has no answers"
NO_MEMORY = "there are no figures of it, of metrics.k8s.io (PodMetrics)"
NO_QUERIES = "no recording is given; name one with --recording"


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, **more}


def dump_of(server: Server, namespace: str = "") -> Any:
    return json.loads(asyncio.run(collect(server, namespace)).encode())


def test_all_pages_of_all_kinds_are_read() -> None:
    server = Server(
        {"/api/v1/services": [named("a"), named("b")], "/apis/apps/v1/deployments": [named("c")]}
    )
    dump = dump_of(server)
    found = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in dump["items"]]
    assert found == [("v1", "Service", "a"), ("v1", "Service", "b"), ("apps/v1", "Deployment", "c")]
    assert server.asked[:2] == [
        ("/api/v1/services", {"limit": "500"}),
        ("/api/v1/services", {"limit": "500", "continue": "1"}),
    ]
    assert unread_kinds(json.dumps(dump).encode()) == {
        "answers": NO_ANSWERS,
        "memory of the cluster's DNS": NO_MEMORY,
        "queries": NO_QUERIES,
    }


def test_one_namespace() -> None:
    server = Server({})
    dump_of(server, "shop")
    paths = dict.fromkeys(path for path, _ in server.asked)
    assert list(paths) == Path(__file__).with_name("dump_of_shop.txt").read_text().splitlines()
    dns = ("/api/v1/namespaces/kube-system/pods", {"limit": "500", "labelSelector": "k8s-app=kube-dns"})  # fmt: skip
    assert dns in server.asked
    assert {query["fieldSelector"] for path, query in server.asked if "configmaps" in path} == {
        f"metadata.name={name}"
        for name in ("coredns", "node-local-dns", "coredns-custom", "hsdns", "kubelet-config")
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (403, "no right to list pods (403)"),
        (401, "the server rejects the credentials (401)"),
        (404, "the server does not know v1 pods (404)"),
        (500, "pods could not be read: *** failure (500)"),
        (b"[]", "the server's response for pods is not a list"),
        (b"{", "the server's response for pods is not a list"),
        (b'{"items": [{"spec": 5}]}', "the server's response for pods is invalid: Expected `object | null`, got `int` - at `$.spec`"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_noted(answer: object, reason: str) -> None:
    dump = dump_of(Server({"/api/v1/pods": answer, "/api/v1/services": [named("a")]}))
    assert json.loads(dump["metadata"]["annotations"][NOTE]) == {"pods": reason}
    assert unread_kinds(json.dumps(dump).encode()) == {
        "pods": reason,
        "answers": NO_ANSWERS,
        "memory of the cluster's DNS": NO_MEMORY,
        "queries": NO_QUERIES,
    }
    assert len(dump["items"]) == 1


def test_the_role_of_the_manifest_allows_what_is_read() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "doctor" / "base" / "rbac.yaml").read_text()))
    rules = [rule for each in documents for rule in each.get("rules", ())]
    for kind in KINDS:
        group = kind.group_version.rpartition("/")[0]
        (rule,) = (each for each in rules if group in each["apiGroups"] and kind.plural in each["resources"])  # fmt: skip
        assert set(rule.get("resourceNames", ())) == set(kind.names)
        assert set(rule["verbs"]) <= {"list", "watch"}
    watched = {each for rule in rules if "watch" in rule["verbs"] for each in rule["resources"]}
    assert watched == {"services", "endpointslices", "namespaces"}


def test_the_account_of_the_job_has_the_roles() -> None:
    folder = DEPLOY / "doctor" / "job"
    (job,) = yaml.safe_load_all((folder / "job.yaml").read_text())
    account, *bindings = yaml.safe_load_all((folder / "serviceaccount.yaml").read_text())
    subject = {"kind": account["kind"], **account["metadata"]}
    roles = yaml.safe_load_all((DEPLOY / "doctor" / "base" / "rbac.yaml").read_text())
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    assert bound == {(each["kind"], each["metadata"]["name"]) for each in roles}
    assert [each["subjects"] for each in bindings] == [[subject]] * 2
    pod = job["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], job["metadata"]["namespace"]) == (subject["name"], subject["namespace"])  # fmt: skip


def test_nothing_at_all_can_be_read() -> None:
    paths = {each.path("") for each in KINDS}
    with pytest.raises(Unreachable, match="no right to list services"):
        asyncio.run(collect(Server(dict.fromkeys(paths, 403))))


def test_answers_are_part_of_a_dump() -> None:
    dump = asyncio.run(collect(Server({})))
    dump.add({"kind": "DnsServer"})
    dump.unread["memory of the cluster's DNS"] = "why"
    assert json.loads(dump.encode())["items"] == [{"kind": "DnsServer"}]
    lacking = {"memory of the cluster's DNS": "why", "queries": NO_QUERIES}
    assert unread_kinds(dump.encode()) == dump.lacking == lacking


@pytest.mark.parametrize(
    ("kind", "word"),
    [("Deployment", RUNNING), ("StatefulSet", RUNNING), ("DaemonSet", RUNNING), ("Job", "pods")],
)
def test_a_file_of_workloads_has_their_pods_but_none_that_run(kind: str, word: str) -> None:
    lacking = unread_kinds(f"kind: Service\n---\nkind: {kind}\n".encode())
    assert {"pods", RUNNING} & lacking.keys() == {word}


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("dumped.txt")))
def test_what_an_object_keeps(row: Row) -> None:
    item = yaml.safe_load(row.given)
    kind = KIND[item.pop("kind")]
    (expected,) = map(yaml.safe_load, row.expected)
    found = pruner(kind)(Raw(json.dumps(item).encode()))
    assert json.loads(found) == {**expected, "kind": kind.kind}
    assert b"hunter2" not in found


def test_the_domain_of_istiod_is_read_beside_a_namespace_if_it_may_be() -> None:
    path = "/apis/apps/v1/namespaces/istio-system/deployments"
    dump = dump_of(Server({path: 403}), "shop")
    assert unread_kinds(json.dumps(dump).encode())["istiod"] == "no right to list deployments (403)"


METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/kube-system/pods"


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ({METRICS: [named("coredns-a")]}, None),
        ({}, NO_MEMORY),
        ({METRICS: 404}, "the server does not know metrics.k8s.io/v1beta1 pods (404)"),
        ({METRICS: 403}, "no right to list pods (403)"),
    ],
)
def test_the_memory_of_the_dns_is_read_where_it_is_served(
    lists: dict[str, Any], reason: str | None
) -> None:
    unread = unread_kinds(json.dumps(dump_of(Server(lists))).encode())
    assert unread.get("memory of the cluster's DNS") == reason
    assert "pods" not in unread
