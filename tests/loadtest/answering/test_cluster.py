from collections.abc import Iterator

import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.zone
import pytest

from hsdns.cluster.objects import EndpointSlice
from hsdns.sources.synthetic import SyntheticCluster
from loadtest.answering.cluster import ZONE, Cluster

CLUSTER = Cluster(services=130, endpoints=3)


@pytest.fixture(scope="module")
def zone() -> dns.zone.Zone:
    return dns.zone.from_text("\n".join(CLUSTER.zone_lines()), origin=f"{ZONE}.", relativize=False)


def addresses() -> Iterator[tuple[int, list[str]]]:
    slices = (
        each
        for each in SyntheticCluster(CLUSTER.shape()).objects()
        if isinstance(each, EndpointSlice)
    )
    for index, each in enumerate(slices):
        yield index, [(endpoint.addresses or [""])[0] for endpoint in each.endpoints or ()]


def texts(zone: dns.zone.Zone, name: str, rrtype: str) -> list[str]:
    return sorted(rdata.to_text() for rdata in zone.find_rdataset(f"{name}.", rrtype))


def test_the_zone_holds_every_name_of_the_cluster_with_its_addresses(zone: dns.zone.Zone) -> None:
    for index, expected in addresses():
        assert texts(zone, CLUSTER.service(index), "A") == sorted(expected)
        for endpoint, address in enumerate(expected):
            assert texts(zone, CLUSTER.pod(index, endpoint), "A") == [address]
        assert texts(zone, CLUSTER.port(index), "SRV") == sorted(
            f"0 33 8080 {CLUSTER.pod(index, endpoint)}." for endpoint in range(len(expected))
        )


def test_names_follow_the_namespaces_of_the_source() -> None:
    assert CLUSTER.service(129) == "svc-129.ns-1.svc.cluster.local"
    assert CLUSTER.source == "synthetic services=130 endpoints=3 headless=1"
