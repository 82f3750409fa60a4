"""The queries with which ISC's tool checks how a server treats flags, opcodes, EDNS versions and options (RFC 8906)."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest

from hsdns.wire.framing import frame
from loadtest.ports import free_port
from tests.support.clients.command import serving
from tests.support.peer_replies import PEER, Replayed, hold
from tests.support.tables import lines

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

ZONE = """
$ORIGIN example.org.
@ 60 IN SOA ns hostmaster 1 7200 3600 1209600 60
@ 60 IN NS ns
ns 60 IN A 192.0.2.53
"""
AA, RD, CD, DO = 0x0400, 0x0100, 0x0010, 0x8000
OPCODE_15 = 15 << 11
SOA = 6


class Check:
    def __init__(self, line: str) -> None:
        self.name, _, words = line.partition(": ")
        flags, qtype, transport, *self.edns = words.split()
        self.flags, self.qtype, self.over_tcp = int(flags, 16), int(qtype), transport == "tcp"
        self.wire = b"\x12\x34" + self.flags.to_bytes(2, "big")
        if self.flags >= OPCODE_15:
            self.wire += bytes(8)
            return
        additional = b"\1" if self.edns else b"\0"
        self.wire += (
            b"\0\1\0\0\0\0\0"
            + additional
            + b"\7example\3org\0"
            + self.qtype.to_bytes(2, "big")
            + b"\0\1"
        )
        if self.edns:
            version, edns_flags, size, *options = self.edns
            octets = bytes.fromhex("".join(options))
            self.wire += (
                struct.pack(
                    "!xHHBBHH", 41, int(size), 0, int(version), int(edns_flags, 16), len(octets)
                )
                + octets
            )


CHECKS = {
    (check := Check(line)).name: check
    for line in lines(Path(__file__).with_name("edns_checks.txt"))
}
# What CoreDNS 1.14.7 does not pass, with what it does.
PEER_FAILS = {"opcodeflg": "copies the flags"}


Ask = Callable[[Check], bytes]


@pytest.fixture(scope="module", params=["hsdns", pytest.param("peer", marks=pytest.mark.peer)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Ask]]:  # fmt: skip
    """A process that serves the zone, or the recording of one: its kind, and how it is asked."""
    kind: str = request.param
    if kind == "peer" and not PEER:
        recorded = Replayed("edns")
        replies = {check: recorded.reply(check.wire) for check in CHECKS.values()}
        yield kind, replies.__getitem__
        return
    command = [PEER] if kind == "peer" else [sys.executable, "-m", "hsdns"]
    folder: Path = tmp_path_factory.mktemp("edns")
    port = free_port()
    (folder / "zone").write_text(ZONE)
    corefile = folder / "Corefile"
    corefile.write_text(f"example.org:{port} {{\n bind 127.0.0.1\n file {folder / 'zone'}\n}}\n")
    with serving("-conf", str(corefile), program=command):
        if kind == "peer":
            hold("edns", [ask(check, port) for check in CHECKS.values()])
        yield kind, lambda check: ask(check, port)


def ask(check: Check, port: int) -> bytes:
    kind = socket.SOCK_STREAM if check.over_tcp else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", port))
        sock.send(frame(check.wire) if check.over_tcp else check.wire)
        if not check.over_tcp:
            return sock.recv(65_535)
        with sock.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(2), "big"))


def faults(check: Check, wire: bytes) -> list[str]:
    """What a reply does wrong."""
    if check.flags >= OPCODE_15:
        return [] if wire == b"\x12\x34\xf8\x04" + bytes(8) else [f"no bare NOTIMP: {wire.hex()}"]
    reply = dns.message.from_wire(wire)
    edns = check.edns
    is_other_version = bool(edns) and edns[0] != "0"
    rcode = dns.rcode.BADVERS if is_other_version else dns.rcode.NOERROR
    found = [] if reply.rcode() == rcode else [f"rcode {reply.rcode()}"]
    expected = dns.flags.QR | (0 if is_other_version else AA) | check.flags & RD
    # CD may be copied (RFC 4035 section 3.2.2).
    if reply.flags & ~CD != expected or reply.flags & CD & ~check.flags:
        found.append(f"flags {reply.flags:#06x}, expected {expected:#06x}")
    if [(q.name.to_text(), q.rdtype) for q in reply.question] != [("example.org.", check.qtype)]:
        found.append("another question")
    if reply.edns != (0 if edns else -1):
        found.append(f"EDNS version {reply.edns}")
    if edns:
        if (reply.ednsflags & 0xFFFF) & ~(int(edns[1], 16) & DO):
            found.append(f"EDNS flags {reply.ednsflags:#06x}")
        if any(option.otype == 100 for option in reply.options):
            found.append("an unknown option comes back")
        if not check.over_tcp and len(wire) > int(edns[2]):
            found.append(f"{len(wire)} octets")
    if is_other_version:
        return [*found, "an answer to another version"] if reply.answer else found
    if check.qtype == SOA and [each.rdtype for each in reply.answer] != [SOA]:
        found.append("no SOA record")
    if check.qtype != SOA and (reply.answer or [each.rdtype for each in reply.authority] != [SOA]):
        found.append("no NODATA")
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str, server: tuple[str, Ask]) -> None:
    kind, reply_to = server
    found = faults(CHECKS[name], reply_to(CHECKS[name]))
    if kind == "peer" and name in PEER_FAILS:
        assert found, f"CoreDNS passes now: it no longer {PEER_FAILS[name]}"
    else:
        assert found == []
