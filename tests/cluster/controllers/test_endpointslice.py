"""EndpointSlices of Services with a selector: ports, families, readiness, sizes, names."""

from __future__ import annotations

import pytest

from hsdns.cluster.controllers.defaults import with_defaults
from hsdns.cluster.controllers.endpointslice import slices_of
from hsdns.cluster.controllers.kinds import (
    Container,
    ContainerPort,
    OwnedMeta,
    PodManifest,
    PodSpec,
)
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import EndpointSlice, ObjectMeta, Service, ServicePort, ServiceSpec
from tests.support.cluster.object_lines import object_lines


def running(
    name: str,
    *addresses: str,
    ports: tuple[ContainerPort, ...] = (),
    hostname: str | None = None,
    subdomain: str | None = None,
    ready: bool = True,
    deleted: str | None = None,
    sidecar: str | None = None,
) -> RunningPod:
    containers = [Container(ports=list(ports))]
    spec = PodSpec(hostname=hostname, subdomain=subdomain, containers=containers)
    if sidecar is not None:
        listed = [ContainerPort(9000, "side")]
        spec = PodSpec(init_containers=[Container(ports=listed, restart_policy=sidecar)])
    metadata = OwnedMeta(name=name, namespace="shop", deletion_timestamp=deleted)
    return RunningPod(with_defaults("Pod", PodManifest(metadata, spec)), addresses, ready, None)


def service(
    *ports: ServicePort, families: tuple[str, ...] = ("IPv4",), publish: bool | None = None
) -> Service:
    spec = ServiceSpec(
        cluster_ip="None",
        ports=list(ports),
        ip_families=list(families),
        publish_not_ready_addresses=publish,
    )
    return with_defaults("Service", Service(ObjectMeta(name="web", namespace="shop"), spec))


HTTP = ServicePort(80, "http", target_port="http")


@pytest.mark.parametrize(
    ("made_for", "pods", "lines"),
    [
        pytest.param(
            service(ServicePort(80)),
            [running("a", "10.0.0.1")],
            ["EndpointSlice shop/web-* IPv4 =80/TCP : -@10.0.0.1 (a)"],
            id="a port without targetPort is its own",
        ),
        pytest.param(
            service(ServicePort(53, "dns", "UDP", 5353)),
            [running("a", "10.0.0.1")],
            ["EndpointSlice shop/web-* IPv4 dns=5353/UDP : -@10.0.0.1 (a)"],
            id="number",
        ),
        pytest.param(
            service(HTTP),
            [running("a", "10.0.0.1", ports=(ContainerPort(8080, "http"),))],
            ["EndpointSlice shop/web-* IPv4 http=8080/TCP : -@10.0.0.1 (a)"],
            id="name",
        ),
        pytest.param(
            service(HTTP),
            [running("a", "10.0.0.1", ports=(ContainerPort(8080, "http", "UDP"),))],
            ["EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a)"],
            id="a name of another protocol is another port",
        ),
        pytest.param(
            service(HTTP),
            [
                running("a", "10.0.0.1", ports=(ContainerPort(8080, "http"),)),
                running("b", "10.0.0.2", ports=(ContainerPort(9090, "http"),)),
                running("c", "10.0.0.3", ports=(ContainerPort(8080, "http"),)),
                running("d", "10.0.0.4"),
            ],
            [
                "EndpointSlice shop/web-* IPv4 - : -@10.0.0.4 (d)",
                "EndpointSlice shop/web-* IPv4 http=8080/TCP : -@10.0.0.1 (a), -@10.0.0.3 (c)",
                "EndpointSlice shop/web-* IPv4 http=9090/TCP : -@10.0.0.2 (b)",
            ],
            id="pods that resolve a name differently stand apart",
        ),
        pytest.param(
            service(ServicePort(90, "side", target_port="side")),
            [running("a", "10.0.0.1", sidecar="Always")],
            ["EndpointSlice shop/web-* IPv4 side=9000/TCP : -@10.0.0.1 (a)"],
            id="a sidecar's port",
        ),
        pytest.param(
            service(ServicePort(90, "side", target_port="side")),
            [running("a", "10.0.0.1", sidecar="Never")],
            ["EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a)"],
            id="not an init container's",
        ),
        pytest.param(
            service(),
            [running("a", "10.0.0.1")],
            ["EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a)"],
            id="no ports",
        ),
        pytest.param(
            service(families=("IPv6", "IPv4")),
            [running("a", "10.0.0.1", "fd00::1"), running("b", "10.0.0.2")],
            [
                "EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a), -@10.0.0.2 (b)",
                "EndpointSlice shop/web-* IPv6 - : -@fd00::1 (a)",
            ],
            id="a slice a family",
        ),
        pytest.param(
            service(families=("IPv6",)),
            [running("a", "10.0.0.1")],
            [],
            id="no address of the family",
        ),
        pytest.param(
            service(),
            [
                running("a", "10.0.0.1", hostname="alpha", subdomain="web"),
                running("b", "10.0.0.2", hostname="beta", subdomain="other"),
                running("c", "10.0.0.3", hostname="gamma"),
                running("d", "10.0.0.4", subdomain="web"),
            ],
            [
                "EndpointSlice shop/web-* IPv4 - : alpha@10.0.0.1 (a), -@10.0.0.2 (b), -@10.0.0.3 (c), -@10.0.0.4 (d)"
            ],
            id="hostname only with the Service as subdomain",
        ),
        pytest.param(
            service(),
            [
                running("a", "10.0.0.1", ready=False),
                running("b", "10.0.0.2", deleted="2026-11-01T00:00:00Z"),
            ],
            [
                "EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a) not ready, -@10.0.0.2 (b) not ready terminating"
            ],
            id="not ready, terminating",
        ),
        pytest.param(
            service(publish=True),
            [
                running("a", "10.0.0.1", ready=False),
                running("b", "10.0.0.2", deleted="2026-11-01T00:00:00Z"),
            ],
            ["EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a), -@10.0.0.2 (b) terminating"],
            id="publishNotReadyAddresses",
        ),
        pytest.param(
            service(),
            [running("a-10", "10.0.0.3"), running("a-9", "10.0.0.2"), running("a", "10.0.0.1")],
            [
                "EndpointSlice shop/web-* IPv4 - : -@10.0.0.1 (a), -@10.0.0.2 (a-9), -@10.0.0.3 (a-10)"
            ],
            id="in the order of ordinals",
        ),
    ],
)
def test_slices(made_for: Service, pods: list[RunningPod], lines: list[str]) -> None:
    assert object_lines(slices_of(made_for, pods, set())) == lines


def many(count: int) -> list[EndpointSlice]:
    pods = [
        running(f"web-{number}", f"10.0.{number // 200}.{number % 200}") for number in range(count)
    ]
    return slices_of(service(), pods, set())


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        pytest.param(100, [100], id="a hundred fit"),
        pytest.param(101, [100, 1], id="one more does not"),
        pytest.param(250, [100, 100, 50], id="several"),
    ],
)
def test_at_most_a_hundred_endpoints(count: int, sizes: list[int]) -> None:
    slices = many(count)
    assert [len(each.endpoints or ()) for each in slices] == sizes
    assert len({each.metadata.name for each in slices}) == len(sizes)


def test_names_are_repeatable_and_avoid_the_taken_ones() -> None:
    [first] = many(1)
    taken = {first.metadata.name}
    [other] = slices_of(service(), [running("web-0", "10.0.0.0")], taken)
    assert many(1) == [first]
    assert other.metadata.name != first.metadata.name
    assert taken == {first.metadata.name, other.metadata.name}


def test_labels_come_from_the_service() -> None:
    made_for = Service(
        ObjectMeta(name="web", namespace="shop", labels={"team": "a"}),
        ServiceSpec(cluster_ip="10.96.0.1", cluster_ips=["10.96.0.1"], ip_families=["IPv4"]),
    )
    [found] = slices_of(made_for, [running("a", "10.0.0.1")], set())
    assert found.metadata.labels == {
        "team": "a",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    [headless] = slices_of(service(), [running("a", "10.0.0.1")], set())
    assert (headless.metadata.labels or {})["service.kubernetes.io/headless"] == ""
