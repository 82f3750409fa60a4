"""Standard input of the flag `-source`, and the header of its recording; sessions/sources.md has what is refused."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.cli.command import FlagError
from hsdns.cli.source import recorded_header, source_tokens
from hsdns.recording.entry import Header
from hsdns.sources.manifest_folder import standard_input, was_read
from tests.recording.recorded import HEADER, write
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

NAMESPACE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Give each test a standard input of its own."""
    standard_input.cache_clear()
    yield
    standard_input.cache_clear()


@pytest.mark.parametrize(("words", "is_terminal", "printed"), values(TABLES, "standard input is read before the start"))  # fmt: skip
def test_standard_input_is_read_before_the_start(
    words: str,
    is_terminal: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = io.TextIOWrapper(io.BytesIO(NAMESPACE))
    given.isatty = lambda: is_terminal  # type: ignore[method-assign]  # it is no real terminal
    monkeypatch.setattr(sys, "stdin", given)
    tokens = source_tokens(words.split(), "Corefile")
    assert " ".join(token.text for token in tokens) == words
    assert {token.position.file for token in tokens} == {"-source"}
    assert was_read() is words.endswith("-")
    assert capsys.readouterr() == ("", printed)


def test_ctrl_c_ends_the_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted()))
    with pytest.raises(
        FlagError, match=r"^interrupted while manifests were read from standard input$"
    ):
        source_tokens(["manifests", "-"], None)


@pytest.mark.parametrize(
    ("words", "header"),
    [
        (["replay", "shop.rec", "at=1s"], HEADER),
        (["replay", "none.rec"], None),
        (["replay", "a.yaml"], None),
        (["replay"], None),
        (["manifests", "shop.rec"], None),
        ([], None),
    ],
)
def test_the_header_of_a_recording(
    words: list[str], header: Header | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has none is refused by check_sources()."""
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("")
    write(Path("shop.rec"), [])
    assert recorded_header(source_tokens(words, None)) == header
