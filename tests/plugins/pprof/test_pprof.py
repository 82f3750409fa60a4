from __future__ import annotations

import asyncio
import gzip
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from hsdns.http_page import HttpPage
from hsdns.plugins import pprof
from hsdns.plugins.pprof import INDEX, Pprof
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up, setup_error


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("pprof", "localhost:6053"),
        ("pprof :6060", ":6060"),
        ("pprof 127.0.0.1:6060 {\n}", "127.0.0.1:6060"),
    ],
)
def test_setup(text: str, address: str) -> None:
    assert set_up(Pprof, text).address == address


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("pprof a b", 'Corefile:2:9: "pprof" takes at most 1 argument, found 2', id="two"),
        pytest.param("pprof 6060", 'Corefile:2:7: "6060" is not an address and port; write it as ":8080", "127.0.0.1:8080" or "[::1]:8080"', id="port"),
        pytest.param("pprof\npprof", 'Corefile:3:1: "pprof" may occur only once in a server block; merge it with the first', id="twice"),
        pytest.param("pprof {\nblock 1\n}", 'Corefile:3:1: property "block" of pprof is not supported: Python does not record which threads wait; remove it', id="block"),
        pytest.param("pprof {\nmutex\n}", 'Corefile:3:1: unknown property "mutex" of pprof', id="unknown"),
    ],
)  # fmt: skip
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Pprof, text) == error


def started() -> tuple[Pprof, HttpPage]:
    plugin, runtime = Pprof("127.0.0.1:0"), FakeRuntime()
    finish(plugin.start(runtime))
    pages = runtime.http["127.0.0.1:0"]
    assert set(pages) == {"/debug/pprof", "/debug/pprof/"}
    return plugin, pages["/debug/pprof/"]


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        pytest.param("/debug/pprof", 200, INDEX, id="index"),
        pytest.param("/debug/pprof/", 200, INDEX, id="index-slash"),
        pytest.param("/debug/pprof/mutex", 404, "Unknown profile\n", id="unknown"),
        pytest.param("/debug/pprof/profile?seconds=x", 400, 'invalid seconds "x"; give more than 0 and at most 300\n', id="no-time"),
        pytest.param("/debug/pprof/profile?seconds=nan", 400, 'invalid seconds "nan"; give more than 0 and at most 300\n', id="nan"),
        pytest.param("/debug/pprof/heap?seconds=301", 400, 'invalid seconds "301"; give more than 0 and at most 300\n', id="too-long"),
        pytest.param("/debug/pprof/heap?seconds=0", 400, 'invalid seconds "0"; give more than 0 and at most 300\n', id="zero"),
    ],
)  # fmt: skip
def test_pages(path: str, status: int, body: str) -> None:
    _, page = started()
    assert page(path) == (status, "text/plain; charset=utf-8", body.encode())


def test_command_line_arguments_are_separated_by_nul(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.orig_argv", ["hsdns", "-conf", "a file"])
    _, page = started()
    assert page("/debug/pprof/cmdline")[2] == b"hsdns\0-conf\0a file"


def test_stacks_of_tasks_and_threads() -> None:
    """They are collected in the loop's thread, before another thread renders the page."""

    async def wait() -> None:
        await asyncio.Event().wait()

    async def test() -> str:
        _, page = started()
        assert page.is_slow
        task = asyncio.create_task(wait(), name="waiting")
        await asyncio.sleep(0)
        page.prepare()
        task.cancel()
        return page("/debug/pprof/goroutine?debug=2")[2].decode()

    text = asyncio.run(test())
    assert "task waiting:\n    test_stacks_of_tasks_and_threads.<locals>.wait " in text
    assert "thread MainThread:\n" in text


def while_profiling(plugin: Pprof, ask: Callable[[], object]) -> None:
    """Call a function while a profile is running."""
    with plugin._in_use:
        ask()


def test_one_profile_at_a_time() -> None:
    plugin, page = started()
    busy = (500, "text/plain; charset=utf-8", b"another profile is running; retry later\n")
    found: list[object] = []
    while_profiling(plugin, lambda: found.append(page("/debug/pprof/heap?seconds=1")))
    assert found == [busy]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/debug/pprof/profile", "application/octet-stream"),
        ("/debug/pprof/profile?debug=1", "text/plain; charset=utf-8"),
        ("/debug/pprof/heap?seconds=300", "text/plain; charset=utf-8"),
    ],
)
def test_stop_ends_a_running_profile(path: str, kind: str) -> None:
    """Its client gets what was collected, and its thread ends."""
    plugin, page = started()
    answers: list[tuple[int, str, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(page(path)))
    asking.start()
    finish(plugin.stop())
    asking.join(10)
    ((status, content_type, body),) = answers
    assert (status, content_type) == (200, kind)
    assert not tracemalloc.is_tracing()
    if kind == "application/octet-stream":
        assert gzip.decompress(body)
    elif "heap" in path:
        assert body.split(b" ")[1:][:2] == [b"bytes", b"in"]


def test_heap_while_tracemalloc_is_in_use() -> None:
    _, page = started()
    tracemalloc.start()
    try:
        assert page("/debug/pprof/heap")[0] == 500
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_heap_shows_source_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bytearray] = []
    plugin, page = started()

    def wait(seconds: float) -> bool:
        assert seconds == 10.0
        held.append(bytearray(1_000_000))
        return False

    monkeypatch.setattr(plugin._stopped, "wait", wait)
    first, second, *_ = page("/debug/pprof/heap")[2].decode().splitlines()
    assert first.endswith(" bytes in 10 s")
    assert f"{__file__}:" in second
    assert int(second.split()[0]) >= 1_000_000
    assert pprof.HEAP_LINES == 100
