from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hsdns.plugins.log import Exchange, Log, compile_format
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up
from tests.support.tables import columns

ONE = reply(["a.example.org. 60 IN A 10.0.0.1"], aa=True)
SOA = "example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5"


@pytest.mark.parametrize(("form", "line"), columns(Path(__file__).with_name("tables.txt"), "log"))
def test_compile_format(form: str, line: str) -> None:
    assert compile_format(form)(Exchange(make_request("a.example.org."), ONE, 0.5)) == line


def test_nothing_is_logged_above_level_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hsdns.plugin.log")
    plugin = set_up(Log, "log")
    finish(plugin.start(FakeRuntime()))
    assert finish(plugin.handle(make_request("a."), next_with(ONE))) is ONE
    assert caplog.records == []


# --- hits of the answer table ---


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(ONE, "NOERROR success", id="positive"),
        pytest.param(reply(authority=[SOA]), "NODATA denial", id="nodata"),
        pytest.param(reply(authority=[SOA], rcode=3), "NXDOMAIN denial", id="nxdomain"),
        pytest.param(reply(authority=["a. 5 IN NS ns.a."]), "DELEGATION success", id="delegation"),
        pytest.param(Reply(rcode=2), "SERVERERROR error", id="servfail"),
        pytest.param(Reply(dropped=True), "OTHERERROR error", id="dropped"),
    ],
)
def test_metadata(found: Reply, words: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    block = make_block()._replace(plugins=frozenset({"metadata", "log"}))
    form = '"{/test/a} {/test/b} {/log/type} {/log/class}"'
    plugin = Log.setup(directives(f"log . {form} {{\n class all\n}}"), block)
    finish(plugin.start(FakeRuntime()))
    values = {"test/a": lambda: "value"}
    request = make_request("a.").replace(metadata=values)
    assert finish(plugin.handle(request, next_with(found))) is found
    assert [record.getMessage() for record in caplog.records] == [f"value - {words}"]
    assert sorted(values) == ["log/class", "log/type", "test/a"]


@pytest.mark.parametrize(
    ("form", "plugins", "cacheable"),
    [
        ("{name}", {"metadata"}, True),
        ("{/a/b}", {"log"}, True),
        ("{/a/b}", {"metadata"}, False),
        ("{local}", {"log"}, False),
    ],
)
def test_cacheable_unless_a_format_has_metadata(
    form: str, plugins: set[str], cacheable: bool
) -> None:
    block = make_block()._replace(plugins=frozenset(plugins))
    assert Log.setup(directives(f"log . {form}"), block).cacheable is cacheable
