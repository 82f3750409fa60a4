"""The name server's own names; what it answers in all cases stands in tests/plugins/kubernetes/test_kubernetes.py."""

from hsdns.cluster.answer import Nameserver
from hsdns.cluster.objects import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from hsdns.cluster.store import Store, StoreSettings
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.support.cluster.objects import deletes, endpoint_slice, meta, service, upserts
from tests.support.plugins.requests import section

ZONE = Name.from_text("cluster.local")


def test_addresses_outside_of_the_cluster() -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=print)
    spec = ServiceSpec(cluster_ips=["10.0.0.10"], external_ips=["192.0.2.53", "192.0.2.53"])
    hosted = ServiceStatus(LoadBalancerStatus([LoadBalancerIngress(hostname="lb.example.net")]))
    server = Nameserver(store, 9, ["10.1.0.1", "10.1.0.2"])
    alone = [bytes((10, 1, 0, 1)), bytes((10, 1, 0, 2))]
    assert server.external(headless=False) == alone
    store.apply(
        upserts(Service(meta("ns/dns"), spec, hosted), endpoint_slice("ns/s", "dns", "10.1.0.1"))
    )
    assert server.external(headless=True) == [bytes((192, 0, 2, 53))]
    store.apply(upserts(service("ns/dns", version="2")))
    assert server.external(headless=False) == []
    assert server.external(headless=True) == alone[:1]
    store.apply(deletes(service("ns/dns")))
    assert server.external(headless=True) == []


def test_in_the_middle_of_an_event_an_address_that_has_left_its_slice_is_no_endpoint() -> None:
    """The value is replaced first, the index of addresses after it; another thread may ask in between."""
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=print)
    store.apply(upserts(service("ns/dns"), endpoint_slice("ns/s", "dns", "10.1.0.1", "10.1.0.9")))
    server, name = Nameserver(store, 9, ["10.1.0.1"]), Name.from_text("ns.dns.cluster.local")
    of_slice = ["ns.dns.cluster.local. 9 IN A 10.1.0.1", "ns.dns.cluster.local. 9 IN A 10.1.0.9"]
    assert section(server.addresses(name, RRType.A, ZONE)) == of_slice
    (key,) = store.services.values
    value = store.services.values[key]
    for slices in ((), (value.slices[0]._replace(addresses=bytes((10, 1, 0, 9)), labels=None),)):
        store.services.values[key] = value.with_slices(slices)
        assert section(server.addresses(name, RRType.A, ZONE)) == of_slice[:1]
        assert server.external(headless=True) == [bytes((10, 1, 0, 1))]
