import asyncio
from typing import Any, cast

import dns.message

from hsdns.chain import Endpoint
from hsdns.faults.rules import Bite
from hsdns.query import QueryProcessor
from hsdns.testing.pod import PodIdentity
from hsdns.testing.queries import Query
from hsdns.testing.server import Asking, ObservedProcessor

CLIENT = Endpoint("127.0.0.1", 5000)


class Answering:
    """Answers all with NXDOMAIN, once `bites` were decided."""

    server = "dns://127.0.0.1:0"
    _blocks = None

    def __init__(self, asking: Asking, *bites: Bite) -> None:
        self.asking, self.bites = asking, bites
        self.clients: list[Endpoint] = []

    async def answer(self, wire: bytes, client: Endpoint, *rest: Any) -> bytes | None:
        self.clients.append(client)
        for bite in self.bites:
            self.asking.note(bite)
        await asyncio.sleep(0)
        return wire[:2] + b"\x81\x83" + wire[4:]


def bite(name: str, rule: str = "lossy") -> Bite:
    rule_of: Any = type("Named", (), {"name": rule})
    return Bite(rule_of, None, {"name": name})


def run(*bites: Bite, pod: PodIdentity | None = None) -> tuple[Query, Endpoint]:
    noted: list[Query] = []
    asking = Asking()
    answering = Answering(asking, *bites)
    observed = ObservedProcessor(cast(QueryProcessor, answering), noted.append, lambda: 1.5, asking)
    if pod is not None:
        observed = observed.of_pod(pod)

    async def both() -> None:
        """A second query, which no bite is about, comes while the first one waits."""
        wires = [dns.message.make_query(name, "A").to_wire() for name in ("Web.example", "other")]
        await asyncio.gather(*(observed.answer(wire, CLIENT, CLIENT, "udp") for wire in wires))

    asyncio.run(both())
    assert noted[1] == Query(1.5, noted[0].client, "udp", "other", "A", "NXDOMAIN")
    return noted[0], answering.clients[0]


def test_a_query_has_its_rcode_and_its_faults() -> None:
    found, client = run(bite("web.example."), bite("elsewhere."), bite("web.example.", "late"))
    expected = ("lossy", "late")
    assert found == Query(1.5, "127.0.0.1", "udp", "web.example", "A", "NXDOMAIN", expected)
    assert client == CLIENT


def test_a_pod_has_its_own_address() -> None:
    found, client = run(pod=PodIdentity("shop", "eu", "10.245.0.7"))
    assert found == Query(1.5, "shop", "udp", "web.example", "A", "NXDOMAIN")
    assert client == Endpoint("10.245.0.7", 5000)


def test_what_cannot_be_read_is_answered_and_not_noted() -> None:
    noted: list[Query] = []
    asking = Asking()
    observed = ObservedProcessor(cast(QueryProcessor, Answering(asking, bite("web."))), noted.append, lambda: 0.0, asking)  # fmt: skip
    assert asyncio.run(observed.answer(b"\0" * 12, CLIENT, CLIENT, "udp")) is not None
    assert noted == []
