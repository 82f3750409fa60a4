"""The scripted DNS server of a scene: it answers as the rules say, and writes down what arrives.

Path: scene.py -> here, in a thread of its own -> hsdns.wire.
Rule 1: the first rule that fits decides; a rule with several actions takes one for each query of the same type, name
        and nameserver, and the last one for all further ones.  A name without a rule does not exist.
Rule 2: the time of a UDP packet is the kernel's.
Rule 3: after a sudden end of the connection no further query of it is answered.

A rule is [udp/|tcp/][NAMESERVER/][TYPE:]NAME=ACTION[,ACTION...]; NAME is * for all, or *.ZONE.  An ACTION is
    OK[N][/TTL][@MS]  N records (1), with a TTL in seconds (5), after MS milliseconds; what does not fit is cut off
    old[N][/TTL]      as OK until N seconds after the first query, then another address
    new[N]            NXDOMAIN until N seconds after the first query, then OK
    NODATA, NXDOMAIN, servfail, refused, notimp, formerr, LAME, TC, each with [@MS]; noedns: formerr to EDNS, else OK
    drop, hang (no reply), close
"""

from __future__ import annotations

import re
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.encode import MAX_TCP_LEN, encode, udp_limit
from hsdns.wire.framing import FrameBuffer, frame
from hsdns.wire.iana import OptCode, Rcode, RRType, type_to_text
from hsdns.wire.message import AD, CD, RD, RR, TC, Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.rdata import address, soa, srv, txt

TTL: Final = 5  # seconds
RCODES: Final = {
    "NXDOMAIN": Rcode.NXDOMAIN, "servfail": Rcode.SERVFAIL, "refused": Rcode.REFUSED, "notimp": Rcode.NOTIMP,
    "formerr": Rcode.FORMERR, "NODATA": Rcode.NOERROR,
}  # fmt: skip
SILENT: Final = ("drop", "hang")
LATER: Final = 100  # what the last number of an address grows by when the old one is removed
_ACTION: Final = re.compile(r"(\D+?)([\d.]+)?(?:/(\d+))?(?:@(\d+))?")
_RULE: Final = re.compile(r"(?:(udp|tcp)/)?(?:(\d)/)?(?:([A-Z]+):)?([^=]+)=(\S+)")
_TIMESTAMPS: Final = 64  # SO_TIMESTAMPNS_NEW: two 64-bit numbers, of CLOCK_REALTIME
_SOA: Final = RR(
    Name.from_text("example.com"), RRType.SOA, TTL,
    soa(Name.from_text("ns.example.com"), Name.from_text("root.example.com"), 1, 7200, 1800, 86400, TTL),
)  # fmt: skip


class Logged(NamedTuple):
    """A packet that arrived: `at` is its time.monotonic()."""

    at: float
    transport: str
    server: int
    port: tuple[str, int]
    qid: int
    question: str
    flags: str
    action: str


class Script:
    """The rules, and how often each was used."""

    def __init__(self, rules: str) -> None:
        self._rules = []
        for word in rules.split():
            match = _RULE.fullmatch(word)
            if match is None:
                raise ValueError(f"{word} is no rule")
            transport, server, rrtype, name, actions = match.groups()
            self._rules.append((transport, server, rrtype, name, actions.split(",")))
        self._used: Counter[tuple[int, str, str, str]] = Counter()

    def action(self, transport: str, server: int, rrtype: str, name: str) -> str:
        """The action for a query."""
        for number, rule in enumerate(self._rules):
            wanted = (transport, str(server), rrtype)
            if any(mine not in (None, its) for mine, its in zip(rule[:3], wanted, strict=True)):
                continue
            if rule[3] in ("*", name) or (rule[3][0] == "*" and name.endswith(rule[3][1:])):
                self._used[number, wanted[1], rrtype, name] += 1
                count = self._used[number, wanted[1], rrtype, name]
                return rule[4][min(count, len(rule[4])) - 1]
        return "NXDOMAIN"


def rdata_of(rrtype: int, number: int) -> bytes:
    """RDATA of one record of several, which differ in a number; raise KeyError for a type that is not looked up."""
    target = Name.from_text(f"t{number}.example.com")
    return {
        RRType.A: address(f"192.0.{2 + number // 250}.{number % 250}"),
        RRType.AAAA: address(f"2001:db8::{number}"),
        RRType.SRV: srv(0, 10, 8000 + number, target),
        RRType.PTR: target.wire,
        RRType.NS: target.wire,
        RRType.TXT: txt(b"text %d" % number),
    }[rrtype]


def flags_of(query: Query) -> str:
    """What a query says besides its question, as it stands in a trace."""
    found = [word for word, bit in (("ad", AD), ("cd", CD)) if query.flags & bit]
    found += [] if query.flags & RD else ["no-rd"]
    if query.edns is not None:
        found.append(f"edns{query.edns.payload_size}")
        found += ["do"] if query.edns.do else []
        codes = [code for code, _ in query.edns.options]
        found += ["cookie" if code == OptCode.COOKIE else f"option{code}" for code in codes]
    return "+".join(found) or "-"


class Server(threading.Thread):
    """Serves UDP and TCP sockets of nameservers, in pairs; `log` has what arrived."""

    def __init__(self, script: Script, sockets: list[tuple[socket.socket, socket.socket]]) -> None:
        super().__init__(daemon=True)
        self.log: list[Logged] = []
        self.script = script
        self._began: float | None = None  # of the first query
        self._waiting: list[tuple[float, int, socket.socket, bytes, Any]] = []
        self._selector = selectors.DefaultSelector()
        for number, (udp, tcp) in enumerate(sockets, 1):
            udp.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
            for each, data in ((udp, (number, None)), (tcp, (number, "listens"))):
                each.setblocking(False)
                self._selector.register(each, selectors.EVENT_READ, data)

    def run(self) -> None:
        """Serve for ever."""
        while True:
            wait = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for key, _ in self._selector.select(wait):
                sock, (number, state) = key.fileobj, key.data
                assert isinstance(sock, socket.socket)
                if state == "listens":
                    accepted, _ = sock.accept()
                    accepted.setblocking(False)
                    self._selector.register(accepted, selectors.EVENT_READ, (number, FrameBuffer()))
                elif state is None:
                    self._read_udp(sock, number)
                else:
                    self._read_tcp(sock, number, state)
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, sock, wire, peer = heappop(self._waiting)
                self._reply(sock, wire, peer)

    def _read_udp(self, sock: socket.socket, number: int) -> None:
        wire, extra, _, peer = sock.recvmsg(4096, 128)
        now = time.monotonic()
        if extra:
            seconds, nanoseconds = struct.unpack("qq", extra[0][2][:16])
            now -= time.time() - seconds - nanoseconds / 1e9
        self._take(wire, sock, "udp", number, peer, now)

    def _read_tcp(self, sock: socket.socket, number: int, buffer: FrameBuffer) -> None:
        try:
            data, peer = sock.recv(65536), sock.getpeername()
        except OSError:
            data, peer = b"", None
        for wire in buffer.feed(data):
            if sock.fileno() >= 0:
                self._take(wire, sock, "tcp", number, peer, time.monotonic())
        if not data and sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def _take(
        self, wire: bytes, sock: socket.socket, transport: str, number: int, peer: tuple[str, int], now: float
    ) -> None:  # fmt: skip
        """Write a query down, and do what the rules say."""
        try:
            query = decode(wire)
        except BadQuery:
            return
        self._began = self._began or now
        name = query.qname.to_text().lower().removesuffix(".")
        action = self.script.action(transport, number, type_to_text(query.qtype), name)
        label, late, reply = self.act(action, query, transport, now - self._began)
        asked = query.qname.to_text().removesuffix(".") or "."
        self.log.append(
            Logged(
                now, transport, number, peer[:2], query.id, f"{type_to_text(query.qtype)} {asked}",
                flags_of(query), label,
            )
        )  # fmt: skip
        if label == "close":
            self._selector.unregister(sock)
            sock.close()
        elif reply is not None and late:
            heappush(self._waiting, (now + late, len(self.log), sock, reply, peer))
        elif reply is not None:
            self._reply(sock, reply, peer)

    def _reply(self, sock: socket.socket, wire: bytes, peer: Any) -> None:
        try:
            if sock.type == socket.SOCK_DGRAM:
                sock.sendto(wire, peer)
            else:
                sock.sendall(frame(wire))
        except OSError:
            pass  # the program has gone

    def act(
        self, action: str, query: Query, transport: str, at: float
    ) -> tuple[str, float, bytes | None]:
        """What an action does: its words in the trace, the seconds until the reply, and the reply."""
        match = _ACTION.fullmatch(action)
        assert match is not None, action
        word, number, ttl_text, late_text = match.groups()
        if word in (*SILENT, "close"):
            return word, 0.0, None
        late = int(late_text or 0) / 1000
        after = f"@{late_text}" if late_text else ""
        reply = Reply(aa=True)
        if word == "noedns":
            word, number = ("formerr", "") if query.edns else ("OK", "1")
        if word == "new":
            word, number = ("NXDOMAIN", "") if at <= float(number) else ("OK", "1")
        if word in RCODES:
            authority = (_SOA,) if word in ("NXDOMAIN", "NODATA") else ()
            reply = Reply(RCODES[word], authority=authority, aa=bool(authority))
            query = query.replace(edns=None) if word == "formerr" else query
        elif word == "LAME":
            reply = Reply()
        elif word == "TC":
            reply = Reply(tc=True, aa=True)
        else:
            ttl = TTL if ttl_text is None else int(ttl_text)
            after = (f"/{ttl}" if ttl_text else "") + after
            removed = word == "old" and at > float(number or 0)
            count = 1 if word == "old" else int(number or 1)
            first = 1 + LATER * removed
            answer = tuple(
                RR(query.qname, query.qtype, ttl, rdata_of(query.qtype, number))
                for number in range(first, first + count)
            )
            reply, word = reply.replace(answer=answer), f"OK{count}"
        limit = udp_limit(query) if transport == "udp" else MAX_TCP_LEN
        wire = encode(query, reply, limit)
        if reply.answer and wire[2] & TC >> 8:
            word = f"TC+{int.from_bytes(wire[6:8], 'big')}"
        return word + after, late, wire
