from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from loadtest.apiserver import faults
from loadtest.apiserver.fake_api import INITIAL_EVENTS_END, FakeApi
from loadtest.apiserver.faults import Fault
from loadtest.apiserver.selectors import parse_fields, parse_labels

STREAMING = (
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)
SERVICES = "/api/v1/services"
LINE = (
    b'{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"a","namespace":"default","labels":{},'
    b'"resourceVersion":"1","uid":"services-1"},"spec":{"clusterIP":"10.0.0.1"},"apiVersion":"v1"}}\n'
)
Test = Callable[[FakeApi, aiohttp.ClientSession], Awaitable[None]]


def service(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"kind": "Service", "metadata": metadata, "spec": {"clusterIP": "10.0.0.1"}}


def run(test: Test, *, streaming: bool = True) -> None:
    async def body() -> None:
        async with (
            FakeApi(streaming=streaming) as api,
            aiohttp.ClientSession(api.url) as session,
            asyncio.timeout(5),
        ):
            await test(api, session)

    asyncio.run(body())


async def next_event(response: aiohttp.ClientResponse) -> tuple[str, str]:
    """Read one event: its type, and the object's name or resourceVersion for a bookmark."""
    event = json.loads(await response.content.readline())
    metadata = event["object"]["metadata"]
    if event["type"] == "BOOKMARK":
        assert metadata["annotations"] == {INITIAL_EVENTS_END: "true"}
    return event["type"], metadata.get("name") or metadata["resourceVersion"]


def test_a_list_gives_the_selected_objects_page_by_page() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        for name in ("a", "b", "c"):
            api.apply(service(name, app="web"))
        api.apply(service("d"))
        api.apply(service("e", "other", app="web"))
        found: list[str] = []
        token = ""
        while True:
            query = {"labelSelector": "app=web", "limit": "3", "continue": token}
            async with session.get(SERVICES, params=query) as response:
                page = await response.json()
            assert (page["kind"], page["metadata"]["resourceVersion"]) == ("ServiceList", "5")
            found += [item["metadata"]["name"] for item in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert found == ["a", "b", "c", "e"]
        async with session.get("/api/v1/namespaces/other/services") as response:
            items = (await response.json())["items"]
        assert [item["metadata"]["name"] for item in items] == ["e"]

    run(test)


def test_a_streaming_list_ends_its_initial_events_with_a_bookmark() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        api.hold_sync()
        async with session.get(f"{SERVICES}?{STREAMING}") as response:
            assert await next_event(response) == ("ADDED", "a")
            api.apply(service("b"))
            api.release_sync()
            assert await next_event(response) == ("BOOKMARK", "1")
            assert await next_event(response) == ("ADDED", "b")
            api.apply(service("b", x="y"))
            assert await next_event(response) == ("MODIFIED", "b")
            api.delete(service("b"))
            assert await next_event(response) == ("DELETED", "b")
            api.drop_watches()
            assert await response.content.readline() == b""

    run(test)


def test_a_watch_with_a_selector_sees_objects_come_and_go_by_their_labels() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        async with session.get(
            f"{SERVICES}?watch=true&resourceVersion=1&labelSelector=app%3Dweb"
        ) as response:
            api.apply(service("a", app="web"))
            assert await next_event(response) == ("ADDED", "a")
            api.apply(service("a", app="db"))
            assert await next_event(response) == ("DELETED", "a")
            api.apply(service("b", app="web"))
            assert await next_event(response) == ("ADDED", "b")

    run(test)


def test_a_watch_from_a_forgotten_version_is_told_410() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        api.apply(service("b"))
        api.compact()
        async with session.get(f"{SERVICES}?watch=true&resourceVersion=1") as response:
            assert (response.status, (await response.json())["reason"]) == (410, "Expired")

    run(test)


def test_a_server_without_streaming_lists_says_so() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{SERVICES}?{STREAMING}") as response:
            assert (response.status, (await response.json())["reason"]) == (422, "Invalid")

    run(test, streaming=False)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(faults.cut(0), (200, b"", "cut"), id="cut before the body"),
        pytest.param(faults.cut(30), (200, LINE[:30], "cut"), id="cut in a line"),
        pytest.param(faults.ended(30), (200, LINE[:30], "ended"), id="ended in a line"),
        pytest.param(faults.silent(30), (200, LINE[:30], "silent"), id="silent"),
        pytest.param(faults.slowly(1), (200, LINE, "silent"), id="octet by octet, then open"),
        pytest.param(faults.refused(), (0, b"", "refused"), id="refused"),
        pytest.param(faults.html_page(502), (502, faults.PAGE, "ended"), id="a page of HTML"),
        pytest.param(faults.expired_event(), (200, faults.expired_event().body, "ended"), id="410 as event"),
    ],
)  # fmt: skip
def test_faults_on_a_connection(fault: Fault, expected: tuple[int, bytes, str]) -> None:
    status, data, end = expected

    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        api.cluster.fail(fault, times=2)  # aiohttp tries once more where it got no answer
        found, came = b"", ""
        try:
            async with session.get(f"{SERVICES}?watch=true") as response:
                assert response.status == status
                while end != "silent" or len(found) < len(data):
                    chunk = await response.content.readany()
                    if not chunk:
                        break
                    found += chunk
                came = "silent" if end == "silent" else "ended"
        except aiohttp.ServerDisconnectedError:
            came = "refused"
        except aiohttp.ClientPayloadError:
            came = "cut"
        assert (found, came) == (data, end)

    run(test)


def test_a_list_can_be_cut() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        api.cluster.fail(faults.cut(20))
        with pytest.raises(aiohttp.ClientPayloadError):
            async with session.get(SERVICES) as response:
                await response.read()
        async with session.get(SERVICES) as response:
            assert len((await response.json())["items"]) == 1

    run(test)


def test_a_restart_keeps_the_port_and_the_objects() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.apply(service("a"))
        url = api.url
        async with session.get(f"{SERVICES}?watch=true") as response:
            assert await next_event(response) == ("ADDED", "a")
            await api.stop()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.readline()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(SERVICES)
        await api.start()
        assert api.url == url
        async with session.get(SERVICES) as response:
            assert len((await response.json())["items"]) == 1

    run(test)


def test_a_bearer_shows_its_token() -> None:
    async def test(api: FakeApi, session: aiohttp.ClientSession) -> None:
        api.cluster.token = "new"
        statuses = []
        for token in ("old", "new"):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(SERVICES, headers=headers) as response:
                statuses.append(response.status)
        assert statuses == [401, 200]

    run(test)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        pytest.param("", {}, True, id="nothing asked"),
        pytest.param("a=b", {"a": "b"}, True, id="equal"),
        pytest.param("a==b,c=d", {"a": "b"}, False, id="one of two"),
        pytest.param("a!=b", {}, True, id="unequal where absent"),
        pytest.param("a!=b", {"a": "b"}, False, id="unequal"),
        pytest.param("a in (b, c)", {"a": "c"}, True, id="in"),
        pytest.param("a in (b,c),d", {"a": "c"}, False, id="in, and exists"),
        pytest.param("a notin (b)", {}, True, id="notin where absent"),
        pytest.param("a notin (b)", {"a": "b"}, False, id="notin"),
        pytest.param("!a", {"a": ""}, False, id="absent"),
    ],
)
def test_labels(text: str, labels: dict[str, str], selected: bool) -> None:
    assert parse_labels(text)({"metadata": {"labels": labels}}) is selected


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("status.phase!=Failed,status.phase!=Unknown", True, id="unequal"),
        pytest.param("status.phase!=Running", False, id="equal"),
        pytest.param("metadata.name=a,spec.nodeName=", True, id="absent is empty"),
    ],
)
def test_fields(text: str, selected: bool) -> None:
    manifest = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    assert parse_fields(text)(manifest) is selected
