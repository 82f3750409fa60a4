"""Standard input of the flag `-source`, and the header of its recording; sessions/sources.md has what is refused."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hsdns.cli.command import FlagError
from hsdns.cli.launch import CorefileSource
from hsdns.cli.source import recorded_header, source_tokens
from hsdns.corefile.tree import CorefileError
from hsdns.recording.entry import Header
from hsdns.sources.manifest_folder import was_read
from tests.recording.recorded import HEADER, write
from tests.support.tables import values

pytestmark = pytest.mark.usefixtures("folder", "unread")

TABLES = Path(__file__).with_name("tables.txt")

NAMESPACE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


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
    assert {token.position.file for token in tokens} == {"--source"}
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


# Where the Corefile comes from.

FALLBACK = ". {\n    whoami\n    log\n}\n"


def directives(source: CorefileSource) -> list[list[str]]:
    return [
        [directive.name.text for directive in block.directives] for block in source.load().blocks
    ]


@pytest.mark.parametrize(
    ("conf", "files", "stdin", "path", "found"),
    [
        pytest.param(None, {}, "", "Corefile", [["whoami", "log"]], id="none"),
        pytest.param(None, {"Corefile": ". {\nerrors\n}"}, "", "Corefile", [["errors"]], id="in-the-folder"),
        pytest.param("", {"Corefile": ". {\nerrors\n}"}, "", "Corefile", [["errors"]], id="empty-name"),
        pytest.param("x", {"x": ". {\nerrors\n}", "Corefile": "."}, "", "x", [["errors"]], id="named"),
        pytest.param("x", {"x": ""}, "", "x", [["whoami", "log"]], id="empty-file"),
        pytest.param("x", {"x": " \n\t\n"}, "", "x", [["whoami", "log"]], id="blank-file"),
        pytest.param("x", {"x": "# nothing\n"}, "", "x", [["whoami", "log"]], id="comments-only"),
        pytest.param(None, {"Corefile": ""}, "", "Corefile", [["whoami", "log"]], id="empty-in-the-folder"),
        pytest.param("stdin", {}, ". {\nerrors\n}", "stdin", [["errors"]], id="stdin"),
        pytest.param("stdin", {}, "", "stdin", [["whoami", "log"]], id="empty-stdin"),
        pytest.param("stdin", {}, "# nothing", "stdin", [["whoami", "log"]], id="comments-on-stdin"),
    ],
)  # fmt: skip
def test_source(
    conf: str | None,
    files: dict[str, str],
    stdin: str,
    path: str,
    found: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        Path(name).write_text(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    source = CorefileSource.from_flag(conf, FALLBACK)
    assert source.path == path
    assert directives(source) == found
    assert directives(source) == found  # standard input too can be loaded again


def test_source_is_read_anew_each_time() -> None:
    Path("Corefile").write_text(". {\nerrors\n}")
    source = CorefileSource.from_flag(None, FALLBACK)
    assert directives(source) == [["errors"]]
    Path("Corefile").write_text("")
    assert directives(source) == [["whoami", "log"]]


def test_fallback_keeps_the_warnings_of_the_file() -> None:
    Path("Corefile").write_text("{$NO_SUCH_ZONE} {\n    whoami\n}\n")
    loaded = CorefileSource.from_flag(None, FALLBACK).load()
    assert len(loaded.blocks) == 1
    assert loaded.warnings == (
        'Corefile:1:1: this server block has no zone and is ignored; give it one, such as "." '
        "(the environment variable NO_SUCH_ZONE is not set)",
        "Corefile has no server block, so the default is served; choose another file with --conf",
    )


def test_a_file_that_is_not_there_is_a_warning() -> None:
    assert CorefileSource.from_flag(None, FALLBACK).load().warnings == (
        "Corefile does not exist, so the default is served; choose another file with --conf",
    )


@pytest.mark.parametrize(
    ("conf", "error"),
    [
        ("none", "none:1:1: cannot read the Corefile: No such file or directory"),
        (".", ".:1:1: cannot read the Corefile: Is a directory"),
    ],
)
def test_source_that_is_not_there(conf: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        CorefileSource.from_flag(conf, FALLBACK).load()
    assert str(caught.value) == error


def test_source_sees_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSDNS_TEST_ZONE", "example.org")
    Path("Corefile").write_text("{$HSDNS_TEST_ZONE} {\nwhoami\n}")
    (block,) = CorefileSource.from_flag(None, FALLBACK).load().blocks
    assert [key.text for key in block.keys] == ["example.org"]
