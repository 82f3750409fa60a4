"""Standard input is read once."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from hsdns.sources import manifest_folder as module
from hsdns.sources.manifest_folder import standard_input, was_read


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a standard input of its own."""
    standard_input.cache_clear()
    monkeypatch.setattr(module, "MAX_FILE_LEN", 100)
    yield
    standard_input.cache_clear()


def give(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    give(b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", monkeypatch)
    assert not was_read()
    found = standard_input()
    assert found is not None
    assert [(str(each), each.where) for each in found.documents] == [
        ("Namespace shop", "standard input:1")
    ]
    assert standard_input() is found
    assert was_read()


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_nothing_in_it(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    give(content, monkeypatch)
    assert standard_input() is None
    assert was_read()


def test_no_more_than_a_file_may_have_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    give(b"#" * 300, monkeypatch)
    standard_input()
    assert len(sys.stdin.buffer.read()) == 199
