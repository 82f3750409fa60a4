"""What the service manager is told, as a Unix datagram socket in its place gets it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.server.host import ServiceManager
from tests.server.loopback import WHOAMI, ReloadableServer, running

READY = "READY=1\nSTATUS=Serving"
RELOADING = "RELOADING=1\nMONOTONIC_USEC=1234567\nSTATUS=Reloading"
STOPPING = "STOPPING=1\nSTATUS=Stopping"

pytestmark = pytest.mark.sockets


class Inbox:
    """The socket of a service manager."""

    def __init__(self, name: str) -> None:
        self.address = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name[0] == "@" else name)
        self._socket.settimeout(20)

    def next(self) -> str:
        """The next message; waits for it."""
        return self._socket.recv(4096).decode()

    def all(self) -> list[str]:
        """Those that have come."""
        found = []
        self._socket.setblocking(False)
        while True:
            try:
                found.append(self.next())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inbox]:
    if request.param == "abstract" and sys.platform != "linux":
        pytest.skip("only Linux has abstract names")
    name = f"@hsdns-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "n")
    found = Inbox(name)
    yield found
    found.close()


def manager(inbox: Inbox) -> ServiceManager:
    return ServiceManager(inbox.address, clock=lambda: 1_234_567_890)


def test_messages(inbox: Inbox) -> None:
    told = manager(inbox)
    told.ready()
    told.reloading()
    told.ready("the last reload failed: Corefile:1:1: a\nb")
    told.stopping()
    told.ready()
    told.stopping()
    assert inbox.all() == [
        READY,
        RELOADING,
        f"{READY}; the last reload failed: Corefile:1:1: a b",
        STOPPING,
    ]


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        pytest.param(None, "", id="none"),
        pytest.param("", "", id="empty"),
        pytest.param("vsock:2:1", 'NOTIFY_SOCKET is "vsock:2:1", which is no Unix socket: the service manager is told nothing', id="vsock"),
        pytest.param("/none/such", "cannot tell the service manager at /none/such: [Errno 2] No such file or directory", id="absent"),
    ],
)  # fmt: skip
def test_no_manager(value: str | None, warning: str, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"HOME": "/"} if value is None else {"HOME": "/", "NOTIFY_SOCKET": value}
    ServiceManager.of(environ).ready()
    assert environ == {"HOME": "/"}
    assert caplog.messages == ([warning] if warning else [])


def test_a_full_socket_stops_nothing(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    told = manager(inbox)
    while not caplog.messages:
        told.ready()
    assert "cannot tell the service manager" in caplog.messages[0]


async def test_a_server(inbox: Inbox, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its start, reloads with and without a change, a reload that fails, and its end."""
    caplog.set_level(logging.CRITICAL, "hsdns")

    async with running(ReloadableServer(tmp_path, WHOAMI, manager(inbox))) as reloadable:
        server = reloadable.server
        assert inbox.all() == [READY]
        assert await server.reload()
        assert inbox.all() == [RELOADING, READY]
        assert await server.reload(only_if_changed=True)
        assert inbox.all() == []
        reloadable.write(WHOAMI.replace("whoami", "whoami\nerrors"))
        assert await server.reload(only_if_changed=True)
        assert inbox.all() == [RELOADING, READY]
        reloadable.write("whoam {\n")
        assert not await server.reload(only_if_changed=True)
        (told,) = inbox.all()
        assert told.startswith(f"{READY}; the last reload failed: {reloadable.path}:1:")
        reloadable.write(WHOAMI)
        assert await server.reload()
        assert inbox.all() == [RELOADING, READY]
        await server.shut_down()
        assert await server.run() == 0
        assert inbox.all() == [STOPPING]


async def test_a_failed_start(inbox: Inbox, tmp_path: Path) -> None:
    reloadable = ReloadableServer(tmp_path, ". {\nwhoam\n}\n", manager(inbox))
    with pytest.raises(Exception, match="unknown directive"):
        await reloadable.server.start()
    assert not any("READY=1" in each for each in inbox.all())


async def test_an_end_before_the_start_is_over(inbox: Inbox, tmp_path: Path) -> None:
    reloadable = ReloadableServer(tmp_path, WHOAMI, manager(inbox))
    starting = asyncio.create_task(reloadable.server.start())
    await asyncio.sleep(0)
    await reloadable.server.shut_down()
    await starting
    assert await reloadable.server.run() == 0
    assert inbox.all() == [STOPPING]
