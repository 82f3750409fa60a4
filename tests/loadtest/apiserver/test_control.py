from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hsdns.cluster.programming import CHANGE_TIME, read_time
from loadtest.apiserver.control import LoadedCluster
from loadtest.apiserver.fake_cluster import FakeCluster

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
ROOT = Path(__file__).resolve().parents[3]
WATCH = f"{SLICES}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@asynccontextmanager
async def running(*words: str) -> AsyncGenerator[aiohttp.ClientSession]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest.apiserver", *words),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("ready http://127.0.0.1:")
        async with aiohttp.ClientSession(line.split()[1]) as session:
            yield session
        process.terminate()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def post(session: aiohttp.ClientSession, word: str, **body: Any) -> Any:
    async with session.post(f"/_control/{word}", json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def get(session: aiohttp.ClientSession, word: str) -> Any:
    async with session.get(f"/_control/{word}") as response:
        return await response.json()


@pytest.mark.sockets
@pytest.mark.slow
def test_changes_are_seen_and_told_alike() -> None:
    async def body() -> None:
        async with (
            running("--services", "20", "--endpoints", "3") as session,
            session.get(WATCH) as response,
            asyncio.timeout(20),
        ):
            content = response.content
            state: dict[str, list[str]] = {}

            async def see() -> str:
                event = json.loads(await content.readline())
                meta = event["object"]["metadata"]
                if event["type"] != "BOOKMARK":
                    state[f"{meta['namespace']}/{meta['name']}"] = [
                        each["addresses"][0] for each in event["object"]["endpoints"]
                    ]
                return str(event["type"])

            assert [await see() for _ in range(21)] == ["ADDED"] * 20 + ["BOOKMARK"]
            single = await post(session, "change", index=3)
            assert await see() == "MODIFIED"
            assert (single["namespace"], single["service"]) == ("team-0", "web-3")
            assert time.monotonic() - 20 < single["time"] < time.monotonic()
            await post(session, "changes", rate=2000, seconds=0.1)
            assert [await see() for _ in range(200)] == ["MODIFIED"] * 200
            told = await get(session, "changes?from=190")
            assert (told["count"], len(told["changes"])) == (200, 10)
            assert (await post(session, "stop"))["count"] == 200
            few = await post(session, "changes", rate=2000, seconds=0.02, among=3)
            assert {service: set(addresses) for service, addresses in few["before"].items()} == {
                f"web-{n}": set(state[f"team-0/web-{n}-x7k2p"]) for n in range(3)
            }
            assert [await see() for _ in range(40)] == ["MODIFIED"] * 40
            told = await get(session, "changes?from=0")
            assert {change[2] for change in told["changes"]} == {"web-0", "web-1", "web-2"}
            final = await get(session, "state")
            assert final["slices"] == state
            assert final["watches"] == 1
            for _, namespace, service, old, new in told["changes"][-3:]:
                assert old != new
                assert new in state[f"{namespace}/{service}-x7k2p"]
            await post(session, "load", services=1, endpoints=1)
            assert await see() == "ADDED"
            await post(session, "do", what="drop")
            assert await content.readline() == b""

    asyncio.run(body())


def test_a_slice_is_as_large_as_a_real_one() -> None:
    cluster = FakeCluster()
    LoadedCluster(cluster).add(1, 5)
    (stored,) = cluster.caches["EndpointSlice"].objects.values()
    assert 2400 <= len(stored.data) <= 3000
    assert stored.manifest["metadata"]["resourceVersion"] == str(stored.version)


def test_a_change_replaces_one_address_and_the_version() -> None:
    cluster = FakeCluster()
    load = LoadedCluster(cluster)
    load.add(2, 3)
    before = [each["endpoints"] for each in cluster.objects("EndpointSlice")]
    began = math.floor(time.time())
    seen = set()
    for number in range(12):
        changed = load.change()
        assert changed.service == f"web-{number % 2}"
        assert changed.new not in seen
        seen.add(changed.new)
    after = cluster.objects("EndpointSlice")
    assert [len(each["endpoints"]) for each in after] == [3, 3]
    times = [each["metadata"]["annotations"][CHANGE_TIME] for each in after]
    assert [began <= (read_time(each) or 0.0) <= time.time() for each in times] == [True, True]
    assert [each["metadata"]["resourceVersion"] for each in after] == ["16", "17"]
    for was, now in zip(before, after, strict=True):
        old = {each["addresses"][0] for each in was}
        new = {each["addresses"][0] for each in now["endpoints"]}
        assert not old & new
        assert [each["hostname"] for each in was] == [each["hostname"] for each in now["endpoints"]]
