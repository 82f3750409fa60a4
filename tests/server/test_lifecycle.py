"""The server's life on loopback: start, change over, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hsdns.assemble import ListenAddress
from hsdns.plugins.forward import Forward
from hsdns.plugins.health import Health
from hsdns.server.instance import Instance, StartError
from hsdns.server.lifecycle import Phase
from hsdns.upstream.exchange import Upstream
from loadtest.ports import free_port
from tests.server.loopback import (
    NOERROR,
    WHOAMI,
    Lameduck,
    ReloadableServer,
    default_signals,
    fetch,
    is_free,
    other_tasks,
    running,
    serving,
)
from tests.server.stand_ins import Script, World
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets


# --- start ---


async def test_a_server_that_ends_while_the_corefile_is_read_starts_no_other_instance(
    tmp_path: Path,
) -> None:
    async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
        server, read = reloadable.server, asyncio.Event()

        async def in_thread(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            await read.wait()
            return function(*args, **options)

        server.in_thread = in_thread
        before = server.instance
        reload = asyncio.create_task(server.reload())
        await until(lambda: server.phase is Phase.RELOADING, "a reload")
        await server.shut_down()
        read.set()
        assert not await reload
        assert server.instances == [before]
        assert reloadable.total("coredns_reload_failed_total") == 0


# --- change over ---


BROKEN = [
    pytest.param(". {\nwhoam\n}", 'unknown directive "whoam"; did you mean "whoami"?', id="parse"),
    pytest.param(". {\nwhoami x\n}", '"whoami" takes no argument', id="setup"),
    pytest.param(". {\nbind 127.0.0.1\nkubernetes cluster.local\n}", "not in a cluster: KUBERNETES_SERVICE_HOST is not set", id="start"),
    pytest.param(". {\nbind 192.0.2.99\nwhoami\n}", "this host has no such address", id="socket"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("by_itself", "who"),
    [(True, "plugin/reload: Corefile changed but reload failed: "), (False, "SIGUSR1: ")],
)
@pytest.mark.parametrize(("text", "error"), BROKEN)
async def test_reload_of_a_broken_file_keeps_the_old_one(
    text: str,
    error: str,
    by_itself: bool,
    who: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
        tasks = other_tasks()
        reloadable.write(text)
        caplog.clear()
        with caplog.at_level(logging.INFO, "hsdns"):
            assert not await reloadable.server.reload(only_if_changed=by_itself)
        said = [line for line in caplog.messages if not line.startswith("plugin/kubernetes: ")]
        begun, failed, again = said
        assert begun == "Reloading"
        assert failed.startswith("Restart failed: ")
        assert error in failed
        assert failed.endswith(" (serving goes on as before)")
        assert again.startswith(who)
        assert error in again
        assert reloadable.total("coredns_reload_failed_total") == 1
        assert (await reloadable.ask()).startswith(NOERROR)
        assert list(reloadable.server.addresses) == [ListenAddress("127.0.0.1", reloadable.port)]
        assert other_tasks() == tasks
        reloadable.write(WHOAMI)
        assert await reloadable.server.reload()
        assert reloadable.total("coredns_reload_failed_total") == 1


HTTP = ". {\nbind 127.0.0.1\nhealth 127.0.0.1:HTTP\nready 127.0.0.1:HTTP\nprometheus 127.0.0.1:HTTP\nwhoami\n}\n"


async def test_http_sockets_stay_open_through_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = free_port()
    text = HTTP.replace("HTTP", str(http))
    async with running(ReloadableServer(tmp_path, text)) as reloadable:
        (listener,) = reloadable.server.http._open.values()
        reloadable.write(text.replace("whoami", "whoami\nlog"))
        assert await reloadable.server.reload()
        assert list(reloadable.server.http._open.values()) == [listener]
        for path in ("/health", "/ready", "/metrics"):
            assert await fetch(http, path) == "HTTP/1.1 200 OK"
        reloadable.write(WHOAMI)
        assert await reloadable.server.reload()
        assert reloadable.server.http.bound == {}
        reloadable.write(text)
        monkeypatch.setattr(reloadable.server, "make_processors", mock.Mock(side_effect=StartError))
        assert not await reloadable.server.reload()
        assert reloadable.server.http.bound == {}


# --- stop ---


async def test_plugin_that_fails_ends_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reloadable = ReloadableServer(tmp_path, WHOAMI)
    await reloadable.server.start()
    serving(reloadable.server).fail("a loop was found")
    assert (await reloadable.server.run()) == 1
    assert ("hsdns.server", logging.CRITICAL, "a loop was found") in caplog.record_tuples


@pytest.mark.parametrize(("word", "shown"), [("reload", True), ("", False)])
async def test_running_configuration_is_logged(
    word: str, shown: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "hsdns"):
        async with running(
            ReloadableServer(tmp_path, WHOAMI.replace("whoami", f"{word}\nwhoami"))
        ) as reloadable:
            reloadable.server.show_running()
            digest = reloadable.server.configuration.corefile.digest
            line = f"plugin/reload: Running configuration SHA512 = {digest}"
            assert caplog.messages == ([line] if shown else [])
            caplog.clear()
            assert await reloadable.server.reload()
            expected = ["Reloading", *([line] if shown else []), "Reloading complete"]
            assert caplog.messages == expected


async def test_certificate_is_read_again_at_a_reload(tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "tls"
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(name: str) -> None:
        cert.write_bytes((data / f"{name}.pem").read_bytes())
        key.write_bytes((data / f"{name}.key").read_bytes())

    async def shown(port: int) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        assert found is not None
        return found

    install("server")
    text = f"tls://.:PORT {{\nbind 127.0.0.1\ntls {cert} {key}\nwhoami\n}}\n"
    async with running(ReloadableServer(tmp_path, text)) as reloadable:
        before = await shown(reloadable.port)
        install("other-server")
        assert await reloadable.server.reload()
        after = await shown(reloadable.port)
        assert before != after
        cert.write_text("no certificate")
        assert not await reloadable.server.reload()
        assert await shown(reloadable.port) == after


MANY_PLUGINS = Path(__file__).with_name("many_plugins.corefile").read_text()


def _upstreams(instance: Instance) -> list[Upstream]:
    plugins = [each for each in instance.configuration.plugins if isinstance(each, Forward)]
    return [upstream for each in plugins for route in each.routes for upstream in route.upstreams]


async def test_what_reloads_replace_is_freed_without_a_collection(tmp_path: Path) -> None:
    """hsdns/memory.py exempts configurations from collections, so none may end in a circle."""
    gc.collect()
    gc.disable()
    try:
        old: list[weakref.ref[object]] = []
        async with running(ReloadableServer(tmp_path, MANY_PLUGINS)) as reloadable:
            for port in range(5):
                instance = serving(reloadable.server)
                old += [weakref.ref(each) for each in instance.configuration.plugins]
                old += [weakref.ref(each) for each in (instance, instance.configuration)]
                old += [weakref.ref(each) for each in _upstreams(instance)]
                del instance
                more = f"example{port}.org:PORT {{\nbind 127.0.0.1\nwhoami\n}}\n"
                reloadable.write(MANY_PLUGINS + more)
                assert await reloadable.server.reload()
                for name in ("one.example", "fwd.example", "doh.example"):
                    await reloadable.ask(name)
            await until(lambda: len(reloadable.server.instances) == 1, "the end of the old ones")
            # The last one is taken apart a block a turn.
            with contextlib.suppress(AssertionError):  # what is left says more
                await until(lambda: all(each() is None for each in old), "their end in memory")
            assert sorted({repr(each()) for each in old if each() is not None}) == []
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        pytest.param([signal.SIGTERM], 0, id="term"),
        pytest.param([signal.SIGINT], 0, id="int"),
        pytest.param([signal.SIGINT, signal.SIGINT], 2, id="int-twice"),
        pytest.param([signal.SIGTERM, signal.SIGINT], 2, id="term-then-int"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], 0, id="term-twice"),
        pytest.param([signal.SIGQUIT], 0, id="quit"),
        pytest.param([signal.SIGTERM, signal.SIGQUIT], 0, id="term-then-quit"),
        pytest.param([signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM], 0, id="hup-and-usr2-are-ignored"),
    ],
)  # fmt: skip
async def test_signals(
    numbers: list[signal.Signals],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    http = free_port()
    caplog.set_level(logging.INFO, "hsdns")
    corefile = WHOAMI.replace("whoami", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}\nwhoami")
    reloadable = ReloadableServer(tmp_path, corefile)
    lameduck = Lameduck(monkeypatch)
    monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
    with default_signals(reloadable.server):
        await reloadable.server.start()
        served = asyncio.create_task(reloadable.server.run())
        for number in numbers:
            os.kill(os.getpid(), number)
            if number in (signal.SIGTERM, signal.SIGINT):
                await until(lambda: bool(lameduck.seconds) or served.done(), "the lameduck period")
            elif number != signal.SIGQUIT:
                assert (await reloadable.ask()).startswith(NOERROR)
        if status == 0 and signal.SIGQUIT not in numbers:
            lameduck.over.set()
        async with asyncio.timeout(30):
            assert await served == status
    assert is_free(reloadable.port)
    quits = "SIGQUIT: Quitting process immediately" in caplog.messages
    assert quits is (signal.SIGQUIT in numbers)
    assert ("SIGINT: Force quit" in caplog.messages) is (status == 2)


@pytest.mark.parametrize("stop", ["fails", "ends as cancelled"])
def test_plugin_that_does_not_stop_cleanly_keeps_no_other_from_it(stop: str) -> None:
    world = World(Script(stops=(stop, "now", "now")))
    try:
        world.loop.turn(40)
        world.loop.call_soon(world.server.quit, 0)
        world.loop.wait(0.1)
        assert world.main.result() == 0
        assert [each.stopped for each in world.plugins] == [1, 1, 1]
        expected = ["plugin/health did not stop cleanly"] if stop == "fails" else []
        assert world.errors.messages == expected
    finally:
        world.close()
