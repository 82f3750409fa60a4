"""The queries with which ISC's tool checks how a server treats flags, opcodes, EDNS versions and options (RFC 8906)."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

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

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

ZONE = """
$ORIGIN example.org.
@ 60 IN SOA ns hostmaster 1 7200 3600 1209600 60
@ 60 IN NS ns
ns 60 IN A 192.0.2.53
"""
AA, TC, RD, RA, Z, AD, CD = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010
ALL = AA | TC | RD | RA | Z | AD | CD
OPCODE_15 = 15 << 11
SOA, DNSKEY = 6, 48
DO = 0x8000
NSID, EXPIRE = b"\0\3\0\0", b"\0\x09\0\0"
SUBNET = b"\0\x08\0\4\0\1\0\0"
COOKIE = b"\0\x0a\0\x08\1\2\3\4\5\6\7\x08"
UNKNOWN = b"\0\x64\0\0"


class Edns(NamedTuple):
    version: int = 0
    flags: int = 0
    options: bytes = b""
    size: int = 4096


class Check(NamedTuple):
    flags: int = 0
    edns: Edns | None = None
    qtype: int = SOA
    over_tcp: bool = False

    def to_wire(self) -> bytes:
        header = b"\x12\x34" + self.flags.to_bytes(2, "big")
        if self.flags >= OPCODE_15:
            return header + bytes(8)
        question = b"\7example\3org\0" + self.qtype.to_bytes(2, "big") + b"\0\1"
        if self.edns is None:
            return header + b"\0\1\0\0\0\0\0\0" + question
        version, flags, options, size = self.edns
        fixed = (
            b"\0\0\x29" + size.to_bytes(2, "big") + bytes((0, version)) + flags.to_bytes(2, "big")
        )
        opt = fixed + len(options).to_bytes(2, "big") + options
        return header + b"\0\1\0\0\0\0\0\1" + question + opt


CHECKS = {
    "dns": Check(),
    "aa": Check(AA),
    "ad": Check(AD),
    "cd": Check(CD),
    "ra": Check(RA),
    "rd": Check(RD),
    "tc": Check(TC),
    "zflag": Check(Z),
    "opcode": Check(OPCODE_15),
    "opcodeflg": Check(OPCODE_15 | ALL),
    "type666": Check(qtype=666),
    "tcp": Check(over_tcp=True),
    "edns": Check(edns=Edns()),
    "edns1": Check(edns=Edns(1)),
    "edns@512": Check(edns=Edns(0, DO, size=512), qtype=DNSKEY),
    "ednsopt": Check(edns=Edns(options=UNKNOWN)),
    "edns1opt": Check(edns=Edns(1, options=UNKNOWN)),
    "do": Check(edns=Edns(0, DO)),
    "docd": Check(CD, Edns(0, DO)),
    "edns1do": Check(edns=Edns(1, DO)),
    "ednsflags": Check(edns=Edns(0, 0x0080)),
    "optlist": Check(edns=Edns(options=NSID + SUBNET + EXPIRE + COOKIE)),
    "ednsnsid": Check(edns=Edns(options=NSID)),
    "ednscookie": Check(edns=Edns(options=COOKIE)),
    "ednsexpire": Check(edns=Edns(options=EXPIRE)),
    "ednssubnet": Check(edns=Edns(options=SUBNET)),
    "edns1nsid": Check(edns=Edns(1, options=NSID)),
    "edns1cookie": Check(edns=Edns(1, options=COOKIE)),
    "edns1expire": Check(edns=Edns(1, options=EXPIRE)),
    "edns1subnet": Check(edns=Edns(1, options=SUBNET)),
    "ednstcp": Check(edns=Edns(0, DO, size=512), qtype=DNSKEY, over_tcp=True),
    "bind11": Check(edns=Edns(0, DO, COOKIE)),
    "dig11": Check(RD | AD, Edns(options=COOKIE)),
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
        replies = {name: recorded.reply(check.to_wire()) for name, check in CHECKS.items()}
        yield kind, lambda check: replies[_name_of(check)]
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


def _name_of(check: Check) -> str:
    return next(name for name, each in CHECKS.items() if each is check)


def ask(check: Check, port: int) -> bytes:
    kind = socket.SOCK_STREAM if check.over_tcp else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", port))
        wire = check.to_wire()
        sock.send(frame(wire) if check.over_tcp else wire)
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
    is_other_version = edns is not None and edns.version != 0
    rcode = dns.rcode.BADVERS if is_other_version else dns.rcode.NOERROR
    found = [] if reply.rcode() == rcode else [f"rcode {reply.rcode()}"]
    expected = dns.flags.QR | (0 if is_other_version else AA) | check.flags & RD
    # CD may be copied (RFC 4035 section 3.2.2).
    if reply.flags & ~CD != expected or reply.flags & CD & ~check.flags:
        found.append(f"flags {reply.flags:#06x}, expected {expected:#06x}")
    if [(q.name.to_text(), q.rdtype) for q in reply.question] != [("example.org.", check.qtype)]:
        found.append("another question")
    if reply.edns != (-1 if edns is None else 0):
        found.append(f"EDNS version {reply.edns}")
    if edns is not None:
        if (reply.ednsflags & 0xFFFF) & ~(edns.flags & DO):
            found.append(f"EDNS flags {reply.ednsflags:#06x}")
        if any(option.otype == 100 for option in reply.options):
            found.append("an unknown option comes back")
        if not check.over_tcp and len(wire) > edns.size:
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
