from __future__ import annotations

import pytest

from hsdns.plugins.cache import Cache, Prefetch, Stale
from tests.support.plugins.setup import set_up, setup_error


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("cache 30", []),
        ("cache 30 example.org 5.example.org", []),
        (
            "cache 30s",
            [
                'Corefile:2:7: "30s" is read as a zone, as in CoreDNS; a TTL is the first argument and has no unit, as in "cache 30"'
            ],
        ),
        (
            "cache example.org 5m",
            [
                'Corefile:2:19: "5m" is read as a zone, as in CoreDNS; a TTL is the first argument and has no unit, as in "cache 300"'
            ],
        ),
    ],
)
def test_durations_are_zones(text: str, warnings: list[str]) -> None:
    found: list[str] = []
    set_up(Cache, text, warnings=found)
    assert found == warnings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Prefetch(0, 60.0, 10)),
        ("prefetch 0", Prefetch(0, 60.0, 10)),
        ("prefetch 5", Prefetch(5, 60.0, 10)),
        ("prefetch 5 10m", Prefetch(5, 600.0, 10)),
        ("prefetch 5 10m 20%", Prefetch(5, 600.0, 20)),
        ("prefetch 5 10m 90%\nprefetch 6", Prefetch(6, 60.0, 10)),
    ],
)
def test_prefetch(line: str, expected: Prefetch) -> None:
    assert set_up(Cache, f"cache {{\n{line}\n}}").prefetch == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Stale(0)),
        ("serve_stale", Stale(3600)),
        ("serve_stale 0s", Stale(0)),
        ("serve_stale 90s", Stale(90)),
        ("serve_stale 1500ms", Stale(1)),
        ("serve_stale 1h immediate", Stale(3600)),
        ("serve_stale 1h IMMEDIATE 30s", Stale(3600, ttl=30)),
        ("serve_stale 1h immediate 30s 1m", Stale(3600, ttl=30, recheck=60.0)),
        ("serve_stale 1h Verify", Stale(3600, True)),
        ("serve_stale 1h verify 100ms", Stale(3600, True, 0.1)),
        ("serve_stale 1h verify 0 30s", Stale(3600, True, 0.0, 30)),
        ("serve_stale 1h verify 100ms 30s 5m", Stale(3600, True, 0.1, 30, 300.0)),
        ("serve_stale 1h verify 1s\nserve_stale", Stale(3600)),
    ],
)
def test_serve_stale(line: str, expected: Stale) -> None:
    assert set_up(Cache, f"cache {{\n{line}\n}}").stale == expected


@pytest.mark.parametrize(
    ("line", "prefers", "keeps", "failure"),
    [
        ("", False, False, 5),
        ("keepttl", False, True, 5),
        ("servfail 0", False, False, 0),
        ("servfail 5m", False, False, 300),
        ("serve_stale\nserve_stale_policy PREFER_positive", True, False, 5),
        ("serve_stale_policy prefer_positive\nserve_stale 1m", True, False, 5),
        ("serve_stale_policy prefer_positive\nserve_stale 0s", False, False, 5),
    ],
)
def test_other_options(line: str, prefers: bool, keeps: bool, failure: int) -> None:
    cache = set_up(Cache, f"cache {{\n{line}\n}}")
    assert (cache.prefers_positive, cache.keeps_ttl) == (prefers, keeps)
    assert [half.failure for half in (cache.success, cache.denial)] == [failure] * 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "prefetch",
            '1: property "prefetch" takes 1 to 3 arguments (amount, duration, percentage), found 0',
        ),
        (
            "prefetch 1 1m 10% x",
            '1: property "prefetch" takes 1 to 3 arguments (amount, duration, percentage), found 4',
        ),
        ("prefetch -1", "10: -1 is out of range, allowed is 0 or more"),
        (
            "prefetch 1 60",
            '12: "60" is not a duration; write a number and a unit such as "5s"',
        ),
        ("prefetch 1 1m 10", '15: "10" is not a percentage from 10% to 90%'),
        ("prefetch 1 1m 9%", '15: "9%" is not a percentage from 10% to 90%'),
        ("prefetch 1 1m 91%", '15: "91%" is not a percentage from 10% to 90%'),
        ("serve_stale -1h", "13: -1h is out of range, allowed is 0s or more"),
        (
            "serve_stale 1h verfy",
            '16: "verfy" is not one of: immediate, verify; did you mean "verify"?',
        ),
        ("serve_stale 1h verify -1s", "23: -1s is out of range, allowed is 0s or more"),
        (
            "serve_stale 1h immediate 500ms",
            '26: a TTL must be a whole number of seconds, found "500ms"',
        ),
        (
            "serve_stale 1h immediate 30s 6m",
            "30: 6m is out of range, allowed is 0s to 300s",
        ),
        (
            "serve_stale 1h immediate 30s 5m 1s",
            '33: serve_stale has too many arguments: "1s"',
        ),
        (
            "serve_stale 1h verify 1s 30s 5m 1s",
            '33: serve_stale has too many arguments: "1s"',
        ),
        ("serve_stale\nserve_stale_policy oldest", None),
        (
            "serve_stale_policy prefer_positive",
            "1: serve_stale_policy has no effect without serve_stale; add serve_stale",
        ),
        ("servfail 301s", "10: 301s is out of range, allowed is 0s to 300s"),
        ("keepttl yes", '9: property "keepttl" takes no argument, found 1'),
    ],
    ids=lambda text: (text or "policy").replace("\n", " ").partition(":")[0],
)
def test_errors(line: str, sentence: str | None) -> None:
    where = "3:" if sentence else "4:20: "
    expected = sentence or '"oldest" is not one of: prefer_positive'
    assert setup_error(Cache, f"cache {{\n{line}\n}}") == f"Corefile:{where}{expected}"


def test_a_policy_may_be_given_once() -> None:
    lines = "serve_stale\nserve_stale_policy prefer_positive\nserve_stale_policy prefer_positive"
    assert setup_error(Cache, f"cache {{\n{lines}\n}}") == (
        'Corefile:5:1: property "serve_stale_policy" of cache may be given only once'
    )
