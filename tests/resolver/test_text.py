"""How lookups are shown."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hsdns.resolver import MODELS
from hsdns.resolver.model import Answer, Packet
from hsdns.resolver.report import LookupReport, as_list, as_table, report_of
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers.lookups import steps

TEXT = "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a.test\noptions ndots:2 edns0\n"
Ask = Callable[[Packet], tuple[float, Answer] | None]


def look_up(resolver: str, ask: Ask, text: str = TEXT) -> LookupReport:
    model = MODELS[resolver](text, Random(0))
    return report_of(model, steps(model, "web", (RRType.A,), ask))


def late(packet: Packet) -> tuple[float, Answer] | None:
    """The first server never answers, the other has many addresses after 0.1 s."""
    if packet.server == 0:
        return None
    if packet.transport == "tcp":
        return 0.1, Answer(addresses=("192.0.2.1", "192.0.2.2", "192.0.2.3"))
    return 0.1, Answer(tc=True)


def test_list() -> None:
    assert list(as_list("web", look_up("glibc", late))) == [
        "glibc: search a.test, ndots 2",
        "   0.000  udp 10.0.0.1 A    web.a.test  no reply",
        "           waits 5 s",
        "   5.000  udp 10.0.0.2 A    web.a.test  truncated after 0.1 s",
        "   5.100  tcp 10.0.0.2 A    web.a.test  192.0.2.1 192.0.2.2 and 1 more after 0.1 s",
        "   5.200  web: 192.0.2.1 192.0.2.2 and 1 more: web.a.test has addresses",
    ]  # fmt: skip


def test_table() -> None:
    def refuse(packet: Packet) -> tuple[float, Answer]:
        return 0.0, Answer(Rcode.REFUSED) if packet.rrtype == RRType.A else Answer()

    text = TEXT.replace("nameserver 10.0.0.2\n", "")
    lookups = [look_up("musl", refuse, text), look_up("go", refuse, text)]
    assert list(as_table("web", lookups)) == [
        "web: search a.test, ndots 2",
        "resolver    queries  seconds  result",
        'musl              2    5.000  error "Try again"',
        'go                4    0.000  error "server misbehaving"',
        "",
        "musl ignores the option edns0",
        "musl: web.a.test A had no usable answer in 5 seconds",
        "go: web A: server misbehaving",
        "resolves with none of musl, go",
    ]
