"""Interfaces in a network namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import ifaddr
import pytest

from hsdns.server.host import attribute, interface_addresses, own_addresses
from tests.support.namespaces import container


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


ROOT = Path(__file__).resolve().parents[2]
REFUSED = container.refusal() or ("" if shutil.which("ip") else "ip is not installed")
# Some kernels have no dummy interfaces; that of a pair is one that exists already, and the rest is the same.
SCRIPT = """
ip link add hsdns type dummy 2>/dev/null || ip link add hsdns type veth peer name other || exit 9
[ "$1" = on ] || echo 1 > /proc/sys/net/ipv6/conf/hsdns/disable_ipv6 || exit 9
for turn in 1 2; do "$2" -m hsdns interface -address 169.254.20.10 fd68:7364:6e73::53 || exit 1; done
ip -json address show dev hsdns
"""


@pytest.mark.parametrize(
    ("value", "octets"), [(b"", "04000300"), (b"ab", "06000300 6162 0000"), (b"abcd", "08000300 61626364")]
)  # fmt: skip
@pytest.mark.skipif(sys.byteorder != "little", reason="the octets are those of a little machine")
def test_attributes(value: bytes, octets: str) -> None:
    assert attribute(3, value) == bytes.fromhex(octets)


@pytest.mark.slow
@pytest.mark.skipif(bool(REFUSED), reason=REFUSED or "namespaces can be made")
@pytest.mark.parametrize("ipv6", ["on", "off"])
def test_an_interface(ipv6: str) -> None:
    """Asked for twice, they are there once, with no address that the kernel chose itself."""
    found = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", SCRIPT, "sh", ipv6, sys.executable],
        check=False, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if found.returncode == 9:
        pytest.skip(f"no interface can be made here: {found.stderr}")
    assert found.returncode == 0, found.stderr
    (interface,) = json.loads(found.stdout[found.stdout.index("[") :])
    addresses = [(each["local"], each["prefixlen"]) for each in interface["addr_info"]]
    expected = [("169.254.20.10", 32), ("fd68:7364:6e73::53", 128)]
    assert addresses == expected[: 2 if ipv6 == "on" else 1]
    assert "UP" in interface["flags"]
    assert ("is left out, because IPv6 is off here" in found.stdout) is (ipv6 == "off")
