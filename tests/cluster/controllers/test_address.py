"""Addresses are the same at every start, inside their network, and never given twice."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network

import pytest

from hsdns.cluster.controllers.address import (
    SAFE_LETTERS,
    AddressPool,
    family_of,
    letters,
    pod_pools,
    service_pools,
)


def test_pod_addresses_are_known_in_advance() -> None:
    pools = pod_pools([])
    # Written down on purpose: a change of these numbers changes what users' scenarios expect.
    assert pools["IPv4"].allocate("default/consul-server-0") == "10.244.196.96"
    assert pools["IPv6"].allocate("default/consul-server-0") == "fd00:10:244::b455:100b"
    assert service_pools([])["IPv4"].allocate("shop/database-read") == "10.96.47.17"


@pytest.mark.parametrize(
    ("pools", "family", "network"),
    [
        pytest.param(pod_pools([]), "IPv4", "10.244.0.0/16", id="pods IPv4"),
        pytest.param(pod_pools([]), "IPv6", "fd00:10:244::/64", id="pods IPv6"),
        pytest.param(service_pools([]), "IPv4", "10.96.0.0/16", id="services IPv4"),
        pytest.param(service_pools([]), "IPv6", "fd00:10:96::/112", id="services IPv6"),
    ],
)
def test_addresses_stay_in_their_network(
    pools: dict[str, AddressPool], family: str, network: str
) -> None:
    claimed = [pools[family].allocate(f"shop/web-{number}") for number in range(500)]
    assert len(set(claimed)) == 500
    for address in claimed:
        assert address is not None
        assert ip_address(address) in ip_network(network)
        assert family_of(address) == family
        if family == "IPv4":
            assert address.rsplit(".", 1)[1] not in {"0", "255"}


def test_low_service_addresses_are_left_for_fixed_ones() -> None:
    pool = service_pools([])["IPv4"]
    for number in range(2000):
        assert IPv4Address(pool.allocate(str(number)) or "") >= IPv4Address("10.96.1.0")


def test_a_taken_address_is_passed_over() -> None:
    free = AddressPool("10.244.0.0", 1, 0xFFFF, []).allocate("shop/web-0")
    assert free is not None
    taken = AddressPool("10.244.0.0", 1, 0xFFFF, [free, "no address", "fd00::1"]).allocate(
        "shop/web-0"
    )
    assert taken == str(ip_address(free) + 1)


def test_a_full_network_gives_none() -> None:
    pool = AddressPool("10.244.0.0", 1, 4, ["10.244.0.2"])
    assert {pool.allocate(str(number)) for number in range(3)} == {
        "10.244.0.1",
        "10.244.0.3",
        "10.244.0.4",
    }
    assert pool.allocate("one more") is None


def test_letters_are_safe_and_repeatable() -> None:
    assert letters("shop/web", 5) == letters("shop/web", 5)
    assert letters("shop/web", 5) != letters("shop/web/1", 5)
    assert len(letters("shop/web", 10)) == 10
    assert set(letters("shop/web", 10)) <= set(SAFE_LETTERS)
