from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest

from hsdns.corefile.keys import HostPort
from hsdns.metrics import SLIM_TIME_BUCKETS, Counter, Histogram
from hsdns.plugins import health
from hsdns.plugins.health import Health
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import LOOPS
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_answer() -> None:
    runtime = FakeRuntime()
    finish(set_up(Health, "health :8085").start(runtime))
    runtime.spawned["health"].close()
    assert runtime.http[":8085"]["/health"]("/health") == (200, "text/plain; charset=utf-8", b"OK")


@pytest.mark.parametrize(
    ("address", "target"),
    [
        (":8080", ("127.0.0.1", 8080)),
        ("127.0.0.2:81", ("127.0.0.2", 81)),
        ("[::1]:8080", ("::1", 8080)),
    ],
)
def test_checks_itself_every_second(
    address: str, target: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    asked: list[HostPort] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == 2:
            raise asyncio.CancelledError
        slept.append(seconds)

    async def check(self: Health, target: HostPort) -> None:
        asked.append(target)

    monkeypatch.setattr(health, "sleep", sleep)
    monkeypatch.setattr(Health, "check", check)
    runtime = FakeRuntime()
    finish(Health(address).start(runtime))
    with pytest.raises(asyncio.CancelledError):
        finish(runtime.spawned["health"])
    assert (slept, asked) == ([1.0, 1.0], [target, target])


def test_no_check_of_port_zero() -> None:
    runtime = FakeRuntime()
    finish(Health("127.0.0.1:0").start(runtime))
    assert runtime.spawned == {}


def check_against(serve: Serve | None, seconds: float) -> FakeRuntime:
    """Check a scripted server, or a closed port, while `seconds` pass on the plugin's clock."""
    runtime = FakeRuntime()

    async def run() -> None:
        plugin = Health("127.0.0.1:0")
        await plugin.start(runtime)
        assert runtime.tasks == {}

        async def timed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            runtime.time += seconds
            assert serve is not None
            try:
                await serve(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

        server = await asyncio.start_server(timed, "127.0.0.1", 0)
        target = HostPort(*server.sockets[0].getsockname())
        if serve is None:
            server.close()
            await server.wait_closed()
        await plugin.check(target)
        server.close()
        await server.wait_closed()
        await asyncio.gather(
            *asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True
        )

    asyncio.run(run())
    return runtime


def measured(runtime: FakeRuntime) -> tuple[list[float], float]:
    durations = runtime.metrics.histogram(
        "coredns_health_request_duration_seconds", SLIM_TIME_BUCKETS
    )
    failures = runtime.metrics.counter("coredns_health_request_failures_total")
    assert isinstance(durations, Histogram)
    assert isinstance(failures, Counter)
    return durations.values[()], failures.values[()]


async def ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    assert request.startswith(b"GET /health HTTP/1.1\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
    await writer.drain()


async def not_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"SSH-2.0\r\n")
    await writer.drain()


async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("serve", "seconds", "cells", "failures", "warning"),
    [
        pytest.param(ok, 0.001, [0, 1, 0, 0, 0, 0, 0.001], 0, "", id="ok"),
        pytest.param(ok, 1.5, [0, 0, 0, 0, 1, 0, 1.5], 0, "took more than 1s: 1.5s", id="slow"),
        pytest.param(
            not_http, 0, [1, 0, 0, 0, 0, 0, 0], 1, "failed: the response is not HTTP", id="not-http"
        ),
        pytest.param(
            close, 0, [1, 0, 0, 0, 0, 0, 0], 1, "failed: the response is not HTTP", id="closed"
        ),
        pytest.param(None, 0, [1, 0, 0, 0, 0, 0, 0], 1, "failed: ", id="refused"),
    ],
)
def test_check(
    serve: Serve | None,
    seconds: float,
    cells: list[float],
    failures: float,
    warning: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "hsdns.plugin.health")
    assert measured(check_against(serve, seconds)) == (cells, failures)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == bool(warning)
    for sentence in said:
        assert sentence.startswith('plugin/health: Local health request to "http://127.0.0.1:')
        assert f'/health" {warning}' in sentence


@pytest.mark.sockets
def test_a_check_times_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "CHECK_TIMEOUT", 0.01)
    runtime = FakeRuntime()

    async def run(target: HostPort) -> None:
        plugin = Health("127.0.0.1:0")
        await plugin.start(runtime)
        await plugin.check(target)

    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, never responds
        asyncio.run(run(HostPort(*silent.getsockname())))
    assert measured(runtime)[1] == 1
    assert caplog.records[0].getMessage().endswith("failed: no response within 10ms")


@pytest.mark.sockets
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_check_cancelled_during_its_lookup_logs_nothing(loop: str) -> None:
    """The lookup fails after the check has been cancelled."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context["message"])
    )
    plugin = Health("127.0.0.1:0")
    await plugin.start(FakeRuntime())
    check = asyncio.create_task(plugin.check(HostPort("no such host", 8080)))
    for _ in range(3):
        await asyncio.sleep(0)
    check.cancel()
    await asyncio.gather(check, return_exceptions=True)
    for _ in range(8):  # more than the threads that resolve names
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().getaddrinfo("no other", 8080)
    gc.collect()
    assert complaints == []
