from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import ifaddr
import pytest

from hsdns.server.interfaces import interface_addresses, own_addresses


def adapter(name: str, *addresses: str | tuple[str, int, int]) -> ifaddr.Adapter:
    return ifaddr.Adapter(name, name, [ifaddr.IP(address, 24, name) for address in addresses])


@pytest.mark.parametrize(
    ("adapters", "interfaces", "own"),
    [
        pytest.param([], {}, [], id="none"),
        pytest.param(
            [adapter("lo", "127.0.0.1", ("::1", 0, 0)), adapter("eth0", "192.0.2.7", ("2001:db8::7", 0, 0))],
            {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.7", "2001:db8::7"]},
            ["192.0.2.7", "2001:db8::7"],
            id="loopback-is-not-own",
        ),
        pytest.param(
            [adapter("eth1", ("fe80::7", 0, 3)), adapter("eth0", "192.0.2.7", "192.0.2.8")],
            {"eth1": ["fe80::7"], "eth0": ["192.0.2.7", "192.0.2.8"]},
            ["fe80::7", "192.0.2.7", "192.0.2.8"],
            id="in-the-interfaces-order",
        ),
    ],
)  # fmt: skip
def test_addresses(
    adapters: list[ifaddr.Adapter],
    interfaces: dict[str, list[str]],
    own: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ifaddr, "get_adapters", lambda: adapters)
    assert interface_addresses() == interfaces
    assert own_addresses() == own


def test_this_host_has_a_loopback_interface() -> None:
    found = [ip_address(text) for texts in interface_addresses().values() for text in texts]
    assert IPv4Address("127.0.0.1") in found
    assert all(isinstance(address, IPv4Address | IPv6Address) for address in found)
    assert not any(ip_address(text).is_loopback for text in own_addresses())
