"""Why a name fails, by a whole server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hsdns.explanation.explain import Explainer
from hsdns.plugins.forward import Forward
from hsdns.server.control import top as module
from hsdns.server.control.top import Causes, FailingName
from hsdns.wire.name import Name
from tests.server.control.served import MORE, Served, served
from tests.server.loopback import serving
from tests.support.cluster.objects import service, upserts

pytestmark = pytest.mark.sockets
TEXT = ".:PORT {\nbind 127.0.0.1\ncontrol c.sock\nkubernetes cluster.local {\nsource manifests shop.yaml more.yaml\n}\n}\n"
FORWARD = TEXT.replace("}\n}\n", "}\nforward . 192.0.2.1 192.0.2.2\n}\n")
NARROW = TEXT.replace(".:PORT", "cluster.local:PORT")
SHOP = "shop.svc.cluster.local."
UPSTREAMS = "forwarded to 192.0.2.1:53, 192.0.2.2:53"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more.yaml").write_text(MORE)


def failing(name: str, rcode: str = "NXDOMAIN", rrtype: str = "A") -> FailingName:
    return FailingName(Name.from_text(name), rrtype, rcode)


def causes(server: Served) -> Causes:
    return Causes(server.reloadable.server._door)


@pytest.mark.parametrize(
    ("corefile", "asked", "sentence"),
    [
        (TEXT, failing(f"db.{SHOP}"), "0 of 1 endpoints of Service shop/db are ready (pod condition Ready is False: ContainersNotReady); publishNotReadyAddresses is false"),
        (TEXT, failing(f"gone.{SHOP}", rrtype="TYPE65400"), "there is no Service shop/gone"),
        (TEXT, failing(f"web.{SHOP}", "SERVFAIL"), "asked from the server's own host, it has an answer now"),
        (NARROW, failing("www.example.org.", "REFUSED"), "no server block has a zone for the name"),
        (FORWARD, failing("www.example.org."), f"{UPSTREAMS}, which answered NXDOMAIN"),
        (FORWARD, failing("www.example.org.", "SERVFAIL"), f"{UPSTREAMS}, which answered SERVFAIL"),
        (FORWARD, failing(f"gone.{SHOP}"), "there is no Service shop/gone"),
    ],
)  # fmt: skip
async def test_causes(corefile: str, asked: FailingName, sentence: str) -> None:

    async with served(corefile) as server:
        assert await causes(server).of([asked]) == [sentence]


async def test_the_nearest_name_is_told() -> None:

    async with served(TEXT) as server:
        found = await causes(server).of([failing(f"wbe.{SHOP}"), failing(f"gone.{SHOP}")])
        assert found == [
            'there is no Service shop/wbe; web.shop.svc.cluster.local. exists (Service "wbe" is misspelt)',
            "there is no Service shop/gone",
        ]


async def test_upstreams_that_fail() -> None:

    async with served(FORWARD) as server:
        plugins = serving(server.reloadable.server).configuration.plugins
        (forward,) = [each for each in plugins if isinstance(each, Forward)]
        forward.routes[0].upstreams[1].failed = 3
        assert await causes(server).of([failing("www.example.org.", "SERVFAIL")]) == [
            f"{UPSTREAMS}; 3 queries have got no usable reply there"
        ]


async def test_a_cause_is_found_again_when_the_cluster_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not at each change."""
    async with served(TEXT) as server:
        found = causes(server)
        gone = failing(f"gone.{SHOP}")
        before = await found.of([gone])
        server.apply(*upserts(service("shop/gone", "10.96.0.9")))
        assert await found.of([gone]) == before
        monkeypatch.setattr(module, "REFRESH", 0.0)
        assert await found.of([gone]) == ["asked from the server's own host, it has an answer now"]  # fmt: skip


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CAUSES", 2)

    async with served(TEXT) as server:
        found = causes(server)
        for number in range(4):
            await found.of([failing(f"n{number}.{SHOP}"), failing(f"n.{SHOP}")])
        assert len(found._known) <= 2


async def test_an_explanation_that_fails_costs_its_own_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    explain = Explainer.explain

    async def fail(self: Explainer, qname: Name, *of: object) -> object:
        await asyncio.sleep(0)
        if qname.labels[0] == b"bad":
            raise ZeroDivisionError
        return await explain(self, qname, *of)  # type: ignore[arg-type]

    monkeypatch.setattr(Explainer, "explain", fail)

    with caplog.at_level(logging.ERROR):
        async with served(TEXT) as server:
            assert (await causes(server).of([failing(f"bad.{SHOP}"), failing(f"gone.{SHOP}")])) == [
                "this could not be explained; the server's log says why",
                "there is no Service shop/gone",
            ]
    assert f"bad.{SHOP} A could not be explained" in caplog.messages
