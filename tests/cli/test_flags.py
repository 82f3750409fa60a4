from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cli.command import Flag, FlagError, leading_words, parse_flags, read_time, usage
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

KNOWN = {
    "conf": Flag(str, "Corefile to load", "FILE"),
    "dns.port": Flag(int, "a port", "PORT"),
    "p": Flag(int, "the same", "PORT", alias_of="dns.port"),
    "quiet": Flag(bool, "say less"),
    "source": Flag(list, "a source", "NAME [ARGUMENT...]"),
}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param("", {}, id="none"),
        pytest.param("-conf Corefile", {"conf": "Corefile"}, id="space"),
        pytest.param("-conf=Corefile", {"conf": "Corefile"}, id="equals"),
        pytest.param("--conf Corefile", {"conf": "Corefile"}, id="two-dashes"),
        pytest.param("--conf=Corefile", {"conf": "Corefile"}, id="two-dashes-equals"),
        pytest.param("-conf=a=b", {"conf": "a=b"}, id="equals-in-value"),
        pytest.param("-conf=", {"conf": ""}, id="empty-value"),
        pytest.param("-conf -quiet", {"conf": "-quiet"}, id="value-with-a-dash"),
        pytest.param("-dns.port 1053", {"dns.port": 1053}, id="port"),
        pytest.param("-dns.port=0", {"dns.port": 0}, id="port-0"),
        pytest.param("-p 65535", {"dns.port": 65535}, id="alias"),
        pytest.param("-p 1 -dns.port 2", {"dns.port": 2}, id="last-wins"),
        pytest.param("-dns.port 2 -p 1", {"dns.port": 1}, id="last-wins-alias"),
        pytest.param("-conf a -conf b", {"conf": "b"}, id="last-of-two"),
        pytest.param("-quiet", {"quiet": True}, id="switch"),
        pytest.param("--quiet -conf a", {"quiet": True, "conf": "a"}, id="switch-then-flag"),
        *(
            pytest.param(f"-quiet={word}", {"quiet": value}, id=f"switch-{word}")
            for value, words in ((True, "1 t T true TRUE True"), (False, "0 f F false FALSE False"))
            for word in words.split()
        ),
        pytest.param("-source demo", {"source": ["demo"]}, id="list-of-one"),
        pytest.param("-source manifests a b -quiet", {"source": ["manifests", "a", "b"], "quiet": True}, id="list-ends-at-a-flag"),
        pytest.param("-source manifests - a -quiet", {"source": ["manifests", "-", "a"], "quiet": True}, id="list-with-standard-input"),
        pytest.param("-source=manifests a b", {"source": ["manifests", "a", "b"]}, id="list-equals"),
        pytest.param("--source synthetic seed=1", {"source": ["synthetic", "seed=1"]}, id="list-with-equals-in-it"),
    ],
)  # fmt: skip
def test_parse(line: str, found: dict[str, object]) -> None:
    assert parse_flags(line.split(), KNOWN) == found


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "flags that are refused"))
def test_error(line: str, error: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(line.split(), KNOWN)
    assert str(caught.value) == error


def test_usage() -> None:
    assert usage(KNOWN).splitlines() == [
        "  -conf FILE",
        "        Corefile to load",
        "  -dns.port PORT",
        "        a port",
        "  -p PORT",
        "        the same",
        "  -quiet",
        "        say less",
        "  -source NAME [ARGUMENT...]",
        "        a source",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ([], [])),
        (["web", "A", "-o", "json"], (["web", "A"], ["-o", "json"])),
        (["-o", "json", "web"], ([], ["-o", "json", "web"])),
    ],
)
def test_words_before_the_flags(words: list[str], expected: tuple[list[str], list[str]]) -> None:
    assert leading_words(words) == expected


@pytest.mark.parametrize(
    ("text", "is_zero", "seconds"),
    [("1500ms", False, 1.5), ("1m30s", True, 90.0), ("0s", True, 0.0)],
)
def test_times(text: str, is_zero: bool, seconds: float) -> None:
    assert read_time("timeout", text, "30s", is_zero=is_zero) == seconds


@pytest.mark.parametrize(
    ("text", "is_zero"), [("soon", True), ("-1s", True), ("0s", False), ("", True)]
)
def test_bad_times(text: str, is_zero: bool) -> None:
    with pytest.raises(FlagError) as error:
        read_time("timeout", text, "30s", is_zero=is_zero)
    assert str(error.value) == f'-timeout needs a time such as 30s, found "{text}"'
