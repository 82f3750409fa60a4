"""The flag `-source`: standard input, and sources that are not there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns.assemble import assemble
from hsdns.cli.command import FlagError
from hsdns.cli.source import check_sources, recorded_header, source_tokens
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.recording.entry import Header
from hsdns.sources.manifest_folder import standard_input, was_read
from tests.recording.recorded import HEADER, write

NAMESPACE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


class Input(io.TextIOWrapper):
    """Standard input with this content; `error` is raised when it is read."""

    def __init__(
        self,
        content: bytes = b"",
        *,
        is_terminal: bool = False,
        error: type[BaseException] | None = None,
    ) -> None:
        super().__init__(_Octets(content, error))
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class _Octets(io.BytesIO):
    def __init__(self, content: bytes, error: type[BaseException] | None) -> None:
        super().__init__(content)
        self._error = error

    def read(self, size: int | None = -1, /) -> bytes:
        if self._error is not None:
            raise self._error
        return super().read(size)


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Give each test a standard input of its own."""
    standard_input.cache_clear()
    yield
    standard_input.cache_clear()


def test_words_become_tokens() -> None:
    tokens = source_tokens(["manifests", "a", "b"], None)
    assert [token.text for token in tokens] == ["manifests", "a", "b"]
    assert {token.position.file for token in tokens} == {"-source"}
    assert not was_read()


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        pytest.param(Input(NAMESPACE), "", id="pipe"),
        pytest.param(
            Input(NAMESPACE, is_terminal=True),
            "reading manifests from standard input; end them with Ctrl-D\n",
            id="terminal",
        ),
    ],
)
def test_standard_input_is_read_before_the_start(
    given: Input, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", given)
    assert [token.text for token in source_tokens(["manifests", "-"], "Corefile")] == [
        "manifests",
        "-",
    ]
    assert was_read()
    assert capsys.readouterr() == ("", printed)


@pytest.mark.parametrize(
    ("given", "conf", "error"),
    [
        pytest.param(
            Input(b"\n"), None,
            "standard input is empty, so there are no manifests; did the command before the pipe fail?", id="empty",
        ),
        pytest.param(
            Input(b"Error: no such chart\nkind: {\n"), None,
            "standard input:3: not YAML: did not find expected node content (column 1); correct the file", id="invalid",
        ),
        pytest.param(
            Input(NAMESPACE), "stdin",
            "-conf stdin and -source manifests - would both read standard input; write one of them to a file",
            id="the Corefile, too",
        ),
        pytest.param(
            Input(error=KeyboardInterrupt), None, "interrupted while manifests were read from standard input", id="Ctrl-C",
        ),
    ],
)  # fmt: skip
def test_errors(
    given: Input, conf: str | None, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", given)
    with pytest.raises(FlagError) as caught:
        source_tokens(["manifests", "-"], conf)
    assert str(caught.value) == error


KUBECONFIG = """\
current-context: lab
contexts: [{name: lab, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
"""


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param("source synthetic services=1", "", id="no files"),
        pytest.param("source manifests . a.yaml", "", id="paths"),
        pytest.param(
            "source manifests a.yaml b.yaml c.yaml",
            'source manifests: there is no file or folder "b.yaml"; correct the path or create it', id="a path that is not there",
        ),
        pytest.param("source replay shop.rec", "", id="a recording"),
        pytest.param(
            "source replay a.yaml", "source replay: a.yaml is empty, so it is no recording", id="no recording",
        ),
        pytest.param("endpoint http://127.0.0.1:1 http://127.0.0.1:2", "", id="an API server"),
        pytest.param("kubeconfig config", "", id="a kubeconfig, whose API server is away"),
        pytest.param("kubeconfig config lab", "", id="a context"),
        pytest.param("kubeconfig gone\nsource manifests .", "", id="a kubeconfig that is not used"),
        pytest.param(
            "kubeconfig gone", "cannot read kubeconfig gone: No such file or directory; correct the path or its permissions",
            id="no kubeconfig",
        ),
        pytest.param(
            "kubeconfig broken", "kubeconfig broken:2:1 is not YAML: expected the node content, but found '<stream end>'",
            id="a broken kubeconfig",
        ),
        pytest.param(
            "kubeconfig config lba", 'kubeconfig config has no context "lba"; did you mean "lab"? (it has: lab)',
            id="a kubeconfig without the context",
        ),
    ],
)  # fmt: skip
def test_sources_that_are_not_there(
    line: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("")
    write(Path("shop.rec"), [])
    Path("config").write_text(KUBECONFIG)
    Path("broken").write_text("{{\n")
    text = f". {{\nkubernetes cluster.local {{\n{line}\n}}\n}}\n"
    corefile = parse("Corefile", text=text, environ={}, known_directives=ORDER)
    configuration = assemble(corefile, default_port=53, warn=lambda sentence: None)
    if not error:
        check_sources(configuration)
        return
    with pytest.raises(FileNotFoundError) as caught:
        check_sources(configuration)
    assert str(caught.value) == error


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
