"""Which plugins /metrics shows of a block."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint, Next, Request
from hsdns.fastpath import Versions
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import QueryCounts
from hsdns.plugins.whoami import Whoami
from hsdns.server.instance import has_debug, make_processors
from hsdns.server.runtime import ServerRuntime
from hsdns.wire.message import Reply
from tests.support.clients.messages import query, summary
from tests.support.coroutines.eager import finish
from tests.support.plugins.corefiles import assembled

CLIENT, LOCAL = Endpoint("192.0.2.1", 5), Endpoint("127.0.0.1", 53)


class Made:
    """The processors of a Corefile, and what they report."""

    def __init__(self, text: str) -> None:
        self.metrics = Registry()
        self.failures: list[str] = []
        self.configuration = assembled(text)
        versions = Versions()
        self.runtime = ServerRuntime(self.configuration, self.metrics, versions)
        self.runtime.fail = self.failures.append
        self.processors = make_processors(self.runtime, versions, QueryCounts(self.metrics))

    async def ask(self, server: str, qname: str, rdclass: str = "IN") -> str:
        """The reply, on one line."""
        wire = query(qname, rdclass=rdclass).to_wire()
        out = await self.processors[server].answer(wire, CLIENT, LOCAL, "tcp", 0.0)
        assert out is not None
        return summary(out)


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        pytest.param("metadata\nkubernetes {{\npods verified\n{}\n}}", True, id="clients"),
        pytest.param("metadata\nkubernetes {{\n{}\n}}", False, id="no-pods"),
        pytest.param("kubernetes {{\npods verified\n{}\n}}", False, id="no-metadata"),
    ],
)
def test_filters_that_read_the_store_wait_for_a_late_watch(lines: str, waits: bool) -> None:
    made = Made(f"a.org {{\n{lines.format('endpoint http://192.0.2.1:8001')}\n}}\n")
    assert (made.processors["dns://:53"].late_watch is not None) is waits


@pytest.mark.parametrize("debugs", [False, True])
def test_handler_that_raises(
    debugs: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs its own query only; with debug the whole stack is logged."""

    async def broken(self: Whoami, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        raise RuntimeError("broken")

    monkeypatch.setattr(Whoami, "handle", broken)
    made = Made(". {\ndebug\nwhoami\n}\n" if debugs else ". {\nwhoami\n}\n")
    assert has_debug(made.configuration) is debugs
    assert finish(made.ask("dns://:53", "a.org")) == "1 SERVFAIL qr rd |  |  | "
    assert made.metrics.counter("coredns_panics_total").values == {(): 1}
    assert made.failures == []
    (record,) = caplog.records
    assert (record.exc_info is not None) is debugs


pytestmark = pytest.mark.sockets
