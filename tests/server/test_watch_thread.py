"""The thread that turns before the server is imported."""

from __future__ import annotations

import threading

from hsdns.server.watch_thread import WatchThread


def test_calls_and_end() -> None:
    thread, seen, called = WatchThread(), list[str](), threading.Event()
    assert not thread.has_started

    def call() -> None:
        seen.append(threading.current_thread().name)
        called.set()

    async def first() -> None:
        seen.append("first")

    async def second() -> None:
        seen.append("second")

    thread.start()
    thread.start()
    thread.call(call)
    assert called.wait(20)
    thread.at_end += [first, second]
    thread.end()
    assert thread.join(20)
    assert seen == ["watch", "second", "first"]
