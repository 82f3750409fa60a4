"""A picture of /v1/top on a terminal."""

from __future__ import annotations

import io
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hsdns.cli.top import _count, _duration, _milliseconds, view

PICTURE: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "pictures" / "top.json").read_text()
)
EMPTY: dict[str, Any] = {
    **PICTURE,
    "rates": {"queries_per_second": 0.0, "table_share": None, "by_type": {}, "by_rcode": {}, "exact": True},
    **{name: [] for name in ("past", "failing", "faults", "changes", "slowest", "search_waste", "upstreams")},
}  # fmt: skip


def drawn(picture: dict[str, Any], width: int = 80, height: int | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(view(picture, "the server", width, height))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_lists() -> None:
    lines = drawn(PICTURE)
    for row in (
        ["db.shop.svc.cluster.local.", "A", "AAAA", "NXDOMAIN", "16", "0", "s"],
        ["->", "kubectl", "-n", "shop", "logs", "db-0", "-c", "db", "--previous"],
        ["web.shop.svc.cluster.local.", "+", "10.244.2.19", "47", "s", "42"],
        ["payments.example.net.", "A", "812"],
        ["10.244.2.9", "4,590", "6,120"],
        ["such", "as", "payments.example.net.shop.svc.cluster.local."],
        ["192.0.2.54:53", "1.10", "2", "411"],
        ["lossy", "1,204", "4", "min", "12", "s"],
        ["drop", "type", "AAAA", "share", "0.3"],
    ):
        assert row in [line.split() for line in lines]
    assert lines[1:4] == [
        "A 2,610/s  AAAA 1,498/s  SRV 61/s  PTR 13/s",
        "NOERROR 3,552/s  NXDOMAIN 629/s  SERVFAIL 1.20/s",
        "last 15 min ▇████▇▇▇▇▇▆▇▇█████▇▇ ≤ 4,293/s  failing ▂▂▂▂▂▂▂▂▂▂▂▂▂▇██▇█▇█ ≤ 617/s",
    ]


def test_nothing_happens() -> None:
    assert [line.rstrip("─ ") for line in drawn(EMPTY)] == [
        "0 queries/s, up 1 d 2 h",
        "no queries",
        "no queries",
        "the server",
        "Failing names, and why",
        "no name has failed in the last 15 minutes",
        "Changes, and the time from write to serving",
        "nothing has changed since the server has read the cluster",
    ]


def test_a_share_is_told() -> None:
    picture = {**PICTURE, "rates": {**PICTURE["rates"], "exact": False}}
    assert drawn(picture)[2].endswith("  of a fair share")


@pytest.mark.parametrize("width", [120, 80, 50, 30])
def test_no_line_is_wider_and_no_name_is_cut(width: int) -> None:
    lines = drawn(PICTURE, width)
    assert max(map(len, lines)) <= width
    text = "".join("".join(lines).split())
    for each in PICTURE["slowest"]:
        letters = each["name"][:8]
        assert letters in text
    assert "…" not in "".join(lines[4:]) or width < 80


@pytest.mark.parametrize("height", [28, 30, 36, 60])
def test_it_fits_the_height_and_shows_each_list(height: int) -> None:
    picture = deepcopy(PICTURE)
    for name in ("failing", "faults", "changes", "slowest", "search_waste", "upstreams"):
        picture[name] = [{**picture[name][0], **rename(name, number)} for number in range(8)]
    lines = drawn(picture, 80, height)
    assert len(lines) <= height
    titles = [line for line in lines if line.endswith("──")]
    assert len(titles) == 6
    if height < 60:
        assert " of 8) ──" in lines[5]


def rename(name: str, number: int) -> dict[str, str]:
    key = {"search_waste": "client", "upstreams": "address"}.get(name, "name")
    return {key: f"n{number}.example."}


def test_what_clients_send_is_no_markup() -> None:
    picture = deepcopy(PICTURE)
    picture["failing"][0]["name"] = "[red]x[/red]."
    picture["failing"][0]["cause"] = "[bold]because"
    lines = drawn(picture)
    assert any(line.startswith("[red]x[/red].") for line in lines)
    assert "  [bold]because" in lines


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.123, "0.12"), (9.5, "9.50"), (12.6, "13"), (99_999, "99,999"), (123_456, "123.5k"), (2_500_000, "2.5M"), (3e9, "3.0G")],
)  # fmt: skip
def test_counts(number: float, text: str) -> None:
    assert _count(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(None, ""), (0.0123, "0.012"), (-3.5, "-3.500"), (1234.5, "1,234")]
)
def test_milliseconds(number: float | None, text: str) -> None:
    assert _milliseconds(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
