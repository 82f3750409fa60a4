"""Standard input is read once."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from hsdns.sources import manifest_folder as module
from hsdns.sources.manifest_folder import standard_input


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a standard input of its own."""
    standard_input.cache_clear()
    monkeypatch.setattr(module, "MAX_FILE_LEN", 100)
    yield
    standard_input.cache_clear()


def give(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_no_more_than_a_file_may_have_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    give(b"#" * 300, monkeypatch)
    standard_input()
    assert len(sys.stdin.buffer.read()) == 199
