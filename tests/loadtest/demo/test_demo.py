"""What the demonstration starts, and what it expects of each server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from hsdns.corefile.parser import parse
from hsdns.load.target import Target
from hsdns.plugins import ORDER
from loadtest.demo.demo import BAD, Subject, corefile, judged, load_words, subjects
from tests.load.cli.test_settings import settings

HSDNS, FROZEN = subjects(None)
CACHE = subjects("coredns")[-1]


def report(stalest: int | None = None, **counts: int) -> dict[str, Any]:
    verdicts = {word: counts.get(word, 0) for word in ("right", *BAD)}
    ages = [{"name": "max", "us": stalest}]
    return {"seconds": 10.0, "verdicts": {"counts": verdicts, "stale_age": ages, "changes": 50}}


@pytest.mark.parametrize(
    ("subject", "found", "line", "is_good"),
    [
        (HSDNS, report(right=9), "hsdns: 9 answers right, none that was not; under 50 changes", True),
        (HSDNS, report(300_000, right=9, stale=1), "hsdns: 9 answers right, 1 stale, by up to 0.3 s; under 50 changes", False),
        (HSDNS, report(), "hsdns: 0 answers right, none that was not; under 50 changes", False),
        (FROZEN, report(9_500_000, right=9, stale=5), "hsdns with fault freeze: 9 answers right, 5 stale, by up to 9.5 s; under 50 changes", True),
        (FROZEN, report(6_900_000, right=9, stale=5), "hsdns with fault freeze: 9 answers right, 5 stale, by up to 6.9 s; under 50 changes", False),
        (FROZEN, report(right=9), "hsdns with fault freeze: 9 answers right, none that was not; under 50 changes", False),
        (CACHE, report(7_000_000, right=9, stale=5), "CoreDNS with cache 30: 9 answers right, 5 stale, by up to 7.0 s; under 50 changes", True),
    ],
)  # fmt: skip
def test_what_is_expected(
    subject: Subject, found: dict[str, Any], line: str, is_good: bool
) -> None:
    assert judged(subject, found) == (line, is_good)


def test_servers() -> None:
    assert [each.name for each in subjects(None)] == ["hsdns", "frozen"]
    assert [each.name for each in subjects("/bin/coredns")] == ["hsdns", "frozen", "coredns", "cache"]  # fmt: skip


@pytest.mark.parametrize("subject", subjects("coredns"))
def test_corefiles(subject: Subject) -> None:
    text = corefile(5300, 8001, subject.directives)
    (block,) = parse("Corefile", text=text, environ={}, known_directives=ORDER).blocks
    assert [key.text for key in block.keys] == ["cluster.local:5300", "in-addr.arpa:5300"]
    names = [each.name.text for each in block.directives]
    added = [each.split()[0] for each in subject.directives]
    assert names == ["bind", *added, "kubernetes"]


def test_the_load_is_one(tmp_path: Path) -> None:
    options = argparse.Namespace(rate="10", time="1s", churn=5)
    words = load_words({"hsdns": 5300, "hsdns with fault freeze": 5301}, 8001, tmp_path, options)
    found = settings(words[words.index("load") + 1 :])
    assert found.targets == [
        Target("hsdns", "127.0.0.1", 5300),
        Target("hsdns with fault freeze", "127.0.0.1", 5301),
    ]
    assert (found.api, found.churn, found.flags.verify) == (("127.0.0.1", 8001), 5.0, True)
