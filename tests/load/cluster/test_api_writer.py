import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from hsdns.apiserver.access import Endpoint
from hsdns.load.cluster.writer import ApiWriter
from hsdns.load.errors import LoadError
from loadtest.ports import free_port


def with_writer(
    test: Callable[[ApiWriter], Awaitable[None]], answer: web.Response | None
) -> list[str]:
    """Run a test with a server that gives an answer, or none; return what it was sent."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(
            f"{request.method} {request.path} {request.content_type} {await request.text()}"
        )
        assert answer is not None
        return answer

    async def run() -> None:
        runner = web.AppRunner(web.Application())
        runner.app.router.add_route("*", "/{path:.*}", handle)
        await runner.setup()
        port = free_port()
        if answer is not None:
            await web.TCPSite(runner, "127.0.0.1", port).start()
        writer = ApiWriter(Endpoint([f"http://127.0.0.1:{port}"]))
        try:
            await test(writer)
        finally:
            await writer.close()
            await runner.cleanup()

    asyncio.run(run())
    return seen


@pytest.mark.sockets
def test_requests() -> None:
    async def test(writer: ApiWriter) -> None:
        assert await writer.send("POST", "/api/v1/namespaces", {"kind": "Namespace"}) == (201, "{}")

    seen = with_writer(test, web.Response(status=201, text="{}"))
    assert seen == ['POST /api/v1/namespaces application/json {"kind":"Namespace"}']


@pytest.mark.sockets
def test_a_redirect_is_not_followed() -> None:
    async def test(writer: ApiWriter) -> None:
        assert (await writer.send("DELETE", "/x"))[0] == 307

    answer = web.Response(status=307, headers={"Location": "/y"})
    assert with_writer(test, answer) == ["DELETE /x application/octet-stream "]


@pytest.mark.sockets
def test_a_server_that_cannot_be_reached() -> None:
    async def test(writer: ApiWriter) -> None:
        with pytest.raises(LoadError, match=r"^-churn-api: .*127.0.0.1"):
            await writer.send("GET", "/x")

    assert with_writer(test, None) == []
