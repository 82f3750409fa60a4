from __future__ import annotations

import pytest

from hsdns.plugins.cache import Cache
from hsdns.plugins.header import Header
from hsdns.wire.encode import encode
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["x. 1 IN A 192.0.2.1"], aa=True)


def header(*lines: str) -> Header:
    return set_up(Header, "header {\n" + "\n".join(lines) + "\n}")


@pytest.mark.parametrize(("rd", "flags"), [(True, 0x8500), (False, 0x8400), (None, 0x8400)])
def test_on_the_wire(rd: bool | None, flags: int) -> None:
    query = make_request("x.", flags=0).query
    assert encode(query, BELOW.replace(rd=rd), 512)[2:4] == flags.to_bytes(2, "big")


def test_a_cached_reply_has_the_rd_of_its_query() -> None:
    cache = set_up(Cache, "cache")
    finish(cache.start(FakeRuntime()))
    below = next_with(BELOW.replace(rd=False, ra=True))
    first = finish(cache.handle(make_request("x."), below))
    second = finish(cache.handle(make_request("x."), below))
    assert (first.rd, first.ra) == (False, True)
    assert (second.rd, second.ra) == (None, True)
    assert len(below.requests) == 1


@pytest.mark.parametrize(
    ("line", "cacheable"),
    [
        ("response set ra", True),
        ("query set aa", True),
        ("response clear rd", False),
        ("query set aa rd", False),
    ],
)
def test_cacheable_unless_rd_is_changed(line: str, cacheable: bool) -> None:
    assert header(line).cacheable is cacheable
