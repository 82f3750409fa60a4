"""What the fuzzer begins with: inputs that the decoders accept, and what it found earlier.

Path: run.py -> here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from hsdns.http2 import DATA, END_STREAM, WINDOW_UPDATE, frame
from loadtest.apiserver.objects import endpoint_slice, namespaces, service
from loadtest.apiserver.protobuf import write_body, write_frame
from loadtest.pressure.attackers import ATTACKS, dns_path, header_block, request

FOUND: Final = Path(__file__).with_name("found")
_QUESTION = "www.example.org"
_ALONE = (  # type and RDATA of a record
    "A 192.0.2.1",
    "AAAA 2001:db8::1",
    "NS ns.example.org.",
    "CNAME target.example.org.",
    "SOA ns.example.org. host.example.org. 1 7200 1800 86400 30",
    "MX 10 mail.example.org.",
    'TXT "one" "two"',
    "RP box.example.org. txt.example.org.",
    "SRV 0 10 443 host.www.example.org.",
    'NAPTR 10 20 "u" "E2U+sip" "!^.*$!sip:x@y!" next.example.org.',
    "NSEC next.example.org. A RRSIG",
    "HTTPS 1 svc.example.org. alpn=h2",
    "DNAME other.example.org.",
)
_IMPORT: Final = {
    "metadata": {"name": "web-1", "namespace": "team-0"},
    "spec": {"type": "ClusterSetIP", "ips": ["10.1.0.1"], "ports": [{"port": 80, "name": "http"}]},
}
_POD: Final = {
    "metadata": {"name": "web-1-0", "namespace": "team-0", "labels": {"app": "web"}},
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]},
}
_STATUS: Final = {
    "kind": "Status",
    "code": 410,
    "reason": "Expired",
    "message": "too old resource version",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
}


def seeds(name: str) -> dict[str, bytes]:
    """The inputs of a target, with a name for each."""
    begins = {"reply": _replies, "http2": _connections, "event": _events, "protobuf": _frames}[
        name
    ]()
    found = {path.stem: path.read_bytes() for path in sorted((FOUND / name).glob("*.bin"))}
    return {f"seed-{number}": octets for number, octets in enumerate(begins)} | found


def _replies() -> Iterable[bytes]:
    for text in _ALONE:
        yield _reply([f"{_QUESTION}. {text}"])
    alias = [f"{_QUESTION}. CNAME a.example.org.", "a.example.org. A 192.0.2.1"]
    yield _reply(alias, ["example.org. NS ns.example.org."], ["ns.example.org. AAAA 2001:db8::1"])
    yield _reply(
        [], ["example.org. SOA ns.example.org. host.example.org. 1 7200 1800 86400 30"], rcode=3
    )
    yield _reply([f"{_QUESTION}. A 192.0.2.{number}" for number in range(40)])
    with_edns = dns.message.from_wire(_reply([f"{_QUESTION}. A 192.0.2.1"]))
    with_edns.use_edns(
        0, payload=1232, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"12345678")]
    )
    yield with_edns.to_wire()


def _reply(
    answer: list[str], authority: Iterable[str] = (), additional: Iterable[str] = (), rcode: int = 0
) -> bytes:
    message = dns.message.make_query(_QUESTION, "A", id=0)
    message.flags |= dns.flags.QR | dns.flags.RA
    message.set_rcode(dns.rcode.Rcode(rcode))
    sections = (
        (message.answer, answer),
        (message.authority, authority),
        (message.additional, additional),
    )
    for section, texts in sections:
        for text in texts:
            owner, rrtype, rdata = text.split(None, 2)
            section.append(dns.rrset.from_text(owner, 30, "IN", rrtype, rdata))
    return message.to_wire()


def _connections() -> Iterable[bytes]:
    query = dns.message.make_query(_QUESTION, "A", id=0).to_wire()
    window = frame(WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4, "big"))
    for length in (0, 20, 255):
        for attack in ATTACKS.values():
            octets = attack.write(1, 2, dns_path(query))
            if len(octets) < 2000:
                yield bytes((length,)) + octets
    block = header_block("/dns-query", is_post=True)
    body = frame(DATA, END_STREAM, 1, query)
    yield b"\xff" + request(1, block, ends=False) + body + window


def _events() -> Iterable[bytes]:
    slices = endpoint_slice(1, 2).manifest
    objects: list[dict[str, Any]] = [
        service(1).manifest,
        slices,
        next(iter(namespaces(0, 1))).manifest,
        _POD,
        _IMPORT,
    ]
    for number, found in enumerate(objects):
        head = bytes((number,))
        for kind in ("ADDED", "DELETED", "BOOKMARK"):
            yield head + json.dumps({"type": kind, "object": found}).encode()
        page = {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [found, found]}
        yield head + json.dumps(page).encode()
    yield b"\0" + json.dumps({"type": "ERROR", "object": _STATUS}).encode()
    yield b"\0" + json.dumps(_STATUS).encode()


def _frames() -> Iterable[bytes]:
    objects: list[dict[str, Any]] = [
        service(1).manifest,
        endpoint_slice(1, 2).manifest,
        next(iter(namespaces(0, 1))).manifest,
        {"kind": "Pod", **_POD},
    ]
    for number, found in enumerate(objects):
        head = bytes((number,))
        for kind in ("ADDED", "DELETED", "BOOKMARK"):
            yield head + write_frame(json.dumps({"type": kind, "object": found}).encode())
        metadata = {"resourceVersion": "5", "continue": "more"}
        page = {"kind": f"{found['kind']}List", "metadata": metadata, "items": [found, found]}
        yield head + write_body(json.dumps(page).encode())
    yield b"\0" + write_frame(json.dumps({"type": "ERROR", "object": _STATUS}).encode())
    yield b"\0" + write_body(json.dumps(_STATUS).encode())
