"""Write the fuzzer's corpus anew: tests/packets as octets, some replies that hsdns itself makes, and frames of watches.

Run from the top of the repository: `PYTHONPATH=. python native/fuzz/corpus.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from loadtest.apiserver.objects import endpoint_slice, service
from loadtest.apiserver.protobuf import write_body, write_frame

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "native" / "fuzz" / "corpus"
MAX_LEN = 600  # what is longer is never looked up, and only makes the repository larger


def packets() -> Iterator[tuple[str, bytes]]:
    """The files of tests/packets, whose README says how they are written."""
    for path in sorted((ROOT / "tests" / "packets").glob("*.hex")):
        wire = b""
        for line in path.read_text().splitlines():
            octets, _, times = line.partition("#")[0].partition(" x ")
            wire += bytes.fromhex(octets) * int(times or 1)
        yield path.stem, wire


def name(text: str) -> Name:
    """Read a name that needs no escapes."""
    labels = [label.encode() for label in text.split(".")]
    return Name(b"".join(bytes((len(label),)) + label for label in labels) + b"\0")


def replies() -> Iterator[tuple[str, bytes]]:
    """Replies of each kind that a cluster gives, to www.example.org, the name that the fuzzer teaches."""
    zone, host = name("example.org"), name("www.example.org")
    soa = RR(
        zone, RRType.SOA, 5, name("ns.dns.example.org").wire + name("hostmaster.example.org").wire + bytes(20)
    )  # fmt: skip
    address = RR(host, RRType.AAAA, 5, bytes(16))
    service = RR(host, RRType.SRV, 5, bytes(6) + name("a.www.example.org").wire)
    made = {
        "addresses": Reply(answer=(address,) * 3, aa=True),
        "alias": Reply(answer=(RR(host, RRType.CNAME, 5, name("b.example.org").wire), address)),
        "nodata": Reply(authority=(soa,), aa=True),
        "nxdomain": Reply(Rcode.NXDOMAIN, authority=(soa,), aa=True),
        "services": Reply(answer=(service,) * 2, additional=(address,), aa=True),
    }
    for asked, qtype in (("a", RRType.A), ("aaaa", RRType.AAAA)):
        for kind, reply in made.items():
            for edns in (None, Edns(1232, do=True)):
                query = decode(encode_question(host, qtype))
                wire = encode(query.replace(edns=edns), reply, MAX_TCP_LEN)
                yield f"reply-{asked}-{kind}{'-edns' if edns else ''}", wire


def encode_question(host: Name, qtype: int) -> bytes:
    """Write a query as octets."""
    question = Query.ask(host, qtype).question_wire
    return bytes((0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)) + question


def frames() -> Iterator[tuple[str, bytes]]:
    """Events of each kind, a page and a Status, as the fake API server writes them."""
    found: dict[str, dict[str, Any]] = {
        "service": service(1).manifest,
        "slice": endpoint_slice(1, 2).manifest,
        "status": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
    }
    for stem, each in found.items():
        yield stem, write_frame(json.dumps({"type": "ADDED", "object": each}).encode())
    page = {"kind": "EndpointSliceList", "metadata": {}, "items": [found["slice"]]}
    yield "page", write_body(json.dumps(page).encode())
    yield "status-alone", write_body(json.dumps(found["status"]).encode())


if __name__ == "__main__":
    for name_of, pairs in (("query", (*packets(), *replies())), ("watch", tuple(frames()))):
        folder = CORPUS / name_of
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for stem, wire in pairs:
            if len(wire) <= MAX_LEN or name_of == "watch":
                (folder / stem).write_bytes(wire)
