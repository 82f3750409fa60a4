"""The plugin: its rules, what it refuses, and its place."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.assemble import assemble
from hsdns.chain import Request, has
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError
from hsdns.plugins import ORDER
from hsdns.plugins.fault import Fault, pod_finder
from hsdns.plugins.kubernetes import Kubernetes
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

WEB = reply(["web.test. 5 IN A 10.0.0.1"])


def started(text: str, runtime: FakeRuntime | None = None) -> Fault:
    plugin = set_up(Fault, text)
    asyncio.run(plugin.start(runtime or FakeRuntime()))
    return plugin


def rcodes(plugin: Fault, *requests: Request) -> list[int]:
    following = next_with(WEB)
    return [finish(plugin.handle(each, following)).rcode for each in requests]


def test_age_is_that_of_the_start() -> None:
    runtime = FakeRuntime()
    runtime.time = 100.0
    plugin = started("fault rcode SERVFAIL before 5s", runtime)
    found = rcodes(plugin, *(make_request("web.test", now=now) for now in (101.0, 104.9, 105.0)))
    assert found == [2, 2, 0]


def test_a_zone_that_the_block_does_not_have() -> None:
    with pytest.raises(CorefileError) as caught:
        set_up(Fault, "fault drop name a.example.com", ["cluster.local"])
    assert str(caught.value) == (
        "Corefile:2:1: the rule can never match: no server block has a zone for its names; the zones are cluster.local."
    )


@pytest.mark.parametrize(
    ("text", "cacheable"),
    [("fault drop", False), ("fault watch away", True), ("fault watch away\nfault freeze", False)],
)
def test_every_query_must_be_seen(text: str, cacheable: bool) -> None:
    plugin = set_up(Fault, text)
    assert has(plugin, Cacheable)
    assert plugin.cacheable == cacheable


def assembled(text: str) -> list[object]:
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    return [*assemble(corefile, warn=pytest.fail).plugins]


def test_pods_need_a_block_that_knows_them() -> None:
    text = "cluster.local {{\nkubernetes {{\n{}\n}}\nfault drop pod shop/web-0\n}}\n"
    with pytest.raises(CorefileError) as caught:
        assembled(text.format("endpoint http://127.0.0.1:1"))
    assert str(caught.value) == (
        'Corefile:5:1: no kubernetes block knows pods; write "pods verified" in it, or "client ADDRESS" in the rule'
    )
    assert assembled(text.format("endpoint http://127.0.0.1:1\npods verified"))


def test_pods_are_those_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = assembled("cluster.local {\nkubernetes {\nsource synthetic services=1\n}\n}\n")
    (block,) = (each for each in plugins if isinstance(each, Kubernetes))
    find = pod_finder(plugins)
    assert find is not None

    keys = {"10.0.0.1": (b"shop", "web-0"), "10.0.0.3": (b"shop", "db-0")}
    labels = {(b"shop", "web-0"): {"app": "web"}}

    class Store:
        pods = SimpleNamespace(of_client=keys.get, labels=labels)

    monkeypatch.setattr(Kubernetes, "store", Store)
    assert block.knows_pods
    assert [find(f"10.0.0.{each}") for each in (1, 2, 3)] == [
        (b"shop", "web-0", {"app": "web"}), None, (b"shop", "db-0", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(("share", "hits"), [("0.5", False), ("1", True)])
def test_foresee_before_the_start(share: str, hits: bool) -> None:
    plugin = set_up(Fault, f"fault drop type A share {share} named lossy")
    assert plugin.foresee(make_request("web.test")) == [(plugin.rules.standing["lossy"], hits)]
