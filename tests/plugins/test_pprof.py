from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.http_page import HttpPage
from hsdns.plugins import pprof
from hsdns.plugins import pprof as profile_module
from hsdns.plugins.pprof import INDEX, Frame, Pprof, Profile, folded, sample, stack_of, to_pprof
from hsdns.wire.protobuf import field
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime

INNER = Frame("inner", "/lib/a.py", 7)
OUTER = Frame("Outer.call", "/lib/b.py", 300)
PROFILE = Profile(
    Counter({(INNER, OUTER): 2, (OUTER,): 1}),
    Counter({(INNER, OUTER): 21_400_000, (OUTER,): 1_000_000}),
    0.5,
)


def varints(octets: Iterator[int]) -> Iterator[int]:
    """Yield the numbers of a packed field, or of the head of one."""
    value = shift = 0
    for octet in octets:
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            yield value
            value = shift = 0


def fields(wire: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffers message: field number, and number or octets."""
    octets = iter(wire)
    numbers = varints(octets)
    for key in numbers:
        value = next(numbers)
        assert key & 7 in (0, 2)
        yield key >> 3, value if key & 7 == 0 else bytes(islice(octets, value))


def read(wire: bytes) -> tuple[dict[int, list[int | bytes]], list[str]]:
    found: dict[int, list[int | bytes]] = {}
    for number, value in fields(gzip.decompress(wire)):
        found.setdefault(number, []).append(value)
    strings = [value.decode() for value in found[6] if isinstance(value, bytes)]
    return found, strings


def message(value: int | bytes) -> dict[int, int | bytes]:
    assert isinstance(value, bytes)
    return dict(fields(value))


def test_pprof_file() -> None:
    found, strings = read(to_pprof(PROFILE, wall=1_700_000_000.0))
    assert strings[0] == ""
    kinds = [message(kind) for kind in found[1]]
    assert [(strings[kind[1]], strings[kind[2]]) for kind in kinds] == [  # type: ignore[index]  # numbers, both
        ("samples", "count"), ("cpu", "nanoseconds"),
    ]  # fmt: skip
    functions = {
        each[1]: (strings[each[2]], strings[each[4]])  # type: ignore[index]  # numbers, both
        for each in map(message, found[5])
    }
    lines = {}
    for each in map(message, found[4]):
        line = message(each[4])
        lines[each[1]] = (*functions[line[1]], line[2])
    assert sorted(lines.values()) == sorted([tuple(INNER), tuple(OUTER)])
    stacks = {}
    for each in map(message, found[2]):
        places, values = each[1], each[2]
        assert isinstance(places, bytes)
        assert isinstance(values, bytes)
        stacks[tuple(lines[place] for place in places)] = [*varints(iter(values))]
    assert stacks == {
        (tuple(INNER), tuple(OUTER)): [2, 21_400_000],
        (tuple(OUTER),): [1, 1_000_000],
    }
    assert found[9] == [1_700_000_000_000_000_000]
    assert found[10] == [500_000_000]
    assert found[12] == [10_000_000]


@given(st.integers(0, 2**63 - 1))
def test_numbers(value: int) -> None:
    assert list(fields(field(3, value))) == [(3, value)]


def test_folded() -> None:
    assert folded(PROFILE) == "Outer.call (b.py);inner (a.py) 21\nOuter.call (b.py) 1\n"


def test_folded_replaces_semicolons() -> None:
    """A semicolon in a name would separate calls."""
    odd = (Frame("a;b", "/c.py", 1),)
    assert folded(Profile(Counter({odd: 1}), Counter({odd: 2_000_000}), 1.0)) == "a:b (c.py) 2\n"


def test_stack_is_innermost_first_and_bounded() -> None:
    def deep(left: int) -> tuple[Frame, ...]:
        return deep(left - 1) if left else stack_of(sys._getframe())

    stack = deep(profile_module.MAX_DEPTH + 10)
    assert len(stack) == profile_module.MAX_DEPTH
    assert {frame.function.rpartition(".")[2] for frame in stack} == {"deep"}
    assert stack_of(None) == ()


@pytest.mark.parametrize("reported", [True, False])
def test_sample_weights_cpu_time(reported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts samples; the thread under test uses 3 ms of CPU time per sample."""
    used = {"ns": 0}

    def cpu_time(native_id: int) -> int | None:
        return used["ns"] if native_id == busy.native_id else 0

    monkeypatch.setattr(profile_module, "_cpu_time", cpu_time if reported else lambda _: None)
    over, begun, samples = threading.Event(), threading.Event(), 0

    def work() -> None:
        begun.set()
        over.wait(10)

    def wait(seconds: float) -> bool:
        nonlocal samples
        samples += 1
        used["ns"] += 3_000_000
        return samples > 100

    busy = threading.Thread(target=work)
    busy.start()
    begun.wait(10)
    try:
        profile = sample(5.0, wait, lambda: float(samples))
    finally:
        over.set()
        busy.join()
    found = {
        stack: profile.nanoseconds[stack]
        for stack in profile.counts
        if any(frame.function == work.__qualname__ for frame in stack)
    }
    assert sum(found.values()) == (15_000_000 if reported else 50_000_000)
    assert sum(profile.counts[stack] for stack in found) == 5
    assert profile.seconds == 5.0


def test_sample_ends_early() -> None:
    profile = sample(1000.0, lambda seconds: True, lambda: 0.0)
    assert not profile.counts


def test_cpu_time_of_a_thread_that_has_ended() -> None:
    assert profile_module._cpu_time(2**30) is None


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


def test_one_profile_at_a_time() -> None:
    plugin, page = started()
    busy = (500, "text/plain; charset=utf-8", b"another profile is running; retry later\n")
    with plugin._in_use:
        assert page("/debug/pprof/heap?seconds=1") == busy


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
