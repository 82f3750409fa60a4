"""Obstacles before an API server: which requests they stop, and what they cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hsdns.apiserver.access import Access
from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.transport import Obstacles, Refusal, Unreachable, read_body
from hsdns.apiserver.watch_event import decode_status
from hsdns.metrics import Registry
from tests.support.apiserver.fixed_access import FixedAccess
from tests.support.apiserver.scripted_http import ScriptedServer, chunked
from tests.support.coroutines.event_loops import run, until


@dataclass
class Wall:
    """An obstacle before one resource, or all."""

    resource: str = ""
    status: int = 0
    by: str = 'by the rule "x" of fault'
    change: float | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    def stops(self, resource: str, request: str) -> bool:
        self.asked.append((resource, request))
        return self.cuts(resource)

    def cuts(self, resource: str) -> bool:
        return self.resource in ("", resource)

    def next_change(self) -> float | None:
        return self.change


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.apiserver.watcher.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("hsdns.apiserver.reflector.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("hsdns.apiserver.watcher.ESTABLISHED_AFTER", 0.01)


async def test_cuts_now_and_when_that_changes() -> None:
    obstacles, wall, cut = Obstacles(), Wall("services", change=None), list[str]()

    def end(matches: Callable[[str], bool], error: OSError) -> None:
        cut.append(f"{matches('/api/v1/services')} {matches('/api/v1/pods')} {error.strerror}")
        wall.change = 0.0 if len(cut) == 1 else None

    obstacles.put(wall, [wall])
    assert not cut
    obstacles.open(end)
    line = 'True False the connection was lost, by the rule "x" of fault'
    assert cut == [line]
    await until(lambda: len(cut) == 2, "the change is due")
    obstacles.put(wall, [wall])
    await until(lambda: len(cut) == 3, "put again")
    obstacles.close()
    obstacles.put(wall, [])
    await asyncio.sleep(0)
    assert cut == [line] * 3


def test_refusal() -> None:
    refusal = Refusal("/apis/discovery.k8s.io/v1/endpointslices", Wall(status=403))

    async def test() -> tuple[str, bytes]:
        return await refusal.text(4096), await read_body(refusal, 1 << 20, 1.0)

    text, body = run(test())
    assert json.loads(body) == json.loads(text)
    status = decode_status(text, 403)
    assert (refusal.status, status.reason, status.message) == (
        403, "Forbidden", 'cannot list or watch resource "endpointslices", by the rule "x" of fault',
    )  # fmt: skip


@pytest.mark.sockets
async def test_the_client() -> None:
    """Requests fail as without a network, are refused, or are cut; metrics count them as such."""
    async with ScriptedServer(lambda head: chunked(b"a", then="hang")) as server:
        registry = Registry()
        client = ApiClient(FixedAccess(Access(server.url)), registry, lambda: 0.0, pytest.fail)
        wall = Wall(status=403)
        client.obstacles.put(wall, [wall])
        async with client.get("/api/v1/services", {}) as answer:
            assert answer.status == 403
        wall.status = 0
        with pytest.raises(Unreachable) as caught:
            async with client.get("/api/v1/services", {}):
                pass
        assert str(caught.value) == (
            f'{server.url} cannot be reached: the network is unreachable, by the rule "x" of fault'
        )
        client.obstacles.put(wall, [])
        found = []

        async def read() -> None:
            async with client.get("/api/v1/services", {}) as answer:

                def take(chunk: bytes) -> bool:
                    found.append(chunk)
                    client.cut(lambda path: path.endswith("/pods"), OSError())
                    error = ConnectionResetError(104, "lost")
                    client.cut(lambda path: path.endswith("/services"), error)
                    return True

                await answer.feed(take, lambda: 5.0)

        with pytest.raises(Unreachable) as caught:
            await read()
        assert (found, str(caught.value)) == ([b"a"], f"{server.url} cannot be reached: lost")
        await client.close()
        counter = registry.counter("coredns_kubernetes_rest_client_requests_total")
        assert {labels[0]: count for labels, count in counter.values.items()} == {
            "403": 1, "<error>": 1, "200": 1,
        }  # fmt: skip
