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


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes((number & 127 | 128,)), number >> 7
    return found + bytes((number,))


def protobuf(fields: dict[int, int | bytes]) -> bytes:
    """A message; numbers are varints, but those of field 9 of dnstap have four octets."""
    found = b""
    for number, value in fields.items():
        if isinstance(value, bytes):
            found += varint(number << 3 | 2) + varint(len(value)) + value
        elif number == 9:
            found += varint(number << 3 | 5) + pack("<I", value)
        else:
            found += varint(number << 3) + varint(value)
    return found


def frame(octets: bytes) -> bytes:
    return pack("!I", len(octets)) + octets


START = frame(b"") + frame(pack("!III", 2, 1, 22) + b"protobuf:dnstap.Dnstap")
STOP = frame(b"") + frame(pack("!I", 3))


def tapped(time: int, client: int, message: bytes, kind: int = 5) -> bytes:
    """A frame of dnstap."""
    seconds, rest = divmod(time, SECOND)
    fields: dict[int, int | bytes] = {
        1: kind,
        2: 1,
        4: bytes((10, 0, 0, client)),
        8: seconds,
        9: rest,
        10: message,
    }
    return frame(protobuf({15: 1, 14: protobuf(fields)}))


def cbor(value: object, *, is_endless: bool = False) -> bytes:
    """A value; an endless one has no lengths, but a break after its items."""
    if isinstance(value, (bytes, str)):
        octets = value if isinstance(value, bytes) else value.encode()
        return _head(2 if isinstance(value, bytes) else 3, len(octets)) + octets
    if isinstance(value, (list, dict)):
        parts = (
            value if isinstance(value, list) else [part for pair in value.items() for part in pair]
        )
        kind, octets = (
            4 if isinstance(value, list) else 5,
            b"".join(cbor(each, is_endless=is_endless) for each in parts),
        )
        return (
            bytes((kind << 5 | 31,)) + octets + b"\xff"
            if is_endless
            else _head(kind, len(value)) + octets
        )
    assert isinstance(value, int)
    return _head(0, value) if value >= 0 else _head(1, -1 - value)


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes((kind << 5 | number,))
    at = next(at for at in range(4) if number < 1 << (8 << at))
    return bytes((kind << 5 | 24 + at,)) + number.to_bytes(1 << at, "big")


def cdns(
    queries: Sequence[tuple[int, int, bytes, dict[int, int], dict[int, int]]],
    ticks: int = 1_000_000,
) -> list[object]:
    """A file of C-DNS with a block for each query: time, client, name, class and type, and the fields of its signature."""
    blocks = []
    for time, client, name, kind, signature in queries:
        seconds, rest = divmod(time, SECOND)
        tables = {
            0: [bytes((10, 0, 0, client))],
            1: [kind],
            2: [name],
            3: [{4: 1, 5: 0, 8: 0, **signature}],
        }
        blocks.append(
            {0: {0: [seconds, 0]}, 2: tables, 3: [{0: rest * ticks // SECOND, 1: 0, 4: 0, 7: 0}]}
        )
    return ["C-DNS", {0: 1, 1: 0, 3: [{0: {0: ticks}}]}, blocks]
