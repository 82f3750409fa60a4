"""The page: the data in it, that it is complete and obeys nothing in its data, and what its script makes of it."""

from __future__ import annotations

import asyncio
import html
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from hsdns.load.counters import SPENT
from hsdns.load.histogram import Histogram
from hsdns.load.output.page import MOST, columns, page
from hsdns.load.report import Report
from hsdns.load.results import ServerReport
from tests.load.output.test_golden import KNEE, REPORTS, data
from tests.load.test_report import report, results
from tests.support.browser.chromium import PROGRAM, tab

MS = 1_000_000


WHOLE, RICH = REPORTS["stale"], REPORTS["everything"].servers[0]


def with_servers(*servers: ServerReport) -> Report:
    return replace(WHOLE, servers=[*servers])


def lengthened(found: ServerReport, seconds: int) -> ServerReport:
    """The same seconds again and again."""
    parts = [replace(found.per_second[number % 2], second=number) for number in range(seconds)]
    return replace(found, per_second=parts, seconds=float(seconds))


def test_only_what_is_in_the_file_is_allowed() -> None:
    """The policy has the hash of each script and style, and of nothing else; the licence of uPlot is in the file."""
    text = page(WHOLE)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)">', text)
    rules = dict(each.split(" ", 1) for each in policy.split("; "))
    for element in ("script", "style"):
        contents = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digests = [b64encode(sha256(each.encode()).digest()).decode() for each in contents]
        assert len(digests) == 2
        assert rules.pop(f"{element}-src").split() == [f"'sha256-{each}'" for each in digests]
    assert rules == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert "{{" not in text.replace("{{}}", "")
    assert "The above copyright notice and this permission notice" in text


HOSTILE = "</script><script>alert(1)</script><!--\x1b[2J\u202e\u2028{{data}}"


def test_names_are_only_text() -> None:
    found = replace(
        with_servers(replace(RICH, target=HOSTILE)), plan=replace(WHOLE.plan, what=HOSTILE)
    )
    text = page(found)
    assert re.findall(r"<script.*?>|<!--", text) == re.findall(
        r"<script.*?>|<!--", page(with_servers(RICH))
    )
    assert [each for each in text if not (each.isprintable() or each == "\n")] == []
    escaped = (
        HOSTILE.replace("\x1b", r"\u001b").replace("\u202e", r"\u202e").replace("\u2028", r"\u2028")
    )
    assert ["questions", escaped] in data(text)["last"][0][1][1]
    assert f"<title>{html.escape(f'Load on {escaped}')}</title>" in text


def test_a_long_run_is_still_a_small_page() -> None:
    found = lengthened(WHOLE.servers[0], 3600)
    parts = [
        replace(each, slots=Histogram((slot, 1) for slot in range(each.second % 7, 20_000, 97)))
        for each in found.per_second
    ]
    server = replace(found, per_second=parts)
    text = page(with_servers(server))
    assert len(text) < 2_000_000
    assert data(text)["servers"][0]["more"] == 2600
    text = page(with_servers(*[replace(server, name=str(number)) for number in range(6)]))
    assert len(text) < 2_000_000
    assert [each["more"] for each in data(text)["servers"]] == [3434] * 6  # they share the rows


@pytest.mark.parametrize("seconds", [1, 149, 150, 151, 1000])
def test_long_runs_have_wider_columns(seconds: int) -> None:
    found = columns(lengthened(WHOLE.servers[0], seconds))
    assert len(found) <= MOST
    total = sum(
        sum(each["rcodes"].values()) * min(each["seconds"], seconds - each["first"])
        for each in found
    )
    assert total == pytest.approx(seconds * 100)


SHOWN = "[...document.querySelectorAll('h2,h3,p,li,tr,summary')].map(each => each.innerText.replaceAll('\\t', ' | ').replaceAll('\\n', ''))"
EVERYTHING = [
    "Load on 127.0.0.1 port 53",
    "The search for the knee",
    "Limits: p99>5ms. the knee is at 2000 queries a second.",
    "1000 | 2 s | held | 0 | 100 us | 300 us | 12 us",
    "4000 | 2 s | broken | 200 (2.000%) | 100 us | lost | 12 us",
    "Figures",
    "200 queries were due, 200 sent, 198 answered, 2 (1.000%) lost: NOERROR 198.",
    "Answers",
    "Latency over time",
    "Latency against the slowest share",
    "Right or wrong",
    "web.shop.svc.cluster.local. | SRV | 5 | 1.000 s | 1.9 s",
    "Until changes show",
    "2 changes were followed until they showed, 0 more for less than a second. Times run from when a change was written; 0 that added records never showed, and 1 that removed some were still answered at the end.",
    "Lookups",
    "Connections",
    "4 connections were opened, 4 at once at most; truncated answers that needed one: 2; queries asked again, because their connection had ended: 1; replies that came too late: 1. Set-ups run from the wish for a connection until it can take a query.",
    f"ended: {SPENT} | 3 (75.000%)",
    "not opened: <refused> | 1 (20.000%)",
    "query without an answer: HTTP status 503 | 1",
    "Second by second",
    "Table of 2 seconds",
    "Kinds of names",
    "Plan and machine",
]
TWO = [
    *("Load on 2 servers", "Side by side", "stale by at most | 1.00 s | -", "Age of the stalest answer", "one", "two"),
    *("Added: until the first new answer", "Removed: until the last old answer"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    ("found", "texts", "plots"),
    [
        (replace(with_servers(RICH), knee=KNEE), EVERYTHING, 9),
        (with_servers(replace(RICH, name="one"), replace(report(results()).servers[0], name="two")), TWO, 18),
        (with_servers(replace(WHOLE.servers[0], per_second=[])), ["Plan and machine"], 0),
        (replace(WHOLE, plan=replace(WHOLE.plan, what="<b>&")), ["questions | <b>&"], 6),
    ],
    ids=["everything", "two", "nothing", "markup"],
)  # fmt: skip
def test_in_a_browser(found: Report, texts: list[str], plots: int, tmp_path: Path) -> None:
    """Its script shows everything, loads nothing, and is no wider than the window, on a telephone too."""
    file = tmp_path / "report.html"
    file.write_text(page(found), encoding="utf-8")

    async def test() -> None:
        async with tab() as opened:
            for width, dark in ((390, False), (900, True)):
                await opened.show(width, dark=dark)
                await opened.open(file.as_uri())
                shown = await opened.value(f"[document.querySelector('h1').innerText, ...{SHOWN}]")
                assert [each for each in texts if each not in shown] == []
                assert await opened.value("document.querySelectorAll('canvas').length") == plots
                assert await opened.value("document.documentElement.scrollWidth") == width
            assert opened.complaints == []
            assert {url.partition(":")[0] for url in opened.asked} == {"file"}

    asyncio.run(test())
