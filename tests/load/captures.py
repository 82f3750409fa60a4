"""Writes captures for tests: pcap and pcapng in either order of octets, and packets of several link types."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack

SECOND = 1_000_000_000


def pcap(
    packets: Sequence[tuple[int, bytes]], *, link: int = 1, order: str = "<", nano: bool = False, cut: int = 1 << 20
) -> bytes:  # fmt: skip
    """Packets with their times in nanoseconds; without `nano` those are whole microseconds."""
    units = SECOND if nano else 1_000_000
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    found = Struct(f"{order}IHHiIII").pack(magic, 2, 4, 0, 0, 65_535, link)
    for time, octets in packets:
        seconds, rest = divmod(time, SECOND)
        kept = octets[:cut]
        found += Struct(f"{order}IIII").pack(
            seconds, rest * units // SECOND, len(kept), len(octets)
        )
        found += kept
    return found


def block(order: str, kind: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    length = Struct(f"{order}I").pack(len(body) + 12)
    return Struct(f"{order}I").pack(kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(order, 0x0A0D0D0A, Struct(f"{order}IHHq").pack(0x1A2B3C4D, 1, 0, -1))


def interface(order: str = "<", *, link: int = 1, resolution: int = 9, offset: int = 0) -> bytes:
    body = Struct(f"{order}HHI").pack(link, 0, 0)
    body += Struct(f"{order}HHB3x").pack(9, 1, resolution)
    body += Struct(f"{order}HHq").pack(14, 8, offset) + Struct(f"{order}HH").pack(0, 0)
    return block(order, 1, body)


def enhanced(order: str, time: int, octets: bytes, *, which: int = 0, units: int = SECOND) -> bytes:
    ticks = time * units // SECOND
    head = Struct(f"{order}IIIII").pack(
        which, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), len(octets)
    )
    return block(order, 6, head + octets)


def pcapng(packets: Sequence[tuple[int, bytes]], *, link: int = 1, order: str = "<") -> bytes:
    found = section(order) + interface(order, link=link)
    return found + b"".join(enhanced(order, *each) for each in packets)


def udp(payload: bytes, *, port: int = 53, source: int = 40_000) -> bytes:
    return pack("!HHHH", source, port, 8 + len(payload), 0) + payload


def ipv4(payload: bytes, *, client: int = 1, protocol: int = 17, fragment: int = 0) -> bytes:
    head = pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, fragment, 64, protocol, 0)
    return head + bytes((10, 0, 0, client)) + bytes((10, 0, 0, 250)) + payload


def ipv6(payload: bytes, *, client: int = 1, protocol: int = 17) -> bytes:
    head = pack("!IHBB", 6 << 28, len(payload), protocol, 64)
    return head + bytes(15) + bytes((client,)) + bytes(16) + payload


def ethernet(payload: bytes, kind: int = 0x0800, *, vlans: Sequence[int] = ()) -> bytes:
    tags = b"".join(pack("!HH", vlan, 7) for vlan in vlans)
    return bytes(12) + tags + pack("!H", kind) + payload


def packet(payload: bytes, *, client: int = 1, port: int = 53) -> bytes:
    """An Ethernet frame with a datagram."""
    return ethernet(ipv4(udp(payload, port=port), client=client))
