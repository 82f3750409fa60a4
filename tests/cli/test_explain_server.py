"""`hsdns explain -server`: the answer of a server, and one that does not answer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from hsdns.cli import main
from hsdns.explanation import cli as explain_server
from hsdns.explanation.cli import ask_server
from hsdns.explanation.report import ServerAnswer
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.cli.test_explain import SHOP, WEB
from tests.support.coroutines.event_loops import run
from tests.support.upstreams.dns_upstream import Answer, answer, serve, silence

pytestmark = pytest.mark.sockets
A = f"{WEB}. 9 IN A 10.96.7.8"
QNAME = Name.from_text(f"{WEB}.")


def ask(udp: Answer, tcp: Answer = silence) -> ServerAnswer:
    async def case() -> ServerAnswer:
        async with serve(udp, tcp) as server:
            return await asyncio.to_thread(ask_server, "127.0.0.1", server.port, QNAME, RRType.A)

    return run(case())


def test_an_answer() -> None:
    found = ask(answer(A))
    assert found == ServerAnswer("NOERROR", ((f"{WEB}.", 9, "A", "10.96.7.8"),))  # type: ignore[arg-type]  # equal


def test_a_reply_that_does_not_fit() -> None:
    assert ask(answer(flags=dns.flags.TC), answer(A)).records[0].rdata == "10.96.7.8"


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_server, "TIMEOUT", 0.05)
    assert re.fullmatch(
        r"no reply came from 127\.0\.0\.1 port \d+ within 0\.05 s", ask(silence).error
    )


def test_a_denial_is_stored_for_the_lesser_ttl_of_its_soa() -> None:
    def deny(wire: bytes) -> list[bytes]:
        reply = dns.message.make_response(dns.message.from_wire(wire))
        reply.set_rcode(dns.rcode.NXDOMAIN)
        soa = "ns.cluster.local. h.cluster.local. 1 7200 1800 86400 5"
        reply.authority.append(dns.rrset.from_text("cluster.local.", 30, "IN", "SOA", soa))
        return [reply.to_wire()]

    assert ask(deny) == ServerAnswer("NXDOMAIN", (), "cluster.local.", 5)


def test_where_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(SHOP)

    async def case() -> int:
        async with serve(answer(A)) as server:
            words = [WEB, "-source", "manifests", "shop.yaml", "-server", "127.0.0.1", "-p", str(server.port)]  # fmt: skip
            return await asyncio.to_thread(main, ["explain", *words])

    assert run(case()) == 0
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(lines[: lines.index("")])
    assert "it still answers 10.96.7.8, for 9 s more, which no object has now" in text
    assert "it does not answer 10.96.7.7" in text
    assert f"   └─ {A.replace(' IN', '')}" in lines
