"""This host's network interfaces and their addresses.

Path: assemble.py reads them if a `bind` names an interface, runtime.py for NS records.
"""

from __future__ import annotations

from ipaddress import ip_address


def interface_addresses() -> dict[str, list[str]]:
    """Interface names and their IPv4 and IPv6 addresses, without zone identifiers."""
    import ifaddr  # noqa: PLC0415 - only needed where names or all addresses are asked for

    found: dict[str, list[str]] = {}
    for adapter in ifaddr.get_adapters():
        for address in adapter.ips:
            text = address.ip if isinstance(address.ip, str) else address.ip[0]
            found.setdefault(address.nice_name, []).append(text)
    return found


def own_addresses() -> list[str]:
    """All addresses of this host except loopback, in the interfaces' order (CoreDNS plugin/kubernetes/local.go)."""
    return [
        text
        for addresses in interface_addresses().values()
        for text in addresses
        if not ip_address(text).is_loopback
    ]
