from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hsdns.fastpath import LogRecord
from hsdns.plugins.log import Exchange, Log, compile_format
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up
from tests.support.tables import columns

ONE = reply(["a.example.org. 60 IN A 10.0.0.1"], aa=True)
SOA = "example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5"
NODATA = reply((), [SOA], aa=True)
NXDOMAIN = reply((), [SOA], (), Rcode.NXDOMAIN, aa=True)
MANY = reply([f"a.example.org. 60 IN A 10.0.0.{n}" for n in range(40)], ra=True, ad=True)


def logged(
    caplog: pytest.LogCaptureFixture, text: str, found: Reply, **question: object
) -> list[str]:
    """Return the lines logged for one query."""
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    runtime = FakeRuntime()
    runtime.time = 100.000123456
    plugin = set_up(Log, text)
    finish(plugin.start(runtime))
    request = make_request(**{"qname": "A.example.org.", "now": 100.0} | question)  # type: ignore[arg-type]  # rows give values of several types
    assert finish(plugin.handle(request, next_with(found))) is found
    assert {record.levelname for record in caplog.records} <= {"INFO"}
    return [record.getMessage() for record in caplog.records]


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
    ("found", "flags", "size", "answers"),
    [
        pytest.param(ONE, 0x8500, 60, 1, id="positive"),
        pytest.param(NODATA, 0x8500, 105, 0, id="nodata"),
        pytest.param(NXDOMAIN, 0x8503, 105, 0, id="nxdomain"),
        pytest.param(MANY, 0x83A0, 1191, 40, id="cut"),
    ],
)
@pytest.mark.parametrize(
    "text", ["log", 'log . "{common} {>opcode}"', "log {\nclass denial\n}", "log example.net"]
)
def test_a_reply_from_the_table_is_logged_like_others(
    text: str,
    found: Reply,
    flags: int,
    size: int,
    answers: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = logged(caplog, text, found)
    caplog.clear()
    plugin = set_up(Log, text)
    hit = LogRecord(b"", b"", flags, size, answers, 0.000123456, False)  # type: ignore[call-arg, unused-ignore]
    plugin.log_hit(make_request("A.example.org."), hit)
    assert [record.getMessage() for record in caplog.records] == lines


@pytest.mark.parametrize("refuses", [False, True])
def test_lines_are_dropped_before_they_are_made(
    refuses: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    asked: list[object] = []

    def keeps(record: logging.LogRecord) -> bool:
        asked.append(record)
        return not refuses

    monkeypatch.setattr(logging.getLogger("hsdns.plugin.log"), "filters", [keeps])
    plugin = set_up(Log, "log")
    hit = LogRecord(b"", b"", 0x8500, 60, 1, 0.0, False)  # type: ignore[call-arg, unused-ignore]
    plugin.log_hit(make_request("a.example.org."), hit)
    assert plugin.drop_lines() is refuses
    assert len(caplog.records) == (not refuses)
    assert len(asked) == (2 if refuses else 3)


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
