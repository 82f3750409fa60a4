"""Lookups with answers that are known, assumed and not seen."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
import yaml

from hsdns.ask.names import read_word
from hsdns.assemble import Configuration
from hsdns.cli.launch import CorefileSource, build
from hsdns.cli.offline import kubernetes_blocks, reading, started
from hsdns.explanation.client import Client, ClientPod, Lookups, Response, client_cause, client_of
from hsdns.explanation.question import LookupQuestion, QuestionError
from hsdns.resolver.cli import LEFT_OUT
from hsdns.resolver.model import Answer, Packet
from hsdns.server.explaining import name_of
from hsdns.wire.iana import Rcode, RRType
from tests.plugins.kubernetes.test_watch import ApiThread, service
from tests.support.coroutines.eager import turns
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

# Causes in the asker, each proved by a lookup without it; tests/explanation/test_question.py has a row for each kind.


async def respond(packet: Packet, server: str) -> Response:
    """Only db.shop.svc.cluster.local exists."""
    if packet.name != "db.shop.svc.cluster.local":
        return Response((0.0, Answer(Rcode.NXDOMAIN)))
    return Response((0.0, Answer(addresses=("192.0.2.1",))))


def cause(name: str, asker: Client) -> tuple[str, str, str] | None:
    async def found() -> tuple[str, str, str] | None:
        lookups, setting = Lookups(respond, name, (RRType.A,)), asker.settings[0]
        cause = await client_cause(asker, lookups, setting, await lookups.look_up(setting))
        return None if cause is None else (cause.cause, cause.needed, cause.found)

    return turns(found())[0]


def test_the_first_thing_without_which_it_resolves() -> None:
    asker = Client(("go",), "search a.test\nnameserver 10.0.0.1\n", "cluster.local", ("other", "shop"))  # fmt: skip
    assert cause("db", asker) == (
        "the search list has no shop.svc.cluster.local, where db exists; it has a.test",
        "use db.shop.svc.cluster.local",
        "db.shop.svc.cluster.local",
    )


def test_none_where_nothing_helps() -> None:
    assert cause("x", Client(("go",), "search a.test\n", "cluster.local", ("shop",))) is None


# The pod that asks, and where the address of its DNS is from.


COREFILE = "kube.test {\nkubernetes {\nSOURCE\n}\n}\n"
PODS = Path(__file__).with_name("pods.yaml").read_text()


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
        async with reading(found, (), LEFT_OUT) as (runtime, _):
            question = LookupQuestion("db", (RRType.A,), ("glibc",), path, cluster_dns=given)
            pod = (await client_of(found, question, partial(runtime.in_watch, seconds=10))).pod
            assert pod is not None
            return pod

    return asyncio.run(read())


@pytest.mark.parametrize(("path", "error"), values(TABLES, "errors"))
def test_errors(path: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as raised:
        find(configuration(tmp_path), path)
    assert str(raised.value) == error


def test_a_short_name_before_the_cluster_is_read(tmp_path: Path) -> None:
    found = configuration(tmp_path, "endpoint http://127.0.0.1:1")

    async def meant(text: str, namespace: str = "") -> str:
        async with started(found, kubernetes_blocks(found)) as runtime:
            return await name_of(runtime, read_word(text, namespace))

    assert asyncio.run(meant("web", "shop")) == "web.shop.svc.kube.test."
    assert asyncio.run(meant("web.kube.test")) == "web.kube.test"
    with pytest.raises(
        QuestionError, match=r"so whether web\.shop is one of its names is not known"
    ):
        asyncio.run(meant("web.shop"))


def test_other_sources_have_no_pods(tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as raised:
        find(configuration(tmp_path, "source synthetic services=3"), "shop/web")
    assert str(raised.value).startswith(
        "--from needs a source with pods, manifests or an API server, and here is synthetic "
    )


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match=r'^--cluster-dns needs an IP address, found "dns"$'):
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
        with pytest.raises(QuestionError, match="is not known; give it with --cluster-dns ADDRESS"):
            find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/web-0")
        api.apply(dns)
        found = find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/web-0")
        told = "the cluster's DNS is 10.43.0.10, the cluster IP of Service kube-system/kube-dns"
        assert (found.address, found.server) == ("10.0.0.1", "10.43.0.10")
        assert (found.denied, found.remarks) == ((), (told,))
        api.api.cluster.revoke("networkpolicies")
        found = find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/web-0")
        unknown = (
            "NetworkPolicies are not known (no right to list networkpolicies (403)); "
            "one of them may keep the Pod from the DNS"
        )
        assert (found.denied, found.remarks) == ((), (told, unknown))


# What surrounds the pod, as files and at an API server: both are read alike.

KUBE_DNS = """
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: {k8s-app: kube-dns}, ports: [{name: dns, port: 53, protocol: UDP}]}
"""
ON_NODES = """
apiVersion: v1
kind: Pod
metadata: {name: nodelocal-x, namespace: kube-system, labels: {k8s-app: node-local-dns}}
spec: {hostNetwork: true, dnsPolicy: Default, containers: [{name: a, image: "x/k8s-dns-node-cache:1", args: ARGS}]}
status: {phase: Running, podIP: 192.0.2.7, podIPs: [{ip: 192.0.2.7}]}
"""
KUBELETS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kubelet-config, namespace: kube-system}
data:
  kubelet: |
    kind: KubeletConfiguration
    clusterDNS: [169.254.20.10]
"""
POLICY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: own, namespace: shop}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress: [{to: [TO], ports: [{port: 53, protocol: UDP}, {port: 53}]}]
"""
TO_PODS = POLICY.replace(
    "TO", "{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}"
)
TO_NODE = POLICY.replace("TO", "{ipBlock: {cidr: 169.254.20.10/32}}")
NODE, ITSELF = "NetworkPolicy shop/own allows no port 53 to 169.254.20.10", "a container of the Pod"
OF_POD = "node-local, of Pod kube-system/nodelocal-x"
SPEC = "dnsPolicy: None, dnsConfig: {nameservers: [169.254.20.10]}, containers: [{name: a, image: nginx}]"
LOOPBACK = "dnsPolicy: None, dnsConfig: {nameservers: [127.0.0.1]}, "


@pytest.mark.sockets
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize(
    ("spec", "around", "server", "denied", "remark"),
    [
        (SPEC, [KUBE_DNS, ON_NODES.replace("ARGS", '[-localip, "169.254.20.10,10.96.0.10"]')], "169.254.20.10", "", f"it queries 169.254.20.10, {OF_POD}"),
        (SPEC, [KUBE_DNS, ON_NODES.replace("ARGS", "[-localip=169.254.20.10]"), TO_PODS], "169.254.20.10", NODE, f"it queries 169.254.20.10, {OF_POD}"),
        (SPEC, [KUBE_DNS, ON_NODES.replace("ARGS", "[]"), TO_NODE], "169.254.20.10", "", f"it queries 169.254.20.10, {OF_POD}"),
        (SPEC, [KUBE_DNS], "10.96.0.10", "", ""),
        ("containers: []", [KUBE_DNS, KUBELETS, TO_PODS], "169.254.20.10", "", ""),
        ("containers: []", [KUBE_DNS, TO_NODE], "10.96.0.10", "NetworkPolicy shop/own allows no port 53 to the cluster's DNS", ""),
        (f"{LOOPBACK}containers: [{{name: d, image: 'r.io/hsdns/hsdns:1@sha256:0'}}]", [KUBE_DNS, TO_NODE], "127.0.0.1", "", f"it queries 127.0.0.1, {ITSELF}"),
        (f"{LOOPBACK}initContainers: [{{name: d, image: coredns/coredns, restartPolicy: Always}}]", [KUBE_DNS], "::1", "", f"it queries 127.0.0.1, {ITSELF}"),
        (f"{LOOPBACK}initContainers: [{{name: d, image: coredns/coredns}}]", [KUBE_DNS], "10.96.0.10", "", ""),
        (SPEC, [KUBE_DNS, ON_NODES.replace("ARGS", "[interface, --name, dns, --address, 169.254.20.10]").replace("k8s-dns-node-cache", "hsdns")], "169.254.20.10", "", f"it queries 169.254.20.10, {OF_POD}"),
        ("containers: []", [KUBE_DNS, ON_NODES.replace("ARGS", '[-localip, "169.254.20.10,10.96.0.10"]'), TO_PODS], "10.96.0.10", "", ""),
        (SPEC.replace("20.10]", "20.10, 10.96.0.10]"), [KUBE_DNS, ON_NODES.replace("ARGS", "[]"), TO_PODS], "169.254.20.10", "", f"it queries 169.254.20.10, {OF_POD}"),
    ],
)  # fmt: skip
def test_where_the_dns_answers_a_pod(
    spec: str, around: list[str], server: str, denied: str, remark: str, *, is_live: bool, tmp_path: Path
) -> None:  # fmt: skip
    pod = f"""
apiVersion: v1
kind: Pod
metadata: {{name: app, namespace: shop}}
spec: {{{spec}}}
status: {{phase: Running, podIP: 10.244.0.8, podIPs: [{{ip: 10.244.0.8}}]}}
"""
    texts = [pod, *around]
    if not is_live:
        found = find(configuration(tmp_path, more="---".join(["", *texts])), "shop/app")
    else:
        with ApiThread() as api:
            api.apply(*map(yaml.safe_load, texts))
            found = find(configuration(tmp_path, f"endpoint {api.api.url}"), "shop/app")
    assert server in found.servers
    assert [each.sentence for _, each in found.denied][:1] == [denied] * bool(denied)
    assert [each for each in found.remarks if not each.startswith("the cluster's DNS")] == [remark] * bool(remark)  # fmt: skip
