"""Lookups with answers that are known, assumed and not seen."""

from __future__ import annotations

import pytest

from hsdns.explanation.client import ASSUMED, NOT_SEEN, UNSEEN, Lookups, Setting
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from tests.support.coroutines.eager import turns

CLUSTER = "search a.test\nnameserver 10.96.0.10\n"
KNOWN = "web.a.test."


async def ask(wire: bytes, transport: str, at: float) -> tuple[bytes | None, str]:
    """Names of a.test are known, `lost.a.test` is not answered, for all others 192.0.2.53 is asked."""
    query = decode(wire)
    name = query.qname.to_text()
    if name == "lost.a.test.":
        return None, ""
    if not name.endswith("a.test."):
        return encode(query, unwritten(Rcode.SERVFAIL), 512), "192.0.2.53:53"
    if name != KNOWN or query.qtype != RRType.A:
        rcode = Rcode.NOERROR if name == KNOWN else Rcode.NXDOMAIN
        return encode(query, Reply(rcode, aa=True), 512), ""
    record = RR(query.qname, RRType.A, 5, b"\xc0\0\2\1")
    return encode(query, Reply(answer=(record,), aa=True), 512), ""


@pytest.mark.parametrize(
    ("name", "setting", "error", "unseen", "why"),
    [
        ("web", Setting("glibc", CLUSTER), None, [""] * 2, "web.a.test has addresses"),
        # It goes on after a name that is taken as missing.
        ("web.b", Setting("glibc", CLUSTER), UNSEEN, [ASSUMED] * 2 + [""] * 2, "192.0.2.53:53 would answer for web.b"),
        # A name without a dot is missing everywhere.
        ("no", Setting("musl", CLUSTER), "Name does not resolve", [""] * 2 + [ASSUMED] * 2, "no A is NXDOMAIN"),
        ("web", Setting("go", CLUSTER, frozenset(["10.96.0.11"])), UNSEEN, [NOT_SEEN], "10.96.0.10 would answer for web.a.test"),
        ("web", Setting("go", "search a.test\n", frozenset(["10.96.0.11"])), UNSEEN, [NOT_SEEN], "the nameservers of its node would answer for web.a.test"),
        # musl asks all nameservers at once, and takes the answer that comes.
        ("web", Setting("musl", f"{CLUSTER}nameserver 192.0.2.8\n", frozenset(["10.96.0.10"])), None, ["", NOT_SEEN] * 2, "web.a.test has addresses"),
        ("web", Setting("musl", CLUSTER, blocked=(("udp", "x"),)), "Try again", [""] * 4, "web.a.test A had no usable answer in 5 seconds"),
        ("lost", Setting("musl", CLUSTER), "Try again", [""] * 4, "lost.a.test A had no usable answer in 5 seconds"),
    ],
)  # fmt: skip
def test_lookup(
    name: str, setting: Setting, error: str | None, unseen: list[str], why: str
) -> None:
    found, _ = turns(Lookups(ask, name, (RRType.A, RRType.AAAA)).look_up(setting))
    assert (found.error, [each.unseen for each in found.queries], found.why) == (error, unseen, why)
