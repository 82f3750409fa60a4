from __future__ import annotations

from typing import Any

import pytest

from hsdns.plugins.cache import Cache
from hsdns.plugins.header import Header
from hsdns.wire.encode import encode
from hsdns.wire.iana import Opcode, Rcode
from hsdns.wire.message import AA, RA, RD, Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

BELOW = reply(["x. 1 IN A 192.0.2.1"], aa=True)


def header(*lines: str) -> Header:
    return set_up(Header, "header {\n" + "\n".join(lines) + "\n}")


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        pytest.param(["response set ra"], {"ra": True}, id="set-ra"),
        pytest.param(["response clear aa"], {"aa": False}, id="clear-aa"),
        pytest.param(["response set aa"], {}, id="set-already"),
        pytest.param(
            ["response set ra rd", "response clear aa"],
            {"ra": True, "rd": True, "aa": False},
            id="several",
        ),
        pytest.param(["response clear aa", "response set aa"], {}, id="last"),
        pytest.param(["response set ra", "response clear ra aa"], {"aa": False}, id="last-2"),
        pytest.param(["query clear rd"], {"rd": False}, id="query-rd"),
        pytest.param(["query set rd"], {"rd": True}, id="query-rd-set"),
        pytest.param(["query clear rd", "response set rd"], {"rd": True}, id="response-later"),
        pytest.param(["query set aa ra"], {}, id="query-only"),
    ],
)
def test_replies(lines: list[str], fields: dict[str, Any]) -> None:
    found = finish(header(*lines).handle(make_request("x."), next_with(BELOW)))
    assert found == BELOW.replace(**fields)


@pytest.mark.parametrize(
    ("lines", "flags", "passed"),
    [
        (["query set aa ra"], RD, RD | AA | RA),
        (["query clear rd"], RD, 0),
        (["Query SET Rd"], 0, RD),
        (["query set rd", "query clear rd aa"], AA, 0),
        (["response set aa"], RD, RD),
    ],
)
def test_queries(lines: list[str], flags: int, passed: int) -> None:
    below = next_with(BELOW)
    finish(header(*lines).handle(make_request("x.", flags=flags), below))
    assert below.requests[0].query.flags == passed


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        (unwritten(Rcode.SERVFAIL), unwritten(Rcode.SERVFAIL).replace(rd=False)),
        (Reply(dropped=True), Reply(dropped=True, rd=False)),
    ],
)
def test_response_rules_need_a_reply_of_a_handler(below: Reply, expected: Reply) -> None:
    plugin = header("query clear rd", "response set ra")
    assert finish(plugin.handle(make_request("x."), next_with(below))) == expected


def test_the_rd_of_a_reply_to_notify_is_unchanged() -> None:
    request = make_request("x.", flags=Opcode.NOTIFY << 11)
    found = finish(header("query set rd").handle(request, next_with(BELOW)))
    assert found is BELOW


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


def test_all_directives_of_a_block_apply() -> None:
    plugin = set_up(Header, "header {\nresponse set ra\n}\nheader {\nresponse clear aa\n}")
    found = finish(plugin.handle(make_request("x."), next_with(BELOW)))
    assert found == BELOW.replace(ra=True, aa=False)


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
