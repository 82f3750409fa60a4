"""Lookups with answers that are known, assumed and not seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hsdns.assemble import Configuration
from hsdns.cli.launch import CorefileSource, build
from hsdns.explanation.client import UNREAD_POLICIES, Client, ClientPod, Lookups, client_cause
from hsdns.explanation.question import QuestionError
from hsdns.resolver.cli import chain_of
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from tests.plugins.kubernetes.test_watch import ApiThread, service
from tests.support.coroutines.eager import turns

# Causes in the asker, each proved by a lookup without it; tests/explanation/test_lookup.py has a row for each kind.


async def ask_of_asker_causes(wire: bytes, transport: str, at: float) -> tuple[bytes | None, str]:
    """Only db.shop.svc.cluster.local exists."""
    query = decode(wire)
    if query.qname.to_text() != "db.shop.svc.cluster.local.":
        return encode(query, Reply(Rcode.NXDOMAIN, aa=True), 512), ""
    return encode(query, Reply(answer=(RR(query.qname, RRType.A, 5, b"\xc0\0\2\1"),), aa=True), 512), ""  # fmt: skip


def cause(name: str, asker: Client) -> tuple[str, str, str] | None:
    async def found() -> tuple[str, str, str] | None:
        lookups, setting = Lookups(ask_of_asker_causes, name, (RRType.A,)), asker.settings[0]
        cause = await client_cause(asker, lookups, setting, await lookups.look_up(setting))
        return None if cause is None else (cause.cause, cause.needed, cause.found)

    return turns(found())[0]


def test_the_first_thing_without_which_it_resolves() -> None:
    asker = Client(("go",), "search a.test\nnameserver 10.0.0.1\n", "cluster.local", ("other", "shop"))  # fmt: skip
    assert cause("db", asker) == (
        "the search list has no shop.svc.cluster.local, where db exists; it has a.test",
        "db.shop.svc.cluster.local is asked",
        "db.shop.svc.cluster.local",
    )


def test_none_where_nothing_helps() -> None:
    assert cause("x", Client(("go",), "search a.test\n", "cluster.local", ("shop",))) is None


# The pod that asks, and where the address of its DNS is from.


COREFILE = "kube.test {\nkubernetes {\nSOURCE\n}\n}\n"
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  dnsConfig: {nameservers: [192.0.2.1], searches: [x.test], options: [{name: edns0}, {name: ndots, value: "2"}]}
status: {phase: Running, podIP: 10.244.0.7, podIPs: [{ip: 10.244.0.7}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {dnsPolicy: Default}}
---
apiVersion: v1
kind: Pod
metadata: {name: typo, namespace: shop}
spec: {dnsPolicy: Clusterfirst}
---
apiVersion: v1
kind: Pod
metadata: {name: none, namespace: shop}
spec: {dnsPolicy: None}
---
apiVersion: v1
kind: Pod
metadata: {name: name, namespace: shop}
spec: {dnsConfig: {nameservers: [dns]}}
"""


def configuration(
    folder: Path, source: str = "source manifests pods.yaml", more: str = ""
) -> Configuration:
    (folder / "pods.yaml").write_text(PODS + more)
    (folder / "Corefile").write_text(COREFILE.replace("SOURCE", source))
    return build(
        CorefileSource(str(folder / "Corefile"), "").load(), 53, warn=lambda sentence: None
    )


def find(found: Configuration, path: str, given: str = "") -> ClientPod:
    async def read() -> ClientPod:
        async with chain_of(found) as chain:
            return await chain.find_pod(path, given)

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("web", '-from needs a namespace and a pod, as in shop/web-0, found "web"'),
        ("shop/", '-from needs a namespace and a pod, as in shop/web-0, found "shop/"'),
        ("shop/wbe", 'the source has no pod shop/wbe; did you mean "shop/web"?'),
        ("shop/typo", 'dnsPolicy of the pod shop/typo is "Clusterfirst", which is none; did you mean "ClusterFirst"?'),
        ("shop/none", "the pod shop/none has dnsPolicy None, but no nameserver in its dnsConfig"),
        ("shop/name", 'dnsConfig of the pod shop/name has the nameserver "dns", which is no IP address'),
    ],
)  # fmt: skip
def test_errors(path: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as raised:
        find(configuration(tmp_path), path)
    assert str(raised.value) == error


def test_other_sources_have_no_pods(tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as raised:
        find(configuration(tmp_path, "source synthetic services=3"), "shop/web")
    assert str(raised.value).startswith(
        "-from needs a source with pods, manifests or an API server, and here is synthetic "
    )


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match=r'^-cluster-dns needs an IP address, found "dns"$'):
        find(configuration(tmp_path), "shop/web", "dns")


@pytest.mark.sockets
def test_of_an_api_server(tmp_path: Path) -> None:
    """What a kubelet writes is not taken for granted where the cluster does not say it."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"dnsPolicy": "ClusterFirst"}, "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }  # fmt: skip
    dns = service("kube-dns", "10.43.0.10")
    dns["metadata"]["namespace"] = "kube-system"
    with ApiThread() as api:
        api.apply(pod)
        with pytest.raises(QuestionError, match="is not known; give it with -cluster-dns ADDRESS"):
            find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/web-0")
        api.apply(dns)
        found = find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/web-0")
        told = "the cluster's DNS is 10.43.0.10, the cluster IP of Service kube-system/kube-dns"
        assert (found.address, found.server) == ("10.0.0.1", "10.43.0.10")
        assert found.remarks == (told, UNREAD_POLICIES)
