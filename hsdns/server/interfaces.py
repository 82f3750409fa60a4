"""This host's network interfaces and their addresses.

Path: assemble.py reads them if a `bind` names an interface, runtime.py for NS records.

A dummy network interface, which has the address of a node-local server:
Source: rtnetlink(7), linux/if_link.h, linux/if_addr.h.
Rule: the interface and its address may already exist.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self


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


_NEWLINK, _NEWADDR = 16, 20
_REQUEST, _ACK, _CREATE, _EXCLUSIVE = 0x1, 0x4, 0x400, 0x200
_IFNAME, _LINKINFO, _INFO_KIND = 3, 18, 1
_AF_SPEC, _ADDR_GEN_MODE, _GEN_NONE = 26, 8, 1
_LOCAL, _ADDRESS = 2, 1
_UP: Final = 1
_NODAD: Final = 0x02
_ERROR: Final = 2  # the type of a message with the result of a request
# The kernel's errors if IPv6 is compiled out, disabled at boot, or disabled by sysctl.
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EACCES)


class DummyInterface:
    """A context manager: creates the interface `name`; raises OSError if the kernel refuses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._serial = 0

    def __enter__(self) -> Self:
        """Create the interface and set it up, without a link-local address."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        try:
            kind = attribute(_INFO_KIND, b"dummy")
            asked = attribute(_IFNAME, self.name.encode() + b"\0") + attribute(_LINKINFO, kind)
            self._ask(_NEWLINK, _CREATE | _EXCLUSIVE, _link(0, 0) + asked)
            self._index = socket.if_nametoindex(self.name)
            # Otherwise IPv6 adds a link-local address, on which the server would listen, too.
            mode = attribute(
                socket.AF_INET6, attribute(_ADDR_GEN_MODE, struct.pack("=B", _GEN_NONE))
            )
            try:
                self._ask(_NEWLINK, 0, _link(self._index, 0) + attribute(_AF_SPEC, mode))
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
            self._ask(_NEWLINK, 0, _link(self._index, _UP))
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Keep the interface."""
        self._socket.close()

    def add(self, address: IPv4Address | IPv6Address) -> bool:
        """Give it an address with a prefix of full length; return False if IPv6 is disabled."""
        is_ipv6 = isinstance(address, IPv6Address)
        family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        flags = _NODAD if is_ipv6 else 0
        header = struct.pack("=BBBBI", family, address.max_prefixlen, flags, 0, self._index)
        octets = address.packed
        both = attribute(_LOCAL, octets) + attribute(_ADDRESS, octets)
        try:
            self._ask(_NEWADDR, _CREATE | _EXCLUSIVE, header + both)
        except OSError as error:
            if is_ipv6 and error.errno in _NO_IPV6:
                return False
            raise
        return True

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        """Send a request and wait for its acknowledgement; an object that exists already is no error."""
        self._serial += 1
        header = struct.pack(
            "=IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, self._serial, 0
        )
        self._socket.send(header + body)
        reply = self._socket.recv(65536)
        _, answered, _, serial, _, number = struct.unpack_from("=IHHIIi", reply)
        assert (answered, serial) == (_ERROR, self._serial), "an acknowledgement of this request"
        if number and -number != errno.EEXIST:
            raise OSError(-number, os.strerror(-number))


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of a request: length, kind and value, padded to four octets."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _link(index: int, up: int) -> bytes:
    """The beginning of a request about an interface; `up` is the flag to set, or 0."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, up, up)
