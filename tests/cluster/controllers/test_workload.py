"""Pods of workloads: names, hostnames, nodes, readiness."""

from __future__ import annotations

import pytest

from tests.support.cluster.object_lines import object_lines, simulated

TEMPLATE = "template: {metadata: {labels: {app: web}}}"


def pods(*files: str) -> list[str]:
    return [line.split("/")[1].split()[0] for line in object_lines(simulated(*files), "Pod")]


def workload(kind: str, spec: str, metadata: str = "", api_version: str = "apps/v1") -> str:
    return (
        f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: web, namespace: shop {metadata}}},"
        f" spec: {{{spec} {TEMPLATE}}}}}\n---\n"
    )


def node(name: str, address: str = "172.18.0.2") -> str:
    return (
        f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: z-{name}}}}},"
        f" status: {{addresses: [{{type: Hostname, address: {name}}}, {{type: InternalIP, address: {address}}}]}}}}\n---\n"
    )


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        pytest.param(workload("StatefulSet", ""), ["web-0"], id="StatefulSet, one by default"),
        pytest.param(
            workload("StatefulSet", "replicas: 3,"), ["web-0", "web-1", "web-2"], id="StatefulSet"
        ),
        pytest.param(
            workload("StatefulSet", "replicas: 2, ordinals: {start: 5},"),
            ["web-5", "web-6"],
            id="ordinals.start",
        ),
        pytest.param(workload("StatefulSet", "replicas: 0,"), [], id="no replicas"),
        pytest.param(workload("StatefulSet", "replicas: null,"), ["web-0"], id="null replicas"),
        pytest.param(
            workload("Deployment", "replicas: 2,"),
            ["web-vkt86hb2dr-lplvm", "web-vkt86hb2dr-z8xl5"],
            id="Deployment",
        ),
        pytest.param(
            workload("ReplicaSet", "replicas: 2,"), ["web-lplvm", "web-z8xl5"], id="ReplicaSet"
        ),
        pytest.param(workload("DaemonSet", ""), ["web-svjvf"], id="DaemonSet without nodes"),
        pytest.param(
            workload("DaemonSet", "") + node("a") + node("b"),
            ["web-b5pfn", "web-xh7mh"],
            id="DaemonSet, two nodes",
        ),
        pytest.param(workload("Job", "", api_version="batch/v1"), ["web-lplvm"], id="Job"),
        pytest.param(
            workload("Job", "parallelism: 5, completions: 2,", api_version="batch/v1"),
            ["web-lplvm", "web-z8xl5"],
            id="Job, no more than its completions",
        ),
        pytest.param(
            workload(
                "Job",
                "parallelism: 2, completions: 4, completionMode: Indexed,",
                api_version="batch/v1",
            ),
            ["web-0-lplvm", "web-1-z8xl5"],
            id="indexed Job",
        ),
        pytest.param(
            workload("Job", "suspend: true,", api_version="batch/v1"), [], id="suspended Job"
        ),
    ],
)
def test_names(manifest: str, names: list[str]) -> None:
    assert pods(manifest) == names


def service(spec: str = "") -> str:
    return (
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop},"
        f" spec: {{clusterIP: None, selector: {{app: web}} {spec}}}}}\n---\n"
    )


def endpoints(*files: str) -> list[tuple[str | None, bool | None, str | None]]:
    """Hostname, readiness and zone of the only slice's endpoints."""
    [found] = [each for each in simulated(*files) if type(each).__name__ == "EndpointSlice"]
    listed = getattr(found, "endpoints")  # noqa: B009  # the type is checked by name one line above
    return [(each.hostname, each.conditions.ready, each.zone) for each in listed]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            workload("StatefulSet", "replicas: 2, serviceName: web,"),
            [("web-0", True, None), ("web-1", True, None)],
            id="StatefulSet has hostnames in its Service",
        ),
        pytest.param(
            workload("StatefulSet", "serviceName: other,"),
            [(None, True, None)],
            id="not in another Service",
        ),
        pytest.param(workload("StatefulSet", ""), [(None, True, None)], id="no serviceName"),
        pytest.param(workload("Deployment", ""), [(None, True, None)], id="Deployment has none"),
        pytest.param(
            workload("Deployment", "replicas: 2,").replace(
                "{labels: {app: web}}}",
                "{labels: {app: web}}, spec: {hostname: one, subdomain: web}}",
            ),
            [("one", True, None), ("one", True, None)],
            id="hostname and subdomain of a template",
        ),
        pytest.param(
            workload("StatefulSet", "replicas: 3,", ', annotations: {hsdns.io/not-ready: "0,2"}'),
            [(None, False, None), (None, True, None), (None, False, None)],
            id="some are not ready",
        ),
        pytest.param(
            workload("StatefulSet", "replicas: 2,", ', annotations: {hsdns.io/ready: "false"}'),
            [(None, False, None), (None, False, None)],
            id="none is ready",
        ),
        pytest.param(
            workload(
                "StatefulSet",
                "replicas: 2, ordinals: {start: 4},",
                ', annotations: {hsdns.io/not-ready: "5"}',
            ),
            [(None, True, None), (None, False, None)],
            id="ordinals count, not positions",
        ),
        pytest.param(
            workload("DaemonSet", "") + node("a") + node("b"),
            [(None, True, "z-b"), (None, True, "z-a")],
            id="zone of the node",
        ),
    ],
)
def test_endpoints(
    manifest: str, expected: list[tuple[str | None, bool | None, str | None]]
) -> None:
    assert endpoints(service(), manifest) == expected


def test_pods_on_the_host_network_have_their_nodes_address() -> None:
    agent = workload("DaemonSet", "").replace(
        "{labels: {app: web}}}", "{labels: {app: web}}, spec: {hostNetwork: true}}"
    )
    found = object_lines(simulated(agent, node("a", "172.18.0.2"), node("b", "172.18.0.3")), "Pod")
    assert found == [
        "Pod shop/web-b5pfn 172.18.0.3 Running",
        "Pod shop/web-xh7mh 172.18.0.2 Running",
    ]


def pod(
    name: str, owner: str, status: str = "phase: Running, podIP: 10.1.1.1", labels: str = "app: web"
) -> str:
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, labels: {{{labels}}},"
        f" ownerReferences: [{owner}]}}, status: {{{status}}}}}\n---\n"
    )


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        pytest.param(
            workload("StatefulSet", "replicas: 2,")
            + pod("web-0", "{kind: StatefulSet, name: web}"),
            ["web-0"],
            id="StatefulSet",
        ),
        pytest.param(
            workload("Deployment", "replicas: 2,")
            + pod(
                "web-75f-x", "{kind: ReplicaSet, name: web-75f}", labels="pod-template-hash: 75f"
            ),
            ["web-75f-x"],
            id="Deployment, by way of its ReplicaSet",
        ),
        pytest.param(
            workload("StatefulSet", "replicas: 2,") + pod("db-0", "{kind: StatefulSet, name: db}"),
            ["db-0", "web-0", "web-1"],
            id="another owner's pods do not count",
        ),
        pytest.param(
            workload("StatefulSet", "replicas: 2,") + pod("web-1", ""),
            ["web-0", "web-1"],
            id="a pod written out stands for the one of its name",
        ),
        pytest.param(
            workload("Deployment", "replicas: 1,")
            + workload("ReplicaSet", "", ", ownerReferences: [{kind: Deployment, name: web}]"),
            ["web-vkt86hb2dr-lplvm"],
            id="a Deployment and its ReplicaSet are one",
        ),
    ],
)
def test_pods_that_are_there_are_used(manifest: str, names: list[str]) -> None:
    assert pods(manifest) == names


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param("", [(None, True, None)], id="none: simulated"),
        pytest.param(
            "podIP: 10.1.1.1", [(None, True, None)], id="only an address: simulated there"
        ),
        pytest.param(
            "phase: Running, podIP: 10.1.1.1, conditions: [{type: Ready, status: 'True'}]",
            [(None, True, None)],
            id="Ready",
        ),
        pytest.param(
            "phase: Running, podIP: 10.1.1.1, conditions: [{type: Ready, status: 'False'}]",
            [(None, False, None)],
            id="not Ready",
        ),
        pytest.param(
            "phase: Running, podIP: 10.1.1.1", [(None, False, None)], id="no Ready condition"
        ),
    ],
)
def test_status_of_a_pod(
    status: str, expected: list[tuple[str | None, bool | None, str | None]]
) -> None:
    assert endpoints(service(), pod("web-0", "", status)) == expected


@pytest.mark.parametrize(
    ("status", "line"),
    [
        pytest.param("phase: Succeeded, podIP: 10.1.1.1", [], id="Succeeded"),
        pytest.param("phase: Failed, podIP: 10.1.1.1", [], id="Failed"),
        pytest.param(
            "phase: Pending", ["Pod shop/web-0 - Pending"], id="Pending stays without address"
        ),
        pytest.param(
            "podIPs: [{ip: 'fd00::1'}, {ip: 10.1.1.1}]",
            ["Pod shop/web-0 fd00::1 Running"],
            id="first of podIPs",
        ),
    ],
)
def test_pod_objects(status: str, line: list[str]) -> None:
    assert object_lines(simulated(service(), pod("web-0", "", status)), "Pod") == line
