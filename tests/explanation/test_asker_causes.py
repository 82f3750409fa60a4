"""Causes in the asker, each proved by a lookup without it; tests/explanation/test_asker.py has a row for each kind."""

from __future__ import annotations

from hsdns.explanation.client import Asker, Lookups, asker_cause
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from tests.support.coroutines.eager import turns


async def ask(wire: bytes, transport: str, at: float) -> tuple[bytes | None, str]:
    """Only db.shop.svc.cluster.local exists."""
    query = decode(wire)
    if query.qname.to_text() != "db.shop.svc.cluster.local.":
        return encode(query, Reply(Rcode.NXDOMAIN, aa=True), 512), ""
    return encode(query, Reply(answer=(RR(query.qname, RRType.A, 5, b"\xc0\0\2\1"),), aa=True), 512), ""  # fmt: skip


def cause(name: str, asker: Asker) -> tuple[str, str, str] | None:
    async def found() -> tuple[str, str, str] | None:
        lookups, setting = Lookups(ask, name, (RRType.A,)), asker.settings[0]
        cause = await asker_cause(asker, lookups, setting, await lookups.look_up(setting))
        return None if cause is None else (cause.cause, cause.needed, cause.found)

    return turns(found())[0]


def test_the_first_thing_without_which_it_resolves() -> None:
    asker = Asker(("go",), "search a.test\nnameserver 10.0.0.1\n", "cluster.local", ("other", "shop"))  # fmt: skip
    assert cause("db", asker) == (
        "the search list has no shop.svc.cluster.local, where db exists; it has a.test",
        "db.shop.svc.cluster.local is asked",
        "db.shop.svc.cluster.local",
    )


def test_none_where_nothing_helps() -> None:
    assert cause("x", Asker(("go",), "search a.test\n", "cluster.local", ("shop",))) is None
