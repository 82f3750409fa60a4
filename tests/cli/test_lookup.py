"""One query from the command line, to a server on loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.ask import cli as lookup
from hsdns.cli.command import FlagError
from tests.server.loopback import ReloadableServer, running

COREFILE = Path(__file__).with_name("lookup.corefile").read_text()


@pytest.mark.sockets
async def test_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(ReloadableServer(tmp_path, COREFILE)) as reloadable:
        where = ("-server", "127.0.0.1", "-p", str(reloadable.port))

        async def ask(*words: str) -> tuple[int, str, str]:
            status = await asyncio.to_thread(cli.main, ["lookup", *words, *where])
            return status, *capsys.readouterr()

        a = "a.example.org. 3600 IN A 192.0.2.7\n"
        assert await ask("a.example.org") == (0, a, "")
        assert await ask("a.example.org.", "a", "-tcp") == (0, a, "")
        assert await ask("b.example.org", "TXT") == (0, 'b.example.org. 60 IN TXT "hello"\n', "")  # fmt: skip
        reverse = "7.2.0.192.in-addr.arpa. 3600 IN PTR a.example.org.\n"
        assert await ask("192.0.2.7") == (0, reverse, "")
        none = "a.example.org exists, but has no AAAA record\n"
        assert await ask("a.example.org", "AAAA") == (1, "", none)
        assert await ask("example.com") == (1, "", "example.com A: SERVFAIL\n")


def test_server_of_resolv_conf(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    with pytest.raises(FlagError, match="names no server; give one with -server"):
        lookup.servers_of(str(path))
    path.write_text("# nameserver 192.0.2.1\nsearch a\nnameserver\nnameserver fd00::1 # own\n")
    assert lookup.servers_of(str(path)) == ["fd00::1"]
