"""Manifests give the same answers whether they are read as files or applied to a real API server.

A real one is asked where KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver, and what one replied was recorded
for all others.  No controllers run beside it, so both ways, what controllers make is simulated.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hsdns.cluster.address import dashed_text
from hsdns.cluster.controllers.defaults import with_defaults
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.kinds import KINDS, Manifest
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import EndpointSlice, Object, Service
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.wire.text import rdata_to_text
from tests.support.apiserver.real_api import RealApi, missing_assets
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.manifests.generated import generated
from tests.support.manifests.mistakes import Mistake, mistakes
from tests.support.peer_replies import API_SERVER, IS_RECORDING, Entry
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

APPLIED = Path(__file__).resolve().parents[1] / "support/manifests/applied"
Store = Callable[[str], list[Any]]
ZONE = "svc.cluster.local"
# Labels with which the API server ties a Job to its pods; they contain its uid.
_OF_JOBS = ("batch.kubernetes.io/", "controller-uid", "job-name")


def in_files() -> Iterator[Any]:
    for path in sorted(APPLIED.glob("*.yaml")):
        yield pytest.param(path.read_text(), id=path.stem)
    for seed in range(30):
        text = yaml.safe_dump_all(generated(seed), sort_keys=False)
        yield pytest.param(text, id=f"generated-{seed}")


@pytest.mark.parametrize(("name", "number"), values(TABLES, "a port without protocol is tcp"))
def test_a_port_without_protocol_is_tcp(name: str, number: int) -> None:
    text = (APPLIED / "by-hand.yaml").read_text().replace("port: 5432", "name: http, port: 5433")
    objects = simulate(documents(text.replace("{port: 3306}", "{name: http, port: 3306}")))
    asked_for = f"_http._tcp.{name}.{ZONE} SRV"
    rcode, answers, _ = replies(objects, [asked_for])[asked_for]
    assert rcode == 0
    assert answers
    assert all(f" {number} " in each for each in answers)


@pytest.fixture(scope="module")
def api() -> Iterator[RealApi | None]:
    if missing_assets():
        yield None
        return
    with RealApi(service_networks="10.96.0.0/16,fd00:10:96::/112") as found:
        yield found


@pytest.fixture(scope="module")
def store(api: RealApi | None) -> Store:
    """Stores the objects of a text once, and returns them with what the API server has filled in."""
    return functools.cache(lambda text: [post(api, each) for each in manifests(text)])


@pytest.mark.parametrize("text", list(in_files()))
def test_same_answers(text: str, store: Store) -> None:
    stored = store(text)
    as_file = simulate(documents(text))
    as_stored = simulate(documents(with_equal_cluster_ips(stored, as_file)))
    questions = sorted({*asked(as_file), *asked(as_stored)})
    found = replies(as_file, questions)
    assert replies(as_stored, questions) == found
    assert any(answers for _, answers, _ in found.values())


@pytest.mark.parametrize("text", list(in_files()))
def test_same_fields(text: str, store: Store) -> None:
    """Those that no answer shows here, too; and no default is set that the API server does not set."""
    for before, stored in zip(manifests(text), store(text), strict=True):
        found = decoded(stored)
        assert with_defaults(stored["kind"], found) == found
        (document,) = documents(json.dumps(before))
        assert document.object is not None
        assert fields(document.object) == fields(found)


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, id=each.id) for each in mistakes("refused") if each.judged]
)
def test_mistakes_are_refused_by_both(mistake: Mistake, api: RealApi | None) -> None:
    """But for those that the API server is known to store."""
    status, answer = ask(api, mistake.manifest, dry_run=True)
    assert (status < 400) is mistake.stored, answer


@pytest.mark.parametrize(
    "example", [pytest.param(each, id=each.id) for each in mistakes("accepted")]
)
def test_what_is_unusual_is_accepted_by_both(example: Mistake, api: RealApi | None) -> None:
    documents(json.dumps(example.manifest))
    status, answer = ask(api, example.manifest, dry_run=True)
    assert status < 400, answer


# --- both ways ---


def manifests(text: str) -> list[Any]:
    found: list[Any] = []
    for each in yaml.safe_load_all(text):
        found += each["items"] if each["kind"] == "List" else [each]
    return found


def documents(text: str) -> list[Document]:
    found = read_manifest_file(text.encode(), "a.yaml")
    assert found.problems == []
    return found.documents


def decoded(stored: Any) -> Manifest:
    group = stored["apiVersion"].rpartition("/")[0]
    return msgspec.convert(stored, KINDS[group, stored["kind"]])


def post(api: RealApi | None, manifest: Any) -> Any:
    """What the API server stores; the status of a Pod is that of the manifest, since no kubelet reports one."""
    status, stored = ask(api, manifest)
    assert status < 400, stored
    if manifest["kind"] == "Pod":
        stored["status"] = manifest.get("status", {})
    return stored


def ask(api: RealApi | None, manifest: Any, *, dry_run: bool = False) -> tuple[int, Any]:
    """The status and the answer of the real API server if there is one, else those that are recorded."""
    query = "?dryRun=All" if dry_run else ""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    key = f"{manifest['kind']}{query} {digest}"
    if api is None:
        status, answer = API_SERVER.found(key).data
        return status, answer
    status, answer = create(api, manifest, query)
    answer.get("metadata", {}).pop("managedFields", None)
    if IS_RECORDING:
        API_SERVER.save(Entry(key, data=(status, answer)))
    else:
        recorded, _ = API_SERVER.found(key).data
        assert recorded == status, f"{key}: {API_SERVER.command}"
    return status, answer


def create(api: RealApi, manifest: Any, query: str) -> tuple[int, Any]:
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    prefix = f"/{'apis' if '/' in version else 'api'}/{version}"
    if kind != "Namespace":
        namespace = metadata.get("namespace", "default")
        named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        status, answer = api.ask("POST", "/api/v1/namespaces", named)
        assert status < 400 or status == 409, answer
        prefix += f"/namespaces/{namespace}"
    plural = "endpoints" if kind == "Endpoints" else f"{kind.lower()}s"
    status, answer = api.ask("POST", f"{prefix}/{plural}{query}", manifest)
    if kind == "Namespace" and status == 409:
        return api.ask("GET", f"{prefix}/{plural}/{metadata['name']}")
    return status, answer


def with_equal_cluster_ips(stored: list[Any], wanted: Iterable[Object]) -> str:
    """What is stored as a file, with the addresses that hsdns chooses in place of those that the API server chose."""
    chosen = {
        (each.metadata.namespace, each.metadata.name): each.spec.cluster_ips or []
        for each in wanted
        if isinstance(each, Service)
    }
    for each in stored:
        if each["kind"] == "Service" and "clusterIPs" in each["spec"]:
            spec, metadata = each["spec"], each["metadata"]
            ours = chosen[metadata["namespace"], metadata["name"]]
            assert len(ours) == len(spec["clusterIPs"])
            spec["clusterIPs"], spec["clusterIP"] = ours, ours[0]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": stored})


# --- the fields and the answers ---


def fields(found: Manifest) -> Any:
    """The fields that are set, without those that the server alone knows."""
    built = msgspec.to_builtins(found)
    built["metadata"] = {
        name: value for name, value in built["metadata"].items() if name in ("name", "labels")
    }
    if isinstance(found, Service):
        for name in ("clusterIP", "clusterIPs", "ipFamilies"):
            built["spec"].pop(name, None)
    if built.get("spec", {}).get("completionMode"):
        # The Job, too, has the labels of its template, to which the API server adds some with the uid.
        del built["metadata"]["labels"]
        labels = built["spec"]["template"]["metadata"]["labels"]
        for name in [each for each in labels if each.startswith(_OF_JOBS)]:
            del labels[name]
    built.pop("status", None)
    return pruned(built)


def pruned(value: Any) -> Any:
    """Without what is empty: the API server leaves it out."""
    if isinstance(value, dict):
        found = {name: pruned(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each not in (None, "", False, {}, [])}
    if isinstance(value, list):
        return [pruned(each) for each in value]
    return value


def asked(objects: Iterable[Object]) -> Iterator[str]:
    """Every name of the objects with each type, and names of ports with each protocol."""
    ports = {"http"}
    for each in objects:
        if isinstance(each, Service):
            name = f"{each.metadata.name}.{each.metadata.namespace}.{ZONE}"
            ports |= {port.name for port in each.spec.ports or () if port.name}
            yield from (f"{name} {rrtype}" for rrtype in ("A", "AAAA", "CNAME", "SRV"))
            for address in each.spec.cluster_ips or ():
                if address != "None":
                    yield f"{reverse(address)} PTR"
        elif isinstance(each, EndpointSlice):
            owner = (each.metadata.labels or {})["kubernetes.io/service-name"]
            name = f"{owner}.{each.metadata.namespace}.{ZONE}"
            ports |= {port.name for port in each.ports or () if port.name}
            for endpoint in each.endpoints or ():
                for address in endpoint.addresses or ():
                    label = endpoint.hostname or dashed_text(address).decode()
                    yield from (f"{label}.{name} {rrtype}" for rrtype in ("A", "AAAA", "SRV"))
                    yield f"{reverse(address)} PTR"
        else:
            continue
        for port in sorted(ports):
            yield from (f"_{port}._{way}.{name} SRV" for way in ("tcp", "udp", "sctp"))


def reverse(address: str) -> str:
    return ip_address(address).reverse_pointer


def replies(objects: list[Object], questions: Iterable[str]) -> dict[str, Any]:
    cluster = Cluster(*objects, existing=())
    found = {}
    for question in questions:
        reply = cluster.ask(question)
        sections = (reply.answer, reply.additional)
        records = [
            sorted(
                f"{rr.owner} {rr.ttl} {rr.rrtype} {rdata_to_text(rr.rrtype, rr.rdata)}"
                for rr in section
            )
            for section in sections
        ]
        found[question] = (reply.rcode, *records)
    return found
