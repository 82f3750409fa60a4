from __future__ import annotations

import asyncio

import pytest

from hsdns.apiserver.transport import Transport, Unreachable
from loadtest.apiserver import faults
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.faults import Fault
from tests.support.apiserver.memory_api import MemoryApi

SERVICES = "/api/v1/services"
CLUSTER = ({"kind": "Service", "metadata": {"name": "a"}},)
LINE = b'{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"a","namespace":"default","resourceVersion":"1","uid":"services-1"},"apiVersion":"v1"}}\n'


def made() -> tuple[FakeCluster, MemoryApi]:
    cluster = FakeCluster()
    for manifest in CLUSTER:
        cluster.apply(manifest)
    return cluster, MemoryApi(cluster)


@pytest.mark.parametrize(
    ("fault", "chunks", "error"),
    [
        pytest.param(Fault(), [LINE], "", id="none"),
        pytest.param(faults.cut(0), [], "cut", id="cut before the body"),
        pytest.param(faults.cut(5), [LINE[:5]], "cut", id="cut in a line"),
        pytest.param(faults.cut(len(LINE)), [LINE], "cut", id="cut behind a line"),
        pytest.param(faults.ended(5), [LINE[:5]], "", id="ended in a line"),
        pytest.param(faults.silent(5), [LINE[:5]], "nothing came for 3 s", id="silent"),
        pytest.param(faults.slowly(100), [LINE[:100], LINE[100:]], "", id="in pieces"),
        pytest.param(faults.refused(), [], "before an answer came", id="refused"),
    ],
)
def test_the_body_of_a_watch(fault: Fault, chunks: list[bytes], error: str) -> None:
    async def body() -> None:
        cluster, api = made()
        cluster.fail(fault)
        transport: Transport = api  # it has the form of one
        found, said = [], ""
        try:
            async with transport.get(SERVICES, {"watch": "true"}) as answer:
                assert answer.status == 200
                cluster.end_watches()
                async for chunk in answer.chunks(lambda: 3.0):
                    found += [chunk]
        except Unreachable as unreachable:
            said = str(unreachable)
        assert found == chunks
        assert error in said
        assert bool(error) is bool(said)
        assert not cluster.watches

    asyncio.run(body())


def test_a_watch_waits_for_changes_and_is_cut() -> None:
    async def body() -> None:
        cluster, api = made()
        chunks: asyncio.Queue[bytes] = asyncio.Queue()

        async def read() -> None:
            async with api.get(SERVICES, {"watch": "true", "resourceVersion": "1"}) as answer:
                async for chunk in answer.chunks(lambda: 3.0):
                    chunks.put_nowait(chunk)

        reading = asyncio.create_task(read())
        cluster.apply({"kind": "Service", "metadata": {"name": "b"}})
        assert b'"name":"b"' in await chunks.get()
        assert api.is_idle()
        cluster.apply({"kind": "Service", "metadata": {"name": "c"}})
        assert not api.is_idle()
        assert b'"name":"c"' in await chunks.get()
        api.cut_connections()
        with pytest.raises(Unreachable, match="cut"):
            await reading

    asyncio.run(body())


def test_refusals_are_read_as_text_with_headers_of_any_case() -> None:
    async def body() -> None:
        cluster, api = made()
        cluster.fail(faults.too_many_requests(7))
        async with api.get(SERVICES, {}) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "7")
            assert answer.headers.get("RETRY-AFTER", "") == "7"
            assert await answer.text(8) == "Too many"
        api.up = False
        with pytest.raises(Unreachable, match="refused"):
            async with api.get(SERVICES, {}):
                pass

    asyncio.run(body())


def test_a_token_is_read_anew_after_401() -> None:
    async def body() -> None:
        cluster, _ = made()
        tokens = ["first"]
        api = MemoryApi(cluster, lambda: tokens[-1])
        cluster.token = "first"
        statuses = []
        for step in range(4):
            if step == 1:
                cluster.token = "second"
                tokens.append("second")
            async with api.get(SERVICES, {}) as answer:
                statuses.append(answer.status)
        assert statuses == [200, 401, 200, 200]

    asyncio.run(body())
