from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, patch

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.plugins import erratic
from hsdns.plugins.erratic import Erratic
from hsdns.wire.message import Reply
from tests.support.plugins.requests import make_request, next_with, section
from tests.support.plugins.setup import set_up

NOBODY = next_with(Reply())


def ask(plugin: Erratic, qname: str = "a.", qtype: str = "A") -> tuple[Reply, list[float]]:
    """The reply, and how long the plugin slept."""
    with patch.object(erratic, "sleep", AsyncMock()) as sleep:
        found = asyncio.run(plugin.handle(make_request(qname, qtype), NOBODY))
    return found, [call.args[0] for call in sleep.call_args_list]


def history(text: str, count: int, qtype: str = "A") -> str:
    """What becomes of queries: d(ropped), t(runcated), s(lept) and answered, or a(nswered)."""
    plugin, marks = set_up(Erratic, text), []
    for _ in range(count):
        found, slept = ask(plugin, qtype=qtype)
        mark = "d" if found.dropped else "t" if found.tc else "a"
        marks.append("s" + mark if slept else mark)
    return " ".join(marks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("erratic", "d a d a d a", id="default"),
        pytest.param("erratic {\n drop\n}", "d a d a d a", id="drop-default"),
        pytest.param("erratic {\n drop 3\n}", "d a a d a a", id="drop"),
        pytest.param("erratic {\n drop 0\n}", "a a a a a a", id="drop-none"),
        pytest.param("erratic {\n drop 1\n}", "d d d d d d", id="drop-all"),
        pytest.param("erratic {\n delay\n}", "sa a sa a sa a", id="delay"),
        pytest.param("erratic {\n delay 3 5ms\n}", "sa a a sa a a", id="delay-amount"),
        pytest.param("erratic {\n delay 0\n}", "d a d a d a", id="delay-none-keeps-the-default"),
        # The number and the amount have no bit in common.
        pytest.param("erratic {\n truncate\n}", "t t a a t t", id="truncate"),
        pytest.param("erratic {\n truncate 1\n}", "t a t a t a", id="truncate-1"),
        pytest.param("erratic {\n truncate 5\n}", "t a t a a a", id="truncate-5"),
        pytest.param("erratic {\n drop 2\n delay 3\n}", "d a d sa d a", id="drop-before-delay"),
        pytest.param("erratic {\n drop\n truncate 5\n}", "d a d a d a", id="drop-stays"),
    ],
)
def test_history(text: str, expected: str) -> None:
    assert history(text, 6) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("delay", 0.1), ("delay 1", 0.1), ("delay 1 5ms", 0.005), ("delay 1 0s", 0.0)],
)
def test_how_long_a_delay_is(text: str, seconds: float) -> None:
    assert ask(set_up(Erratic, f"erratic {{\n {text}\n}}"))[1] == [seconds]


def test_a_transfer_of_a_name_that_is_too_long() -> None:
    qname = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 60]) + "."
    found, _ = ask(set_up(Erratic, "erratic {\n drop 0\n}"), qname, "AXFR")
    assert (found.rcode, found.error) == (2, f"no name fits below {qname}")


def test_ready_after_the_third_and_the_fourth_query() -> None:
    plugin, seen = set_up(Erratic, "erratic"), []
    for _ in range(6):
        seen.append(plugin.ready())
        ask(plugin)
    assert seen == [False, False, False, True, True, False]


@pytest.mark.parametrize(
    ("text", "zones", "warned"),
    [
        ("erratic .", ["."], False),
        ("erratic org", ["example.org.", "a.org."], False),
        ("erratic example.org", ["example.org.", "a.org."], True),
        ("erratic example.org a.org", ["."], True),
    ],
)
def test_zones_are_taken_and_restrict_nothing(text: str, zones: list[str], warned: bool) -> None:
    warnings: list[str] = []
    plugin = set_up(Erratic, f"{text} {{\n drop 0\n}}", zones, warnings)
    assert section(ask(plugin, "b.")[0].answer) == ["b. 0 IN A 192.0.2.53"]
    expected = (
        "Corefile:2:9: the zones of erratic have no effect, as in CoreDNS 1.14.7: it answers all names of the "
        "server block"
    )
    assert warnings == [expected] * warned


def test_every_client_has_the_search_list_of_coredns() -> None:
    found = set_up(Erratic, "erratic").search_path(make_request("a."))
    assert [name.to_text() for name in found] == ["a.example.org.", "b.example.org.", "."]


def test_every_query_must_pass() -> None:
    assert not isinstance(set_up(Erratic, "erratic"), Cacheable)
