"""`hsdns ask`: the answers of servers as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.ask import cli as lookup
from hsdns.ask import question
from hsdns.ask.question import NoReply, Refused
from hsdns.cli.command import FlagError
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests.server.loopback import ReloadableServer, running

DB = "db.shop.svc.cluster.local./A"


def test_answers_of_each_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(host: str, port: int, query: Query, *_: object) -> Reply:
        if host == "192.0.2.2":
            raise Refused("nothing listens there")
        if query.qtype == RRType.SRV:
            raise NoReply("no reply came")
        if query.qtype == RRType.AAAA:
            return Reply(Rcode.NXDOMAIN)
        return Reply(answer=(RR(query.qname, RRType.A, 5, bytes([10, 0, 0, port])),))

    monkeypatch.setattr(question, "ask", answer)
    words = ["ask", DB, DB + "AAA", "x/SRV", "never/A", "-server", "192.0.2.1:7", "192.0.2.2"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "host": "192.0.2.1",
            "port": 7,
            "answers": [
                {"question": DB, "rcode": "NOERROR", "records": [[1, "0a000007"]]},
                {"question": DB + "AAA", "rcode": "NXDOMAIN", "records": []},
            ],
            "silence": "no reply came, when queried for x SRV",
            "refused": False,
        },
        {
            "host": "192.0.2.2",
            "port": 53,
            "answers": [],
            "silence": f"nothing listens there, when queried for {Name.from_text(DB[:-2]).to_text()} A",
            "refused": True,
        },
    ]


def test_its_own_servers_are_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lookup, "servers_of", lambda path: ["192.0.2.9", "fd00::9"])
    monkeypatch.setattr(question, "ask", lambda *_: Reply())
    assert cli.main(["ask", "db/A"]) == 0
    hosts = [(each["host"], each["port"]) for each in json.loads(capsys.readouterr().out)]
    assert hosts == [("192.0.2.9", 53), ("fd00::9", 53)]


def test_a_pod_without_servers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(path: str) -> list[str]:
        raise FlagError("/etc/resolv.conf has no nameserver; add --server ADDRESS")

    monkeypatch.setattr(lookup, "servers_of", none)
    assert cli.main(["ask", "db/A"]) == 2
    assert capsys.readouterr().err == "/etc/resolv.conf has no nameserver; add --server ADDRESS\n"


# One query from the command line, to a server on loopback.

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
    with pytest.raises(FlagError, match="has no nameserver; add --server ADDRESS"):
        lookup.servers_of(str(path))
    path.write_text("# nameserver 192.0.2.1\nsearch a\nnameserver\nnameserver fd00::1 # own\n")
    assert lookup.servers_of(str(path)) == ["fd00::1"]
