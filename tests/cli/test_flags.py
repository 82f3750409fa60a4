from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns.cli.command import Flag, FlagError, parse_flags, read_time
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

KNOWN = {
    "conf": Flag(str, "Corefile to load", "FILE"),
    "dns.port": Flag(int, "a port", "PORT"),
    "p": Flag(int, "the same", "PORT", alias_of="dns.port"),
    "quiet": Flag(bool, "say less"),
    "source": Flag(list, "a source", "NAME [ARGUMENT...]"),
}


@pytest.mark.parametrize(("line", "found"), columns(TABLES, "flags that are read"))
def test_parse(line: str, found: str) -> None:
    assert parse_flags(line.split(), KNOWN) == json.loads(found)


@pytest.mark.parametrize(("line", "error"), columns(TABLES, "flags that are refused"))
def test_error(line: str, error: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(line.split(), KNOWN)
    assert str(caught.value) == error


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
